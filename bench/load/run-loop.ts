import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import type { LoadResult } from '../measurement.ts';

/** Runs an operation once. Resolves with its number of tasks. */
export type Operate = () => Promise<number>;

export interface LoopOptions {
  /** Number of concurrent operations. */
  readonly inFlight: number;
  readonly ms: number;
  /** The loop ends when this number of tasks is done. Default: no limit. */
  readonly maxTasks?: number | undefined;
  /** Pause after each operation, in ms, which does not count as latency: measures an idle server. Default: none. */
  readonly pauseMs?: number | undefined;
}

/**
 * Keeps `inFlight` operations in progress. An operation that resolves with 0 tasks has found none left and is not repeated.
 * Operations that end after the time are waited for, but do not count.
 */
export async function runLoop(operate: Operate, options: LoopOptions): Promise<LoadResult> {
  const { inFlight, ms, maxTasks = Number.POSITIVE_INFINITY, pauseMs = 0 } = options;
  const meter = new LoadMeter();
  const end = performance.now() + ms;
  let tasks = 0;
  let inTime = 0;
  const lane = async (): Promise<void> => {
    for (let began = performance.now(); began < end && tasks < maxTasks; ) {
      const done = await operate();
      const now = performance.now();
      if (done === 0) return;
      // If no operation ended in time, the first one decides the elapsed time.
      if (now > end && inTime > 0) {
        meter.recordLate(done);
        return;
      }
      tasks += done;
      if (now <= end) inTime += done;
      meter.record(done, now - began);
      began = now;
      if (pauseMs === 0) continue;
      await delay(pauseMs);
      began = performance.now();
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return meter.result();
}

/** Counts tasks and latencies from its creation to the last task. */
export class LoadMeter {
  readonly #latencies: RecordableHistogram = createHistogram();
  readonly #began = performance.now();
  readonly #beganUs = monotonicUs();
  readonly #cpu = process.cpuUsage();
  #last = this.#began;
  #tasks = 0;
  #lateTasks = 0;

  /** `latencyMs`: latency of the operation; undefined if it has none. */
  record(tasks: number, latencyMs?: number): void {
    this.#tasks += tasks;
    this.#last = performance.now();
    if (latencyMs !== undefined) this.#latencies.record(Math.max(1, Math.round(latencyMs * 1e6)));
  }

  /** Counts tasks that were done after the time was over: they used CPU time, too. */
  recordLate(tasks: number): void {
    this.#lateTasks += tasks;
  }

  result(): LoadResult {
    const { user, system } = process.cpuUsage(this.#cpu);
    const elapsedMs = Math.max(this.#last - this.#began, 1e-3);
    const known = this.#latencies.count > 0;
    return {
      tasks: this.#tasks,
      lateTasks: this.#lateTasks,
      elapsedMs,
      p50Ms: known ? this.#latencies.percentile(50) / 1e6 : undefined,
      p99Ms: known ? this.#latencies.percentile(99) / 1e6 : undefined,
      generatorCpuMs: (user + system) / 1000,
      beganUs: this.#beganUs,
      endedUs: this.#beganUs + elapsedMs * 1000,
    };
  }
}

function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
