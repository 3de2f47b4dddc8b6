import { connect, pidText, type TaskMasterClient } from '@taskmaster/client';
import { partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { PARTITIONS, TestCluster } from '../support/processes/start-cluster.ts';
import { startProxy } from '../support/processes/start-proxy.ts';

const GROUPS = ['shop', 'bank', 'press', 'mill'];

/** Follows a group, and holds each event against those before it. */
class Follower {
  readonly group: string;
  /** By PID, the kinds in order. */
  readonly seen = new Map<string, string[]>();
  missed = 0;
  /** Resolves with why it ended. */
  readonly over: Promise<unknown>;

  constructor(client: TaskMasterClient, group: string, after: string, signal: AbortSignal) {
    this.group = group;
    this.over = this.#follow(client, after, signal).catch((error: unknown) => error);
  }

  async #follow(client: TaskMasterClient, after: string, signal: AbortSignal): Promise<void> {
    for await (const { kind, pid } of client.events(`${this.group}#*`, { after, signal })) {
      if (kind === 'missed') this.missed++;
      if (pid === undefined) continue;
      const kinds = this.seen.get(pidText(pid)) ?? [];
      this.seen.set(pidText(pid), [...kinds, kind]);
    }
  }
}

/** Enqueues tasks and completes them, until the signal. Returns the PIDs of those whose ends were acknowledged. */
async function work(client: TaskMasterClient, group: string, signal: AbortSignal): Promise<Set<string>> {
  const done = new Set<string>();
  const queue = client.queue<number>(`${group}#jobs`);
  for (let number = 0; !signal.aborted; number++) {
    await queue.enqueue(number, { pid: `${group}-${number}` });
    for (const task of await queue.lease({ max: 10 })) {
      await task.complete();
      done.add(pidText(task.pid));
    }
  }
  return done;
}

test('readers miss no event and get none twice, while their groups move and a node is killed', {
  timeout: 120_000,
}, async () => {
  await using cluster = await TestCluster.start({ nodes: 2 });
  await using proxy = await startProxy(cluster.endpoints);
  await using client = await connect({ endpoints: proxy.endpoint, timeout: '60s' });
  await using reading = await connect(proxy.endpoint);
  const [stop, end] = [new AbortController(), new AbortController()];
  const followers: Follower[] = [];
  for (const group of GROUPS) {
    followers.push(new Follower(reading, group, await reading.eventPosition(`${group}#*`), end.signal));
  }
  const working = Promise.all(GROUPS.map((group) => work(client, group, stop.signal)));
  // If the test fails before its end, this is not awaited, and fails because the client is closed.
  working.catch(() => {});
  const partitions = async () => (await client.cluster.partitions({ timeout: '20s' })).partitions;
  const ids = new Set(GROUPS.map((group) => partitionOf(group, PARTITIONS)));
  const epochs = async () => (await partitions()).reduce((sum, { id, epoch }) => sum + (ids.has(id) ? epoch : 0), 0);
  const enough = async (more: number) => {
    const wanted = followers.map(({ seen }) => seen.size + more);
    await eventually(() => followers.every(({ seen }, at) => expect(seen.size).toBeGreaterThan(wanted[at] ?? 0)), {
      withinMs: 60_000,
    });
  };

  await enough(10);
  const before = await epochs();
  await cluster.add('c');
  await client.cluster.drain('a', { timeout: '60s' });
  await cluster.node('a').process.ended;
  await enough(10);
  // Those of `a` have moved.
  expect((await epochs()) - before).toBeGreaterThan(0);
  await cluster.node('b').kill();
  await cluster.start('b');
  await enough(10);

  stop.abort();
  const done = await working;
  for (const [at, follower] of followers.entries()) {
    const ended = [...(done[at] ?? [])];
    await eventually(() => expect(ended.filter((pid) => !follower.seen.get(pid)?.includes('completed'))).toEqual([]), {
      withinMs: 20_000,
    });
    expect(follower.missed, follower.group).toBe(0);
    // `leased` may come twice: a lease whose answer the kill has lost expires.
    for (const kind of ['enqueued', 'completed']) {
      const doubled = [...follower.seen].filter(([, kinds]) => kinds.indexOf(kind) !== kinds.lastIndexOf(kind));
      expect(doubled).toEqual([]);
    }
  }
  end.abort();
  await Promise.all(followers.map(({ over }) => over));
});
