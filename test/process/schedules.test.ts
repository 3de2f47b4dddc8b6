import { setTimeout as delay } from 'node:timers/promises';
import { connect, pidText, scheduledRun, type TaskMasterClient } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { startNode } from '../support/processes/start-node.ts';
import { startProxy } from '../support/processes/start-proxy.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Numbers of kills and of moves. 20 of each for a long run. */
const KILLS = Number(process.env.TASKMASTER_KILLS ?? 3);
const MOVES = Number(process.env.TASKMASTER_MOVES ?? 2);
const GROUPS = ['red', 'green', 'blue', 'white'];
const EVERY_MS = 200;

/** The runs that a worker has completed, of one schedule in each group. */
class Runs {
  /** Completed runs by group: instants in ms. Completions whose answer was lost count. */
  readonly #seen = new Map(GROUPS.map((group) => [group, new Set<number>()]));
  /** Runs that came again after their completion was acknowledged. */
  readonly doubled: string[] = [];
  readonly #done = new Set<string>();
  readonly #stop = new AbortController();
  readonly #working: Promise<void>;

  constructor(client: TaskMasterClient) {
    this.#working = this.#work(client);
  }

  /** All runs so far. */
  get count(): number {
    return [...this.#seen.values()].reduce((sum, { size }) => sum + size, 0);
  }

  async #work(client: TaskMasterClient): Promise<void> {
    const queues = GROUPS.map((group) => client.queue(`${group}#jobs`));
    while (!this.#stop.signal.aborted) {
      try {
        for (const task of await client.lease({ queues, max: 100, wait: 500, timeout: '5s', leaseDuration: '2s' })) {
          const run = `${task.queue} ${pidText(task.pid)}`;
          if (this.#done.has(run)) this.doubled.push(run);
          this.#seen.get(task.queue.split('#')[0] ?? '')?.add(scheduledRun(task.pid)?.at.getTime() ?? 0);
          await task.complete();
          this.#done.add(run);
        }
      } catch {
        // The node is down or the group moves: the leases end, and the tasks come again.
      }
    }
  }

  /** Stops when all runs up to now have come. Returns those that have not: `group instant`. */
  async missed(client: TaskMasterClient): Promise<string[]> {
    const until = Date.now();
    const expected = await Promise.all(GROUPS.map((group) => instantsOf(client, group, until)));
    const missing = (): string[] =>
      GROUPS.flatMap((group, index) =>
        (expected[index] ?? [])
          .filter((instant) => !this.#seen.get(group)?.has(instant))
          .map((instant) => `${group} ${new Date(instant).toISOString()}`),
      );
    await eventually(() => expect(missing()).toEqual([]), { withinMs: 20_000 }).catch(() => {});
    this.#stop.abort();
    await this.#working;
    return missing();
  }
}

/** The instants at which the schedule of a group should have run. */
async function instantsOf(client: TaskMasterClient, group: string, until: number): Promise<number[]> {
  const schedule = await client.schedules.get(`${group}#tick`, { timeout: '20s' });
  const from = schedule?.createdAt.getTime() ?? 0;
  return Array.from({ length: Math.floor((until - from) / EVERY_MS) }, (_, index) => from + (index + 1) * EVERY_MS);
}

async function putAll(client: TaskMasterClient): Promise<void> {
  for (const group of GROUPS) {
    const options = { queue: `${group}#jobs`, data: 'tick', every: EVERY_MS, missedRuns: 'all' } as const;
    await client.schedules.put(`${group}#tick`, options);
  }
}

test(`schedules of a node that is killed ${KILLS} times run each time once`, {
  timeout: 60_000 + KILLS * 15_000,
}, async () => {
  await using dir = await temporaryDirectory();
  const random = new SeededRandom(1);
  let node = await startNode({ dir: dir.path });
  const { grpcPort } = node;
  await using _last = { [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
  await using client = await connect(node.endpoint);
  await putAll(client);
  const runs = new Runs(client);
  for (let kill = 1; kill <= KILLS; kill++) {
    const enough = runs.count + 4;
    await eventually(() => expect(runs.count).toBeGreaterThan(enough), { withinMs: 30_000 });
    await delay(random.int(EVERY_MS)); // A random moment between two runs.
    await node.kill();
    node = await startNode({ dir: dir.path, grpcPort });
    // As each start of a program does.
    await putAll(client);
  }
  const missed = await runs.missed(client);
  console.log(`${KILLS} kills: ${runs.count} runs, missed ${missed.length}, doubled ${runs.doubled.length}`);
  expect(missed).toEqual([]);
  expect(runs.doubled).toEqual([]);
});

/** Number of moves of the groups so far. */
async function movesOf(client: TaskMasterClient): Promise<number> {
  const { partitions } = await client.cluster.partitions({ timeout: '20s' });
  const ids = new Set(GROUPS.map((group) => partitionOf(group, partitions.length)));
  return partitions.reduce((sum, { id, epoch }) => sum + (ids.has(id) ? epoch : 0), 0);
}

test(`schedules whose groups move ${MOVES} times run each time once`, {
  timeout: 90_000 + MOVES * 20_000,
}, async () => {
  await using cluster = await TestCluster.start({ nodes: 2 });
  await using proxy = await startProxy(cluster.endpoints);
  await using client = await connect(proxy.endpoint);
  await putAll(client);
  const runs = new Runs(client);
  const before = await movesOf(client);
  let moves = 0;
  const names = ['a', 'b'];
  for (let round = 1; moves < MOVES; round++) {
    // A new member joins and takes some groups. The oldest one leaves and hands all its groups over.
    const [oldest = ''] = names.splice(0, 1);
    names.push(`n${round}`);
    await cluster.add(`n${round}`);
    await client.cluster.drain(oldest, { timeout: '30s' });
    await cluster.node(oldest).process.ended;
    moves = (await movesOf(client)) - before;
  }
  const missed = await runs.missed(client);
  console.log(`${moves} moves: ${runs.count} runs, missed ${missed.length}, doubled ${runs.doubled.length}`);
  expect(missed).toEqual([]);
  expect(runs.doubled).toEqual([]);
});
