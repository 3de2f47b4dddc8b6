import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { connect, pidText, type TaskMasterClient } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { startProxy } from '../support/processes/start-proxy.ts';

const SEED = Number(process.env.TASKMASTER_SEED ?? 1);
const FLOWS = Number(process.env.TASKMASTER_FLOWS ?? 40);
const KILLS = Number(process.env.TASKMASTER_KILLS ?? 1);
/** Nodes that join or leave. */
const MOVES = Number(process.env.TASKMASTER_MOVES ?? 2);
/** Of each flow, beside the task that waits for them. */
const CHILDREN = 9;
const GROUPS = Array.from({ length: 8 }, (_, number) => `flows-${number}`);
/** A kind that no worker runs. */
const LOST = 'lost';
/** Flows of a group that are there at the same time. */
const AT_ONCE = 20;
const LASTS_MS = 60_000 + FLOWS * 100 + (KILLS + MOVES) * 30_000;

/** Enqueues the flows of a group, a few ahead of their sums. */
async function enqueueFlows(client: TaskMasterClient, at: number, ended: ReadonlyMap<string, number>): Promise<void> {
  const group = GROUPS[at] ?? '';
  const mine = Array.from({ length: FLOWS }, (_, number) => number).filter((number) => number % GROUPS.length === at);
  for (const [index, number] of mine.entries()) {
    const flow = client.flow();
    const names = Array.from({ length: CHILDREN }, (_, child) => `c${child}`);
    for (const [child, name] of names.entries())
      flow.add(name, `${group}#children`, number, { pid: `${number}-${name}`, kind: `part@${child % 3}` });
    flow.add('sum', `${group}#sums`, number, { pid: `${number}`, after: names, collect: true, kind: 'sum' });
    await flow.commit({ requestId: `flow-${number}` });
    const before = mine[index - AT_ONCE];
    if (before === undefined) continue;
    await eventually(() => expect(ended.has(`${before}`)).toBe(true), { withinMs: LASTS_MS });
  }
}

/** Kills nodes and starts them again, and lets nodes join and leave. */
async function disturb(cluster: TestCluster, client: TaskMasterClient): Promise<void> {
  const random = new SeededRandom(SEED);
  const names = new Set(['a', 'b', 'c']);
  let joined = 0;
  for (const fault of random.shuffle([...Array(KILLS).fill('kill'), ...Array(MOVES).fill('move')])) {
    if (fault === 'kill') {
      const name = random.pick([...names]);
      await cluster.node(name).kill();
      await cluster.start(name);
    } else if (names.size > 3) {
      const name = random.pick([...names]);
      await client.cluster.drain(name);
      await cluster.node(name).process.ended;
      names.delete(name);
    } else {
      const name = `n${joined++}`;
      await cluster.add(name);
      names.add(name);
    }
  }
}

/** Queues that are full most of the time: one refuses more of a key, the other one drops its oldest. */
const FULL = ['refuse', 'drop-oldest'] as const;
const KEYS = 3;
const CAP = 2;

/**
 * Enqueues tasks of few limit keys, each of which may run one at once, until the signal. Returns their PIDs. The queue that
 * refuses makes it wait for the workers.
 */
async function fill(client: TaskMasterClient, wrong: string[], signal: AbortSignal): Promise<string[]> {
  const pids: string[] = [];
  for (let number = 0; !signal.aborted; number++) {
    const limitKey = `key-${number % KEYS}`;
    for (const name of FULL) {
      const pid = `${name}-${number}`;
      pids.push(pid);
      const queue = client.queue<string>(`keys#${name}`);
      await queue.enqueue(limitKey, { pid, limitKey });
      const { available, delayed } = await queue.stats();
      // A task of each key may have come back after its lease.
      if (available + delayed > KEYS * (CAP + 1)) wrong.push(`${available + delayed} tasks wait in ${name}`);
    }
  }
  return pids;
}

async function limitKeys(client: TaskMasterClient): Promise<void> {
  await client.limitQueues('keys#*', { keys: '*', maxLeased: 1 });
  for (const whenFull of FULL) await client.queueSettings.put(`keys#${whenFull}`, { maxKeyBacklog: CAP, whenFull });
}

