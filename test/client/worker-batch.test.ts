import {
  type BatchHandler,
  type BatchOptions,
  clientOver,
  type LeasedTask,
  spread,
  textCodec,
  UnrecoverableError,
} from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { transportSetUp, VirtualTiming } from './support/client-set-up.ts';
import { named, type WorkerSetUp, workerSetUp } from './support/worker-set-up.ts';

const dataOf = (tasks: readonly LeasedTask<string>[]): string => tasks.map(({ data }) => data).join('');

/** A worker that records the calls of its handler. */
function batchWorker(
  made: WorkerSetUp,
  batch: BatchOptions<string>,
  handler: BatchHandler<string> = () => {},
  options: { readonly concurrency?: number; readonly prefetch?: number } = {},
) {
  const calls: string[] = [];
  const recording: BatchHandler<string> = (tasks, call) => {
    calls.push(dataOf(tasks));
    return handler(tasks, call);
  };
  const worker = made.client.worker(made.queue, recording, { ...made.hooks, ...options, backoff: () => '1h', batch });
  worker.start();
  return { worker, calls };
}

describe('a handler of batches', () => {
  test('gets what is there, in order, and at most max; one request completes a batch', async () => {
    const made = workerSetUp();
    await made.queue.enqueueMany(named('a', 'b', 'c', 'd', 'e'));
    const { worker, calls } = batchWorker(made, { max: 3 });
    await made.timing.settled();
    await worker.stop();
    expect(calls).toEqual(['abc', 'de']);
    expect(await made.engine.pids('g#q')).toEqual([]);
    expect(made.heard).toEqual(['a', 'b', 'c', 'd', 'e'].map((data) => `complete ${data}`));
    const completions = made.engine.updates.filter(({ dequeue }) => dequeue.length > 0);
    expect(completions.map(({ dequeue, parts }) => [dequeue.length, parts.length])).toEqual([
      [3, 3],
      [2, 2],
    ]);
  });

  test('gets tasks when maxWait has passed since the first was leased, or when there are max', async () => {
    const made = workerSetUp();
    const { worker, calls } = batchWorker(made, { max: 3, maxWait: '2m' });
    await made.queue.enqueue('a', { pid: 'a' });
    await made.timing.advance(60_000);
    await made.queue.enqueue('b', { pid: 'b' });
    await made.timing.advance(59_999);
    expect([calls, (await made.queue.stats()).leased], 'the leases are renewed meanwhile').toEqual([[], 2]);
    await made.timing.advance(1);
    expect(calls).toEqual(['ab']);
    for (const data of ['c', 'd', 'e']) {
      await made.queue.enqueue(data, { pid: data });
      await made.timing.settled();
    }
    expect(calls).toEqual(['ab', 'cde']);
    await worker.stop();
  });

  test('gets tasks of one key, and a slow call keeps one place', async () => {
    const made = workerSetUp();
    const keys: unknown[] = [];
    const gate = Promise.withResolvers<void>();
    const handler: BatchHandler<string> = async (_tasks, { key }) => {
      keys.push(key);
      if (key === 'x') await gate.promise;
    };
    await made.queue.enqueueMany(named('x1', 'y1', 'x2', 'y2', 'z1'));
    const { worker, calls } = batchWorker(made, { max: 9, by: ({ data }) => data.charAt(0) }, handler, {
      concurrency: 2,
    });
    await made.timing.settled();
    expect([calls, keys]).toEqual([
      ['x1x2', 'y1y2', 'z1'],
      ['x', 'y', 'z'],
    ]);
    expect(worker.active).toBe(2);
    gate.resolve();
    await worker.stop();
    expect(await made.engine.pids('g#q')).toEqual([]);
  });

  test('waits no longer when the worker may lease no more tasks', async () => {
    const made = workerSetUp();
    await made.queue.enqueueMany(named('x', 'y', 'z'));
    const { worker, calls } = batchWorker(made, { max: 2, maxWait: '1m', by: ({ data }) => data }, () => {}, {
      prefetch: 0,
    });
    await made.timing.settled();
    expect(calls).toEqual(['x', 'y']);
    await worker.stop();
  });

  test('returns an outcome for each task', async () => {
    const made = workerSetUp();
    await made.queue.enqueueMany(named('a', 'b', 'c', 'd', 'e'));
    const { worker } = batchWorker(made, { max: 9 }, async (tasks) => {
      await tasks[4]?.snooze('1h');
      const next = made.client.queue('g#next').task(1, { pid: 'n' });
      return [undefined, { result: 7, enqueue: [next] }, new Error('busy'), new UnrecoverableError('bad'), undefined];
    });
    await made.timing.settled();
    await worker.stop();
    expect(await made.engine.pids('g#q')).toEqual(['c', 'e']);
    expect(await made.engine.pids('g#q.dead')).toEqual(['d']);
    expect(await made.engine.pids('g#next')).toEqual(['n']);
    expect(await made.queue.waitFor('b')).toBe(7);
    expect((await made.queue.get(['c', 'e'])).map((task) => task?.attempts)).toEqual([1, 0]);
    expect(made.heard.toSorted()).toEqual(['complete a', 'complete b', 'error bad in a task', 'error busy in a task']);
  });

  test.each<[string, unknown, string[]]>([
    ['throws', new Error('down'), ['error down in a task', 'error down in a task']],
    ['returns no list', { result: 1 }, Array(2).fill(expect.stringContaining('must be a list of outcomes'))],
    ['returns too few', [undefined], Array(2).fill(expect.stringContaining('1 outcomes for 2 tasks'))],
    ['returns a wrong one', [7, undefined], [expect.stringContaining('a handler returns nothing, or'), 'complete b']],
  ])('that %s fails the attempts', async (_how, what, heard) => {
    const made = workerSetUp();
    await made.queue.enqueueMany(named('a', 'b'));
    const { worker } = batchWorker(made, { max: 2 }, () => {
      if (what instanceof Error) throw what;
      return what as undefined;
    });
    await made.timing.settled();
    await worker.stop();
    expect(made.heard).toEqual(heard);
  });

  test('does not get tasks that cannot be read, or without a key', async () => {
    const made = workerSetUp();
    await made.client.queue('g#q', { codec: textCodec }).enqueue('{', { pid: '0' });
    await made.queue.enqueueMany(named('a', 'b', 'c'));
    const by = ({ data }: LeasedTask<string>): string => {
      if (data === 'a') throw new Error('no key');
      return data === 'b' ? (7 as unknown as string) : data;
    };
    const { worker, calls } = batchWorker(made, { max: 9, by });
    await made.timing.settled();
    await worker.stop();
    expect(calls).toEqual(['c']);
    expect(made.heard.filter((line) => line.startsWith('error')).slice(1)).toEqual([
      'error no key in a task',
      'error batch.by: must return a string in a task',
    ]);
    expect((await made.queue.stats()).delayed).toBe(3);
  });

  test('does not get tasks that were cancelled or lost while they waited', async () => {
    const made = workerSetUp();
    await made.queue.enqueueMany(named('a', 'b', 'c'));
    const { worker, calls } = batchWorker(made, { max: 9, maxWait: '1m' });
    await made.timing.settled();
    await made.queue.cancel('a');
    await made.client.update().dequeue('g#q', 'b').commit();
    await made.timing.advance(5_000);
    expect([calls, made.heard, await made.engine.pids('g#q')]).toEqual([[], ['lost b: TASK_NOT_FOUND'], ['c']]);
    await made.timing.advance(55_000);
    expect(calls).toEqual(['c']);
    await worker.stop();
  });

  test('one lost lease does not refuse the completions of the others', async () => {
    const made = workerSetUp();
    await made.queue.enqueueMany(named('a', 'b', 'c'));
    const { worker } = batchWorker(made, { max: 3 }, async () => {
      await made.client.update().dequeue('g#q', 'b').commit();
    });
    await made.timing.settled();
    await worker.stop();
    expect(made.heard.toSorted()).toEqual(['complete a', 'complete c', 'lost b: TASK_NOT_FOUND']);
  });
});

