import { setTimeout as delay } from 'node:timers/promises';
import { LoadMeter, runLoop } from '../load/run-loop.ts';
import type { LoadResult } from '../measurement.ts';
import { BATCH, type PeerClient, type Work } from './clients/client.ts';
import type { WorkloadName } from './results.ts';

const SINGLE_IN_FLIGHT = 500;
const BATCHES_IN_FLIGHT = 10;

/** Duration of the warm-up, as a fraction of the measured run. */
const WARM_UP_PART = 0.3;
const WARM_UP_TASKS = 10_000;
/** Tasks are prepared for this multiple of the warm-up's rate. If they are not enough, the time until then counts. */
const PREPARE_FACTOR = 1.5;
const MOST_PREPARED = 500_000;
const FILL_MS = 10 * 60_000;

const HAND_OVER_WARM_UPS = 10;
/** Pause before each task, so that the consumer is waiting when the task arrives. */
const IDLE_MS = 5;
/** Random part of the pause, so that tasks do not always arrive at the same time after a poll. */
const IDLE_SPREAD_MS = 10;

export interface WorkloadRequest {
  readonly workload: WorkloadName;
  /** Duration of the measured run, in ms. */
  readonly ms: number;
  /** Number of tasks for a waiting consumer, or in the queue whose memory is measured. */
  readonly tasks: number;
}

export interface WorkloadResult extends LoadResult {
  /** The calls of the workload. */
  readonly how: string;
  readonly confirmed: boolean;
}

/** Runs the workloads of one system, one after the other. */
export class PeerLoad {
  readonly #client: PeerClient;
  /** Approximate number of tasks in the queue. */
  #queued = 0;

  constructor(client: PeerClient) {
    this.#client = client;
  }

  /** Runs a workload. Resolves with undefined if the system has no calls for it. */
  async run({ workload, ms, tasks }: WorkloadRequest): Promise<WorkloadResult | undefined> {
    const { enqueue, enqueueMany, leaseComplete, leaseCompleteMany, worker } = this.#client;
    switch (workload) {
      case 'enqueue-single':
        return this.#enqueue(enqueue, SINGLE_IN_FLIGHT, ms);
      case 'enqueue-50':
        return this.#enqueue(enqueueMany, BATCHES_IN_FLIGHT, ms);
      case 'lease-complete-single':
        return this.#take(leaseComplete, SINGLE_IN_FLIGHT, ms);
      case 'lease-complete-50':
        return this.#take(leaseCompleteMany, BATCHES_IN_FLIGHT, ms);
      case 'worker':
        return this.#take(worker, SINGLE_IN_FLIGHT, ms);
      case 'enqueue-to-waiting':
        return { ...(await this.#handOver(tasks)), how: this.#client.waiting, confirmed: true };
      case 'memory-1m':
        return { ...(await this.#fill(tasks)), how: `filled by ${enqueueMany.how}`, confirmed: true };
      default:
        return workload satisfies never;
    }
  }

  async #enqueue(work: Work & { readonly kind: 'loop' }, inFlight: number, ms: number): Promise<WorkloadResult> {
    const { operate, how, confirmed } = work;
    await runLoop(operate, { inFlight, ms: ms * WARM_UP_PART });
    const result = await runLoop(operate, { inFlight, ms });
    this.#queued += result.tasks + result.lateTasks;
    return { ...result, how, confirmed };
  }

  async #take(work: Work | undefined, inFlight: number, ms: number): Promise<WorkloadResult | undefined> {
    if (work === undefined) return undefined;
    await this.#fill(WARM_UP_TASKS);
    const { tasks, elapsedMs } = await this.#work(work, inFlight, ms * WARM_UP_PART);
    await this.#fill(Math.min(MOST_PREPARED, Math.ceil((tasks / elapsedMs) * ms * PREPARE_FACTOR)));
    return { ...(await this.#work(work, inFlight, ms)), how: work.how, confirmed: work.confirmed };
  }

  async #work(work: Work, inFlight: number, ms: number): Promise<LoadResult> {
    const result =
      work.kind === 'loop' ? await runLoop(work.operate, { inFlight, ms }) : await consume(work, this.#queued, ms);
    this.#queued = Math.max(0, this.#queued - result.tasks - result.lateTasks);
    return result;
  }

  /** Enqueues tasks until the queue has about `tasks`. */
  async #fill(tasks: number): Promise<LoadResult> {
    const { operate } = this.#client.enqueueMany;
    const maxTasks = tasks - this.#queued;
    const result = await runLoop(operate, { inFlight: BATCHES_IN_FLIGHT, ms: FILL_MS, maxTasks });
    this.#queued += result.tasks;
    return result;
  }

  async #handOver(tasks: number): Promise<LoadResult> {
    let received = Promise.withResolvers<void>();
    const consumer = await this.#client.wait(() => received.resolve());
    const meter = new LoadMeter();
    for (let i = -HAND_OVER_WARM_UPS; i < tasks; i++) {
      received = Promise.withResolvers();
      await delay(IDLE_MS + Math.random() * IDLE_SPREAD_MS);
      const began = performance.now();
      const enqueueing = this.#client.enqueueToWaiting();
      await received.promise;
      const ms = performance.now() - began;
      await enqueueing;
      if (i >= 0) meter.record(1, ms);
    }
    await consumer.stop();
    return meter.result();
  }
}

/**
 * Measures a consumer from its first completion until the time is over or about `queued` tasks are completed. If completions are
 * not confirmed, the tasks that the server no longer has after the consumer has stopped count.
 */
export async function consume(
  work: Work & { readonly kind: 'consume' },
  queued: number,
  ms: number,
): Promise<LoadResult> {
  const before = await work.left?.();
  const over = Promise.withResolvers<void>();
  let meter: LoadMeter | undefined;
  let began = 0;
  let timer: NodeJS.Timeout | undefined;
  let completed = 0;
  let isOver = false;
  const consumer = await work.start((tasks) => {
    if (meter === undefined) {
      // The clock starts here, so earlier completions do not count.
      meter = new LoadMeter();
      began = performance.now();
      timer = setTimeout(over.resolve, ms);
    } else if (isOver) {
      meter.recordLate(tasks);
    } else {
      meter.record(tasks);
    }
    completed += tasks;
    if (completed + BATCH > queued) over.resolve();
  });
  await over.promise;
  isOver = true;
  clearTimeout(timer);
  await consumer.stop();
  if (meter === undefined) throw new Error('the consumer completed nothing');
  if (before === undefined || work.left === undefined) return meter.result();
  // The time of the stop counts, but not the time in which the tasks are counted.
  const elapsedMs = performance.now() - began;
  const left = await work.left();
  return { ...meter.result(), tasks: before - left, lateTasks: 0, elapsedMs };
}
