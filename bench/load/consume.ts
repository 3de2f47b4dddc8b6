import { setTimeout as delay } from 'node:timers/promises';
import { bytesCodec } from '@taskmaster/client';
import type { LoadResult } from '../measurement.ts';
import type { Connections } from './connections.ts';
import type { Job } from './jobs.ts';
import { payload } from './payload.ts';
import { LoadMeter } from './run-loop.ts';
import { dequeueOf, leaseTasks, newTasks, updateTasks } from './stub-calls.ts';

type JobOf<Kind extends Job['kind']> = Extract<Job, { readonly kind: Kind }>;

/** A consumer is left alone for so long, so that its poll is waiting on the server when the task comes, in ms. */
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
    onComplete() {
      if (isOver) {
        meter.recordLate(1);
        return;
      }
      meter.record(1);
      if (++completed >= job.maxTasks || timeIsUp) over.resolve();
    },
    onError(error) {
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

/** Hands tasks to a consumer that waits for them, one at a time on an otherwise idle server. */
export async function runHandOver(connections: Connections, job: JobOf<'hand-over'>): Promise<LoadResult> {
  const meter = new LoadMeter();
  const handOver = job.via === 'unary' ? await stubHandOver(connections, job) : await clientHandOver(connections, job);
  for (let i = 0; i < job.count; i++) meter.record(1, await handOver());
  return meter.result();
}

/** Resolves with the time from the enqueue to the consumer's reply, in ms. */
type HandOver = () => Promise<number>;

async function stubHandOver(connections: Connections, { endpoint, queue }: JobOf<'hand-over'>): Promise<HandOver> {
  const producer = await connections.stub(endpoint, 'producer');
  const consumer = await connections.stub(endpoint, 'consumer');
  return async () => {
    const waiting = leaseTasks(consumer, queue, 1, { waitMs: POLL_MS });
    await delay(IDLE_MS);
    const began = performance.now();
    const enqueueing = updateTasks(producer, { enqueue: newTasks(queue, 1) });
    const tasks = await waiting;
    const ms = performance.now() - began;
    await enqueueing;
    await updateTasks(consumer, { dequeue: tasks.map(dequeueOf) });
    return ms;
  };
}

async function clientHandOver(connections: Connections, job: JobOf<'hand-over'>): Promise<HandOver> {
  const producer = (await connections.client(job.endpoint, 'producer')).queue(job.queue, { codec: bytesCodec });
  const consumer = (await connections.client(job.endpoint, 'consumer')).queue(job.queue, { codec: bytesCodec });
  return async () => {
    const waiting = consumer.lease({ wait: POLL_MS });
    await delay(IDLE_MS);
    const began = performance.now();
    const enqueueing = producer.enqueue(payload());
    const [task] = await waiting;
    const ms = performance.now() - began;
    await enqueueing;
    await task?.complete();
    return ms;
  };
}