describe('tasks of several queues', () => {
  async function shardsSetUp() {
    const made = workerSetUp();
    const rows = made.client.shardedQueue<string>('g#rows', { shards: 3 });
    for (const data of ['0', '1', '2', '3']) await rows.shard(Number(data) % 3).enqueue(data, { pid: data });
    return { ...made, rows };
  }

  test('of a sharded queue come together, and are completed in their shards', async () => {
    const { client, timing, engine, rows, hooks, heard } = await shardsSetUp();
    const calls: string[][] = [];
    const worker = client.worker(
      rows,
      (tasks) => {
        calls.push(tasks.map(({ queue, data }) => `${queue} ${data}`));
        return tasks.map(({ data }) => (data === '1' ? new Error('busy') : { result: data }));
      },
      { ...hooks, batch: { max: 9, maxWait: '1s' }, backoff: () => '1h' },
    );
    worker.start();
    await timing.advance(1_000);
    await worker.stop();
    expect(calls.map((call) => call.toSorted())).toEqual([['g~0#rows 0', 'g~0#rows 3', 'g~1#rows 1', 'g~2#rows 2']]);
    expect(heard.toSorted()).toEqual(['complete 0', 'complete 2', 'complete 3', 'error busy in a task']);
    expect(await rows.stats()).toMatchObject({ available: 0, leased: 0, delayed: 1 });
    expect(await rows.shard(2).waitFor('2')).toBe('2');
    const completions = engine.updates.filter(({ dequeue }) => dequeue.length > 0);
    expect(completions.map(({ dequeue }) => dequeue.length).toSorted()).toEqual([1, 2]);
  });

  test('of a sharded queue come apart by the name of the shard', async () => {
    const { client, timing, rows } = await shardsSetUp();
    const calls: unknown[] = [];
    const worker = client.worker(rows, (tasks, { key }) => void calls.push([key, dataOf(tasks)]), {
      batch: { max: 9, maxWait: '1s', by: ({ queue }) => queue },
    });
    worker.start();
    await timing.advance(1_000);
    await worker.stop();
    expect(calls.toSorted()).toEqual([
      ['g~0#rows', '03'],
      ['g~1#rows', '1'],
      ['g~2#rows', '2'],
    ]);
  });

  test('go to a handler that takes no parameters, which returns what a promise becomes', async () => {
    const { client, queue, timing } = workerSetUp();
    let calls = 0;
    const done = Promise.resolve();
    const called = () => done.then(() => void calls++);
    // Written in the calls, where its type depends on what the call expects.
    const workers = [
      client.worker(queue, () => done.then(() => {}), { batch: { max: 9 } }),
      client.worker(queue, () => done.then(() => {}), { concurrency: 2 }),
      client.worker(queue, called, { batch: { max: 9 } }),
    ];
    await queue.enqueueMany([{ data: '1' }, { data: '2' }]);
    workers[2]?.start();
    await timing.settled();
    const { available, leased } = await queue.stats();
    await Promise.all(workers.map((worker) => worker.stop()));
    expect([calls, available, leased]).toEqual([1, 0, 0]);
  });

  test('of a topic come together on every worker', async () => {
    const { client, timing } = workerSetUp();
    const topic = client.topic<string>('g#news');
    const got: string[] = [];
    const workers = ['a', 'b'].map((instance) =>
      topic.onEveryWorker((tasks) => void got.push(`${instance}: ${dataOf(tasks)}`), {
        instance,
        batch: { max: 2, maxWait: '2m' },
      }),
    );
    await Promise.all(workers.map((worker) => worker.start()));
    for (const data of ['1', '2', '3']) await topic.publish(data);
    await timing.settled();
    expect(got.toSorted()).toEqual(['a: 12', 'b: 12']);
    await timing.advance(120_000);
    expect(got.toSorted()).toEqual(['a: 12', 'a: 3', 'b: 12', 'b: 3']);
    await topic.publish('4');
    await timing.settled();
    await client.close();
    expect(got).toHaveLength(4);
  });

  test('of a spread queue come together for each client, and a stop releases those that wait', async () => {
    const timing = new VirtualTiming();
    const clients = [1, 2].map(() => clientOver(transportSetUp(timing).transport, {}, { timing, random: () => 0.5 }));
    const queue = spread(clients.map((client) => client.queue<string>('docs#convert')));
    const calls: string[] = [];
    const worker = queue.worker((tasks) => void calls.push(dataOf(tasks)), { batch: { max: 9, maxWait: '1s' } });
    for (const data of ['0', '1', '2', '3']) await queue.enqueue(data, { pid: data });
    const counts = (await queue.stats()).targets.map(({ available }) => available);
    worker.start();
    await timing.settled();
    expect([calls, worker.active]).toEqual([[], 0]);
    await timing.advance(1_000);
    expect(calls.join('').split('').toSorted()).toEqual(['0', '1', '2', '3']);
    expect(calls.map(({ length }) => length).toSorted()).toEqual(counts.filter((count) => count > 0).toSorted());
    await queue.enqueue('4');
    await timing.settled();
    await worker.stop();
    expect(calls.join('')).toHaveLength(4);
    expect(await queue.stats()).toMatchObject({ available: 1, leased: 0, completed: 4 });
  });
});

