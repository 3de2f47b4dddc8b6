import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import type { LoadResult } from '../measurement.ts';

/** Does an operation once; resolves with the number of tasks it did. */
export type Operate = () => Promise<number>;

export interface LoopOptions {
  /** Operations going on at once. */
  readonly inFlight: number;
  readonly ms: number;
  /** Ends when so many tasks are done. Default: never. */
  readonly maxTasks?: number | undefined;
  /** After each operation, which does not count into what it takes: for what is to be measured idle. Default: none. */
  readonly pauseMs?: number | undefined;
}

/**
 * Keeps `inFlight` operations going. Each resolves with the number of tasks it did; 0 says that there are none left, and
 * ends its lane. What is unfinished when the time is over is waited for, but does not count.
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
      // Unless nothing at all was done in time: then that is what it took.
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

/** Counts tasks and their latencies, from its creation to the last task. */
export class LoadMeter {
  readonly #latencies: RecordableHistogram = createHistogram();
  readonly #began = performance.now();
  readonly #beganUs = monotonicUs();
  readonly #cpu = process.cpuUsage();
  #last = this.#began;
  #tasks = 0;
  #lateTasks = 0;

  /** @param latencyMs of the operation; undefined where single operations have none. */
  record(tasks: number, latencyMs?: number): void {
    this.#tasks += tasks;
    this.#last = performance.now();
    if (latencyMs !== undefined) this.#latencies.record(Math.max(1, Math.round(latencyMs * 1e6)));
  }

  /** Tasks that were done after the time was over: they cost CPU all the same. */
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
