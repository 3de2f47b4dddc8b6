import { clientOver, InvalidRequestError, type SpreadOptions, spread, type TaskMasterError } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { connectionLost, overloaded } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { clientSetUp, transportSetUp, VirtualTiming } from './support/client-set-up.ts';
import type { FaultyTransport } from './support/faulty-transport.ts';

function setUp(options: SpreadOptions<string> = {}, clusters = 2) {
  const timing = new VirtualTiming();
  const made = Array.from({ length: clusters }, () => transportSetUp(timing));
  const transports = made.map(({ transport }) => transport);
  const clients = transports.map((transport) => clientOver(transport, {}, { timing, random: () => 0.5 }));
  const failedOver: TaskMasterError[] = [];
  const queue = spread(
    clients.map((client) => client.queue<string>('docs#convert')),
    { onFailOver: (error) => failedOver.push(error), ...options },
  );
  const pids = () => Promise.all(made.map(async ({ engine }) => (await engine.pids('docs#convert')).length));
  /** Enqueues in sequence, and how many each cluster has got. */
  const enqueue = async (count: number): Promise<number[]> => {
    const before = await pids();
    for (let number = 0; number < count; number++) await queue.enqueue(`doc ${number}`);
    return (await pids()).map((now, at) => now - (before[at] ?? 0));
  };
  const [first, second] = transports as [FaultyTransport, FaultyTransport];
  return { timing, transports, first, second, queue, failedOver, enqueue, pids, clients };
}

const unavailable = (): TaskMasterError => makeError('down', { reason: 'HOLDER_UNREACHABLE' });

describe('an enqueue to several targets', () => {
  test('goes to each in turn, and with a PID always to the same one', async () => {
    const { queue, enqueue, pids } = setUp();
    expect(await enqueue(10)).toEqual([5, 5]);
    for (let number = 0; number < 20; number++) {
      const { queue: to } = await queue.enqueue('doc', { pid: `doc-${number}` });
      const again = await queue.enqueue('doc', { pid: `doc-${number}` });
      expect([again.queue, again.result]).toEqual([to, 'collapsed']);
      // A key is the identity, and the PID only the order.
      const keyed = await queue.enqueue('doc', { pid: `first-${number}`, key: `doc-${number}` });
      expect(keyed.queue).toBe(to);
    }
    expect((await pids()).reduce((sum, one) => sum + one, 0)).toBe(50);
    expect(Math.min(...(await pids()))).toBeGreaterThan(8);
  });

  test('goes to the first one if that is preferred', async () => {
    expect(await setUp({ prefer: 'first' }).enqueue(5)).toEqual([5, 0]);
  });

  test.each([
    ['is down', unavailable()],
    ['is overloaded', overloaded(500)],
    ['is full', makeError('full', { reason: 'DISK_FULL' })],
    ['is broken', makeError('bug', { reason: 'INTERNAL' })],
  ])('goes to the next one at once if one %s, and leaves that one alone for a while', async (_what, error) => {
    const { first, queue, enqueue, failedOver, timing } = setUp();
    first.faults.updateTasks.push({ when: 'before', error }, { when: 'before', error });
    expect(await enqueue(6)).toEqual([0, 6]);
    expect(failedOver).toHaveLength(1);
    expect(queue.targets.map(({ isUp }) => isUp)).toEqual([false, true]);
    expect(queue.targets[0]?.error).toMatchObject({ reason: error.reason });
    await timing.advance(1_000);
    // One enqueue tries it. It fails again, so the rest is longer.
    expect(await enqueue(4)).toEqual([0, 4]);
    expect(failedOver).toHaveLength(2);
    await timing.advance(1_000);
    expect(queue.targets[0]?.isUp).toBe(false);
    await timing.advance(1_000);
    expect(await enqueue(4)).toEqual([2, 2]);
    expect(queue.targets[0]).toMatchObject({ isUp: true, error: undefined });
  });

  test('goes past a target without a connection before anything is sent', async () => {
    const { first, enqueue, failedOver } = setUp();
    first.isUp = false;
    expect(await enqueue(4)).toEqual([0, 4]);
    expect(failedOver).toEqual([]);
    first.isUp = true;
    expect(await enqueue(4)).toEqual([2, 2]);
  });

  test('waits for a silent target only as long as it has patience, and only one enqueue tries it again', async () => {
    const { first, queue, timing, pids } = setUp({ patience: '2s', prefer: 'first' });
    first.silent = true;
    const enqueued = queue.enqueue('doc');
    await timing.advance(1_999);
    expect(await pids()).toEqual([0, 0]);
    await timing.advance(1);
    await enqueued;
    expect(await pids()).toEqual([0, 1]);
    await timing.advance(1_000);
    const trying = queue.enqueue('doc');
    await queue.enqueue('doc');
    expect(await pids()).toEqual([0, 2]);
    await timing.advance(2_000);
    await trying;
    expect(await pids()).toEqual([0, 3]);
  });

  test('tries all targets again while none accepts, until its timeout', async () => {
    const { first, second, queue, timing, pids } = setUp();
    for (const { faults } of [first, second]) {
      for (let attempt = 0; attempt < 3; attempt++) faults.updateTasks.push({ when: 'before', error: unavailable() });
    }
    const enqueued = queue.enqueue('doc');
    await timing.advance(1_000);
    await enqueued;
    expect((await pids()).reduce((sum, one) => sum + one, 0)).toBe(1);

    for (const { faults } of [first, second]) {
      for (let attempt = 0; attempt < 100; attempt++) faults.updateTasks.push({ when: 'before', error: unavailable() });
    }
    const failing = expect(queue.enqueue('doc', { timeout: '5s' })).rejects.toMatchObject({
      reason: 'HOLDER_UNREACHABLE',
      maybeApplied: false,
    });
    await timing.advance(5_000);
    await failing;
  });

  test('rejects at once with what every target would refuse', async () => {
    const { first, second, queue, failedOver } = setUp();
    for (const { faults } of [first, second]) {
      faults.updateTasks.push({ when: 'before', error: makeError('no', { reason: 'INVALID_QUEUE' }) });
    }
    await expect(queue.enqueue('doc')).rejects.toBeInstanceOf(InvalidRequestError);
    expect(failedOver).toEqual([]);
    expect(queue.targets.every(({ isUp }) => isUp)).toBe(true);
    await expect(queue.enqueue('doc', { requestId: '' })).rejects.toBeInstanceOf(TypeError);
  });

  test('ends when its signal is aborted', async () => {
    const { first, second, queue, timing } = setUp();
    for (const transport of [first, second]) transport.silent = true;
    const abort = new AbortController();
    const failing = expect(queue.enqueue('doc', { signal: abort.signal })).rejects.toMatchObject({
      reason: 'CANCELLED',
    });
    await timing.advance(100);
    abort.abort();
    await timing.advance(0);
    await failing;
  });
});