describe('a stop', () => {
  test('releases a batch that waits, without counting the attempts', async () => {
    const made = workerSetUp();
    await made.queue.enqueueMany(named('a', 'b'));
    const { worker, calls } = batchWorker(made, { max: 3, maxWait: '1m' });
    await made.timing.settled();
    await worker.stop();
    expect(calls).toEqual([]);
    expect(await made.queue.get(['a', 'b'])).toMatchObject(Array(2).fill({ state: 'available', attempts: 0 }));
    expect(made.heard).toEqual([]);
  });

  test('aborts the signal of a call when the only tasks left are lost', async () => {
    const made = workerSetUp();
    await made.queue.enqueueMany(named('a', 'b'));
    const aborted: boolean[] = [];
    const { worker } = batchWorker(made, { max: 2 }, async (tasks, { signal }) => {
      await made.queue.cancel('a');
      await made.timing.advance(60_000);
      aborted.push(tasks[0]?.signal.aborted ?? false, signal.aborted);
      await tasks[1]?.complete();
      aborted.push(signal.aborted);
    });
    await made.timing.settled();
    await made.timing.advance(60_000);
    await worker.stop();
    expect(aborted).toEqual([true, false, true]);
  });

  test('waits for a running call, and aborts its signal when its time is over', async () => {
    const made = workerSetUp();
    await made.queue.enqueueMany(named('a', 'b'));
    const reasons: unknown[] = [];
    const { worker } = batchWorker(made, { max: 3 }, (_tasks, { signal }) => {
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reasons.push(signal.reason);
          reject(signal.reason);
        });
      });
    });
    await made.timing.settled();
    const stopping = worker.stop({ timeout: '5s' });
    await made.timing.advance(5_000);
    await stopping;
    expect(reasons).toMatchObject([{ reason: 'CANCELLED' }]);
    expect(await made.queue.get(['a', 'b'])).toMatchObject(Array(2).fill({ state: 'available', attempts: 0 }));
  });
});

test.each<[unknown, RegExp]>([
  [{ max: 0 }, /^batch.max: 0 is not a whole number from 1 to 10000$/],
  [{ max: -1 }, /^batch.max: -1/],
  [{ max: 1.5 }, /^batch.max: 1.5/],
  [{ max: 10_001 }, /^batch.max: 10001/],
  [{}, /^batch.max: undefined/],
  [{ max: 1, maxWait: -1 }, /^batch.maxWait: -1/],
  [{ max: 1, maxWait: '11m' }, /^batch.maxWait: 660000 ms is more than 600000 ms$/],
  [{ max: 1, maxWait: '1m' }, /^batch.maxWait: 60000 ms is not less than the maxLeaseTime of 60000 ms$/],
  [{ max: 1, by: 'x' }, /^batch.by: must be a function$/],
  [{ max: 1, size: 2 }, /^batch: there is no size/],
  [7, /^batch: must be an object/],
])('batch %j is refused', (batch, message) => {
  const { client } = workerSetUp();
  const options = { maxLeaseTime: '1m', batch: batch as BatchOptions } as const;
  expect(() => client.worker('q', () => {}, options)).toThrow(message);
});
