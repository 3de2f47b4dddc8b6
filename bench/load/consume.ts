import { setTimeout as delay } from 'node:timers/promises';
import { bytesCodec } from '@taskmaster/client';
import type { LoadResult } from '../measurement.ts';
import type { Connections } from './connections.ts';
import type { Job } from './jobs.ts';
import { payload } from './payload.ts';
import { LoadMeter } from './run-loop.ts';
import { dequeueOf, leaseTasks, newTasks, updateTasks } from './stub-calls.ts';

type JobOf<Kind extends Job['kind']> = Extract<Job, { readonly kind: Kind }>;

/** Time in ms after which a poll surely waits on the server and every thread sleeps. */
export const IDLE_MS = 5;
const POLL_MS = 30_000;

/** Completes tasks with a `Worker` whose handler does nothing. */
export async function runWorker(connections: Connections, job: JobOf<'worker'>): Promise<LoadResult> {
  const client = await connections.client(job.endpoint);
  const queue = client.queue(job.queue, { codec: bytesCodec });
  const over = Promise.withResolvers<void>();
  let completed = 0;
  let timeIsUp = false;
  const timer = setTimeout(() => {
    timeIsUp = true;
    if (completed > 0) over.resolve();
  }, job.ms);
  let isOver = false;
  let failure: unknown;
  const meter = new LoadMeter();
  const worker = client.worker(queue, () => {}, {
    concurrency: job.concurrency,
    onTaskCompleted() {
      if (isOver) {
        meter.recordLate(1);
        return;
      }
      meter.record(1);
      if (++completed >= job.maxTasks || timeIsUp) over.resolve();
    },
    onAttemptFailed(error) {
      failure ??= error;
      over.resolve();
    },
  });
  worker.start();
  await over.promise;
  clearTimeout(timer);
  isOver = true;
  await worker.stop();
  if (failure !== undefined) throw failure;
  return meter.result();
}

/**
 * Enqueues tasks for a waiting consumer, one at a time on an otherwise idle server. Two polls are open. The one that has waited
 * since the previous task gets the task, and a new poll is opened meanwhile.
 */
export async function runHandOver(connections: Connections, job: JobOf<'hand-over'>): Promise<LoadResult> {
  const ends = job.via === 'unary' ? await stubEnds(connections, job) : await clientEnds(connections, job);
  const open = (index: number): Promise<Received> => ends.poll().then((complete) => ({ index, complete }));
  const polls = [0, 1].map(open);
  await delay(IDLE_MS); // until the polls wait on the server
  const meter = new LoadMeter();
  for (let i = 0; i < job.count; i++) {
    if (job.pauseMs > 0) await delay(job.pauseMs);
    const began = performance.now();
    const enqueueing = ends.enqueue();
    const { index, complete } = await Promise.race(polls);
    meter.record(1, performance.now() - began);
    await enqueueing;
    polls[index] = open(index);
    await complete();
  }
  // Open polls would take the tasks of the next run.
  await Promise.all(polls.map(() => ends.enqueue()));
  await Promise.all(polls.map(async (poll) => await (await poll).complete()));
  return meter.result();
}

/** A task that the poll with this number got. */
interface Received {
  readonly index: number;
  readonly complete: () => Promise<unknown>;
}

/** The two sides of a hand-over: the producer of a task, and the consumer that waits for it and completes it. */
interface Ends {
  readonly enqueue: () => Promise<unknown>;
  readonly poll: () => Promise<Received['complete']>;
}

async function stubEnds(connections: Connections, { endpoint, queue }: JobOf<'hand-over'>): Promise<Ends> {
  const producer = await connections.stub(endpoint, 'producer');
  const consumer = await connections.stub(endpoint, 'consumer');
  return {
    enqueue: () => updateTasks(producer, { enqueue: newTasks(queue, 1) }),
    poll: async () => {
      const tasks = await leaseTasks(consumer, queue, 1, { waitMs: POLL_MS });
      return () => updateTasks(consumer, { dequeue: tasks.map(dequeueOf) });
    },
  };
}

async function clientEnds(connections: Connections, job: JobOf<'hand-over'>): Promise<Ends> {
  const producer = (await connections.client(job.endpoint, 'producer')).queue(job.queue, { codec: bytesCodec });
  const consumer = (await connections.client(job.endpoint, 'consumer')).queue(job.queue, { codec: bytesCodec });
  return {
    enqueue: () => producer.enqueue(payload()),
    poll: async () => {
      const [task] = await consumer.lease({ wait: POLL_MS });
      return async () => await task?.complete();
    },
  };
}