describe('an enqueue whose outcome is unknown', () => {
  test('goes to the next target too, so the task may be in both', async () => {
    const { first, queue, pids } = setUp({ prefer: 'first' });
    first.faults.updateTasks.push({ when: 'after', error: connectionLost() });
    expect((await queue.enqueue('doc', { pid: 'doc-1' })).result).toBe('created');
    expect(await pids()).toEqual([1, 1]);
  });

  test('is repeated at the same target if it is to stay there, and applied once', async () => {
    const { first, queue, pids, timing } = setUp({ prefer: 'first', whenUnsure: 'stay' });
    first.faults.updateTasks.push({ when: 'after', error: connectionLost() }, { when: 'before', error: unavailable() });
    const enqueued = queue.enqueue('doc');
    await timing.advance(1_000);
    expect((await enqueued).result).toBe('created');
    expect(await pids()).toEqual([1, 0]);
    // What has changed nothing still goes elsewhere.
    first.faults.updateTasks.push({ when: 'before', error: unavailable() });
    await queue.enqueue('doc');
    expect(await pids()).toEqual([1, 1]);
  });

  test('rejects at its timeout if it is to stay there, and says that it may have been applied', async () => {
    const { first, queue, pids, timing } = setUp({ prefer: 'first', whenUnsure: 'stay' });
    first.faults.updateTasks.push({ when: 'late', error: connectionLost() });
    for (let attempt = 0; attempt < 20; attempt++) {
      first.faults.updateTasks.push({ when: 'before', error: unavailable() });
    }
    const failing = expect(queue.enqueue('doc')).rejects.toMatchObject({ maybeApplied: true });
    await timing.advance(10_000);
    await failing;
    expect(await pids()).toEqual([0, 0]);
  });

  test('rejects with maybeApplied if no target has accepted it since', async () => {
    const { first, second, queue, timing } = setUp({ prefer: 'first' });
    first.faults.updateTasks.push({ when: 'late', error: connectionLost() });
    for (const { faults } of [first, second]) {
      for (let attempt = 0; attempt < 50; attempt++) faults.updateTasks.push({ when: 'before', error: unavailable() });
    }
    const failing = expect(queue.enqueue('doc')).rejects.toMatchObject({
      reason: 'HOLDER_UNREACHABLE',
      maybeApplied: true,
    });
    await timing.advance(10_000);
    await failing;
  });

  test('is applied once at a target that gets it twice', async () => {
    const { first, second, queue, pids, timing } = setUp({ prefer: 'first' });
    first.faults.updateTasks.push({ when: 'after', error: connectionLost() });
    second.faults.updateTasks.push({ when: 'before', error: unavailable() });
    const enqueued = queue.enqueue('doc');
    await timing.advance(2_000);
    await enqueued;
    expect(await pids()).toEqual([1, 0]);
    const repeated = await queue.enqueue('doc', { requestId: 'r1' });
    expect(await queue.enqueue('doc', { requestId: 'r1' })).toEqual(repeated);
    expect(await pids()).toEqual([2, 0]);
  });
});

