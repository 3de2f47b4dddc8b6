import {
  CancelledError,
  connect,
  type LeasedTask,
  LeaseExpiredError,
  LeaseLostError,
  pidText,
} from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { startProgram } from './programs.ts';

describe('a task that kills its workers', { timeout: 120_000 }, () => {
  test('is a dead letter after its last attempt, even if the node was killed in between; all others are completed', async () => {
    await using dir = await temporaryDirectory();
    let node = await startNode({ dir: dir.path });
    await using _last = { [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
    await using client = await connect({ endpoints: node.endpoint, timeout: '60s', retry: { maxAttempts: 1_000 } });
    const jobs = client.queue<string>('work#jobs');
    await jobs.enqueueMany(Array.from({ length: 50 }, (_, number) => ({ data: `before ${number}` })));
    await jobs.enqueue('poison', { pid: 'poison', retry: { maxAttempts: 3, deadLetterQueue: 'work#poisonous' } });
    await jobs.enqueueMany(Array.from({ length: 50 }, (_, number) => ({ data: `after ${number}` })));

    // The node may not know that the poison had begun when the first worker died. Its neighbours lose no attempt by that.
    for (let death = 1; death <= 4; death++) {
      const states: (string | undefined)[] = [];
      await eventually(
        async () => {
          states.push((await jobs.get(['poison']))[0]?.state);
          expect(states.at(-1)).not.toBe('leased');
        },
        { withinMs: 60_000 },
      );
      if (states.at(-1) === 'not-found') break;
      await using worker = await startProgram('poisoned-worker.ts', node.endpoint, jobs.name);
      expect(await worker.ended).toMatchObject({ signal: 'SIGKILL' });
      if (death !== 2) continue;
      await node.kill();
      node = await startNode({ dir: dir.path, grpcPort: node.grpcPort });
    }
    await using worker = await startProgram('poisoned-worker.ts', node.endpoint, jobs.name);
    const poisonous = client.queue<string>('work#poisonous');
    await eventually(
      async () => {
        expect(await jobs.stats()).toMatchObject({ available: 0, leased: 0, delayed: 0 });
        const [letter] = await poisonous.peek();
        expect(letter).toMatchObject({ data: 'poison', attempts: 3, state: 'available' });
      },
      { withinMs: 60_000 },
    );
    expect(worker.process.exitCode).toBeNull();
    expect(await poisonous.stats()).toMatchObject({ available: 1 });
  });
});

/** The node of the tests that need one that runs. */
let node: RunningNode;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node[Symbol.asyncDispose]());

describe('a worker that is killed with a hundred tasks leased ahead', { timeout: 120_000 }, () => {
  test('costs an attempt only to the two tasks that it had begun', async () => {
    await using client = await connect(node.endpoint);
    const jobs = client.queue<string>('ahead#jobs');
    const number = (from: number, data: string) =>
      Array.from({ length: 200 }, (_, at) => ({ data, pid: String(from + at) }));
    await jobs.enqueueMany([
      ...number(1_000, 'quick'),
      ...number(2_000, 'long').slice(0, 2),
      ...number(3_000, 'later'),
    ]);
    await using worker = await startProgram('ahead-worker.ts', node.endpoint, jobs.name);
    await eventually(
      async () => {
        expect(worker.stdout).toContain('began');
        expect((await jobs.stats()).leased).toBeGreaterThanOrEqual(100);
        const begun = (await jobs.get(['2000', '2001', '3000'])).map((task) => task.begun);
        expect(begun).toEqual([true, true, false]);
      },
      { withinMs: 60_000 },
    );
    worker.process.kill('SIGKILL');
    expect(await worker.ended).toMatchObject({ signal: 'SIGKILL' });
    await eventually(async () => expect((await jobs.stats()).leased).toBe(0), { withinMs: 60_000 });

    const all = (await jobs.peek({ limit: 1_000 })).filter(({ data }) => data === 'later');
    const tried = all.filter(({ attempts, failures }) => attempts + failures.length > 0);
    expect(tried.map(({ pid }) => pidText(pid))).toEqual([]);
    const charged = { attempts: 1, failures: [{ attempt: 1 }] };
    expect(await jobs.get(['2000', '2001'])).toMatchObject([charged, charged]);
    expect(all).toHaveLength(200);
    expect(all.filter(({ interruptions }) => interruptions === 1).length).toBeGreaterThanOrEqual(98);
    expect(all.filter(({ interruptions }) => interruptions > 1)).toEqual([]);
  });
});

describe('a worker whose handler blocks its event loop', { timeout: 120_000 }, () => {
  test('for longer than the lease keeps the lease and completes the task', async () => {
    await using client = await connect(node.endpoint);
    const jobs = client.queue('blocked#jobs');
    await jobs.enqueue('compute');
    const LEASE_MS = 2_000;
    await using worker = await startProgram('blocking-worker.ts', node.endpoint, jobs.name, LEASE_MS, 3 * LEASE_MS);
    await eventually(() => expect(worker.stdout).toContain('began'), { withinMs: 60_000 });
    // Another client waits for the task all the time.
    const others = jobs.lease({ wait: 2.5 * LEASE_MS });
    await eventually(() => expect(worker.stdout).toMatch(/completed|lost|failed/), { withinMs: 60_000 });
    expect(worker.stdout.trim().split('\n')).toEqual(['began attempt 1', 'still leased: true', 'completed']);
    expect(await others).toEqual([]);
    expect(await jobs.stats()).toMatchObject({ available: 0, leased: 0, completed: 1 });
  });
});

describe('a client that is closed while a handler runs', { timeout: 120_000 }, () => {
  test('releases the task for the next worker long before the lease ends, and the attempt does not count', async () => {
    const client = await connect(node.endpoint);
    await using other = await connect(node.endpoint);
    await client.queue('closed#jobs').enqueue('long', { retry: { maxAttempts: 1 } });
    const begun = Promise.withResolvers<AbortSignal>();
    const handler = ({ signal }: LeasedTask<unknown>): Promise<never> => {
      begun.resolve(signal);
      return new Promise(() => {});
    };
    client.worker('closed#jobs', handler, { leaseDuration: '10m' }).start();
    const signal = await begun.promise;
    const next = other.queue('closed#jobs').lease({ wait: '60s' });
    await client.close({ timeout: '100ms' });
    expect(signal.reason).toBeInstanceOf(CancelledError);
    expect(await next).toMatchObject([{ data: 'long', attempt: 1 }]);
  });
});

describe('a worker that is cut off from its node', { timeout: 120_000 }, () => {
  test('learns from its own clock that its lease is over, and cannot complete a task that another worker has leased', async () => {
    await using dir = await temporaryDirectory();
    let node = await startNode({ dir: dir.path });
    await using _last = { [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
    const patient = { endpoints: node.endpoint, timeout: '60s', retry: { maxAttempts: 1_000 } } as const;
    await using client = await connect(patient);
    await using other = await connect(patient);
    const jobs = client.queue<string>('work#jobs');
    const done = client.queue<string>('work#done');
    await jobs.enqueue('a');
    const [task] = await jobs.lease({ leaseDuration: '1s' });
    if (task === undefined) throw new Error('nothing was leased');
    const { signal, leaseToken } = task;
    await node.kill();
    await eventually(() => expect(signal.aborted).toBe(true));
    expect(signal.reason).toBeInstanceOf(LeaseExpiredError);

    node = await startNode({ dir: dir.path, grpcPort: node.grpcPort });
    const [again] = await other.queue<string>('work#jobs').lease({ wait: '30s' });
    expect(again).toMatchObject({ data: 'a', attempt: 2 });
    expect(again?.leaseToken).toBeGreaterThan(leaseToken);
    await expect(task.complete({ enqueue: [done.task('by the first')] })).rejects.toBeInstanceOf(LeaseLostError);
    await again?.complete({ enqueue: [other.queue('work#done').task('by the second')] });
    expect((await done.peek()).map(({ data }) => data)).toEqual(['by the second']);
  });
});
