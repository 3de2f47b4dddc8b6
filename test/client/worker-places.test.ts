import { expect, test } from 'vitest';
import { type ClientSetUp, clientSetUp } from './support/client-set-up.ts';

/** Holds the answers to updates of tasks until the test lets them go. */
function slowDisk({ transport }: ClientSetUp) {
  const gates: PromiseWithResolvers<void>[] = [];
  transport.answers.updateTasks = async (_request, send) => {
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    await gate.promise;
    return send();
  };
  return {
    waiting: (): number => gates.length,
    answer(): void {
      for (const { resolve } of gates.splice(0)) resolve();
    },
  };
}

async function queueOf(made: ClientSetUp, tasks: number) {
  const queue = made.client.queue<string>('g#q');
  const names = Array.from({ length: tasks }, (_, at) => String.fromCharCode(97 + at));
  await queue.enqueueMany(names.map((data) => ({ data, pid: data })));
  return queue;
}

test('a place is free when its handler has ended, while the completion is on its way', async () => {
  const made = clientSetUp();
  const queue = await queueOf(made, 5);
  const disk = slowDisk(made);
  const begun: string[] = [];
  const completed: string[] = [];
  const worker = made.client.worker(queue, ({ data }) => void begun.push(data), {
    concurrency: 1,
    prefetch: 2,
    onTaskCompleted: ({ data }) => completed.push(data),
  });
  worker.start();
  await made.timing.settled();
  expect(begun, 'the second window has two places, and the third completion keeps its place').toEqual(['a', 'b', 'c']);
  expect([completed, worker.active]).toEqual([[], 0]);
  disk.answer();
  await made.timing.settled();
  disk.answer();
  await made.timing.settled();
  expect(completed.toSorted()).toEqual(['a', 'b', 'c', 'd', 'e']);
  await worker.stop();
});

test('without a window a handler starts when the completion before it is on disk', async () => {
  const made = clientSetUp();
  const queue = await queueOf(made, 2);
  const disk = slowDisk(made);
  const begun: string[] = [];
  const worker = made.client.worker(queue, ({ data }) => void begun.push(data), { prefetch: 0 });
  worker.start();
  await made.timing.settled();
  expect([begun, disk.waiting()]).toEqual([['a'], 1]);
  disk.answer();
  await made.timing.settled();
  expect([begun, disk.waiting()]).toEqual([['a', 'b'], 1]);
  disk.answer();
  await worker.stop();
});

test('a stop waits for completions on their way', async () => {
  const made = clientSetUp();
  const queue = await queueOf(made, 1);
  const disk = slowDisk(made);
  const worker = made.client.worker(queue, () => {});
  worker.start();
  await made.timing.settled();
  let isStopped = false;
  const stopping = worker.stop().then(() => {
    isStopped = true;
  });
  await made.timing.settled();
  expect([disk.waiting(), isStopped]).toEqual([1, false]);
  disk.answer();
  await stopping;
  expect(await made.engine.pids('g#q')).toEqual([]);
});

test('handlers that throw at once do not call each other deeper and deeper', async () => {
  const made = clientSetUp();
  const tasks = 200;
  const queue = made.client.queue<number>('g#q');
  await queue.enqueueMany(Array.from({ length: tasks }, (_, data) => ({ data })));
  let depth = 0;
  const worker = made.client.worker(
    queue,
    () => {
      const frames = { stack: '' };
      const { stackTraceLimit } = Error;
      Error.stackTraceLimit = Number.POSITIVE_INFINITY;
      Error.captureStackTrace(frames);
      Error.stackTraceLimit = stackTraceLimit;
      depth = Math.max(depth, frames.stack.split('\n').length);
      throw new Error('no');
    },
    { concurrency: tasks, prefetch: tasks },
  );
  worker.start();
  await made.timing.settled();
  expect((await queue.stats()).delayed).toBe(tasks);
  expect(depth).toBeLessThan(30);
  await worker.stop();
});