describe('a worker of several targets', () => {
  test('takes the tasks of all clusters, also while one does not answer', async () => {
    const { first, queue, enqueue, timing, pids } = setUp();
    await enqueue(6);
    const done: string[] = [];
    await using worker = queue.worker(({ data }) => void done.push(data), { concurrency: 2, wait: '1s' });
    expect(worker.active).toBe(0);
    worker.start();
    await timing.advance(100);
    expect(done).toHaveLength(6);
    first.silent = true;
    first.isUp = false;
    await timing.advance(5_000);
    await enqueue(3);
    await timing.advance(1_000);
    expect(done).toHaveLength(9);
    const stopping = worker.stop();
    await timing.advance(60_000);
    await stopping;
    expect(await pids()).toEqual([0, 0]);
  });

  test('takes the tasks of several groups of one cluster with one request, each first in turn', async () => {
    const { client, engine, timing } = clientSetUp();
    const queue = spread(['a', 'b'].map((group) => client.queue<number>(`${group}#q`)));
    for (let number = 0; number < 6; number++) await queue.enqueue(number);
    const done: number[] = [];
    await using worker = queue.worker(({ data }) => void done.push(data), { prefetch: 0 });
    const running = worker.run();
    await timing.advance(100);
    expect(done.toSorted()).toEqual([0, 1, 2, 3, 4, 5]);
    const asked = engine.leases.map(({ queues }) => queues.join());
    expect(asked.slice(0, 2)).toEqual(['a#q,b#q', 'b#q,a#q']);
    await worker.stop();
    await running;
  });

  test('ends with the error of a worker that cannot go on', async () => {
    const { second, queue, timing } = setUp();
    second.faults.leaseTasks.push({ when: 'before', error: makeError('no', { reason: 'INVALID_QUEUE' }) });
    await using worker = queue.worker(() => {});
    const failing = expect(worker.run()).rejects.toBeInstanceOf(InvalidRequestError);
    await timing.advance(100);
    await failing;
  });
});

describe('statistics of several targets', () => {
  test('are sums over those that answer', async () => {
    const { first, second, queue, enqueue, timing } = setUp();
    await enqueue(5);
    expect(await queue.stats()).toMatchObject({ queue: 'docs#convert', available: 5, unreachable: [] });
    first.silent = true;
    const asking = queue.stats();
    await timing.advance(10_000);
    expect(await asking).toMatchObject({ available: 3, unreachable: [{ reason: 'DEADLINE_EXCEEDED' }] });
    second.silent = true;
    const failing = expect(queue.stats()).rejects.toMatchObject({ reason: 'DEADLINE_EXCEEDED' });
    await timing.advance(10_000);
    await failing;
  });
});

test.each([
  ['no queues', [], {}],
  ['an unknown preference', ['q'], { prefer: 'last' as never }],
  ['an unknown answer to doubt', ['q'], { whenUnsure: 'hope' as never }],
  ['no patience', ['q'], { patience: 'soon' as never }],
])('%s are refused', (_what, names, options) => {
  const { clients } = setUp();
  expect(() =>
    spread(
      names.map((name) => clients[0]?.queue(name) as never),
      options,
    ),
  ).toThrow(TypeError);
});

test('a queue that is named twice is refused', () => {
  const { clients } = setUp();
  const queue = clients[0]?.queue('q');
  if (queue === undefined) throw new Error('there are two clients');
  expect(() => spread([queue, queue])).toThrow(TypeError);
});