/** Counts the ends of tasks by PID, from the events of their groups. Rejects if one was missed. */
async function countEnds(
  client: TaskMasterClient,
  group: string,
  after: string,
  ended: Map<string, number>,
  signal: AbortSignal,
) {
  const kinds = ['completed', 'dead-lettered', 'cancelled', 'removed'] as const;
  for await (const { kind, pid, queue } of client.events(`${group}#*`, { after, kinds, signal })) {
    const isDropped = kind === 'cancelled' && queue === 'keys#drop-oldest';
    if ((kind !== 'completed' && !isDropped) || pid === undefined) throw new Error(`${group}: ${kind}`);
    ended.set(pidText(pid), (ended.get(pidText(pid)) ?? 0) + 1);
  }
}

test('each task ends once, at a worker of its kind and within limits and caps, while nodes are killed, join and leave', {
  timeout: LASTS_MS,
}, async () => {
  await using cluster = await TestCluster.start();
  // All first nodes may leave.
  await using proxy = await startProxy(cluster.endpoints);
  // A call may meet one kill after the other.
  const retry = { maxAttempts: 100 };
  await using client = await connect({ endpoints: proxy.endpoint, timeout: '60s', retry });
  const began = performance.now();
  const ended = new Map<string, number>();
  const end = new AbortController();
  const counting: Promise<void>[] = [];
  for (const group of [...GROUPS, 'keys']) {
    const after = await client.eventPosition(`${group}#*`);
    counting.push(countEnds(client, group, after, ended, end.signal));
  }
  const counted = Promise.all(counting);
  counted.catch(() => {});
  const wrong: string[] = [];
  const options = { concurrency: 20, leaseDuration: '5s' } as const;
  const children = GROUPS.map((group) => client.queue<number>(`${group}#children`));
  for (const queue of children) await queue.enqueue(0, { pid: '!', kind: LOST });
  const working = [['part@0', 'part@1'], ['part@*']].map((kinds) =>
    client.worker(
      children,
      async ({ data, kind = '' }) => {
        if (!kinds.some((one) => one === kind || (one === 'part@*' && kind.startsWith('part@')))) wrong.push(kind);
        return { result: data };
      },
      { ...options, kinds },
    ),
  );
  await using _working = {
    [Symbol.asyncDispose]: async () => void (await Promise.all(working.map((one) => one.stop()))),
  };
  await using summing = client.worker(
    GROUPS.map((group) => client.queue<number>(`${group}#sums`)),
    async (task) => {
      const signals = await task.signals<number>();
      const heard = new Set(signals.map(({ child }) => child && pidText(child.pid)));
      if (task.kind !== 'sum') wrong.push(`${task.kind}`);
      const isRight = signals.every(({ child, data }) => child?.completed && data === task.data);
      if (!isRight || signals.length !== CHILDREN || heard.size !== CHILDREN) wrong.push(`${task.data}: ${[...heard]}`);
    },
    { ...options, kinds: ['sum'] },
  );
  await limitKeys(client);
  const running = new Set<string>();
  await using ofKeys = client.worker(
    FULL.map((name) => client.queue<string>(`keys#${name}`)),
    async ({ data: key }) => {
      if (running.has(key)) wrong.push(`two tasks of ${key} ran at once`);
      running.add(key);
      await yieldToOthers();
      running.delete(key);
    },
    { concurrency: 20, leaseDuration: '20s' },
  );
  for (const worker of working) worker.start();
  summing.start();
  ofKeys.start();
  const disturbed = new AbortController();
  const filled = fill(client, wrong, disturbed.signal);
  filled.catch(() => {});
  const enqueued = Promise.all(GROUPS.map((_, at) => enqueueFlows(client, at, ended)));
  await disturb(cluster, client);
  disturbed.abort();
  const keyed = await filled;
  await enqueued;
  const all = FLOWS * (CHILDREN + 1) + keyed.length;
  await Promise.race([
    counted,
    eventually(() => expect(ended.size).toBe(all), { withinMs: LASTS_MS - 30_000, everyMs: 100 }),
  ]);
  expect(wrong).toEqual([]);
  expect([...ended].filter(([, times]) => times !== 1)).toEqual([]);
  for (const queue of children)
    expect((await queue.stats()).kinds).toMatchObject({ count: 1, most: [{ kind: LOST, available: 1, leased: 0 }] });
  end.abort();
  await counted.catch(() => {});
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  console.log(
    `seed ${SEED}: ${FLOWS} flows of ${CHILDREN + 1} tasks, ${keyed.length} with keys, ${KILLS} kills, ${MOVES} moves: ${seconds} s`,
  );
});
