import { createHistogram } from 'node:perf_hooks';
import type { WorkersLoad, WorkersResult } from './workers-load.ts';

/** Length of the intervals of rates, in ms. See `WorkersResult.perInterval`. */
const INTERVAL_MS = 250;

type Times = Pick<WorkersLoad, 'warmUpMs' | 'ms' | 'groups' | 'threads'>;

/** Counts the tasks after the warm-up, in intervals. */
export class WorkersMeter {
  readonly #now: () => number;
  readonly #counts: number[] = [];
  readonly #latencies = createHistogram();
  readonly #leastCalls: number;
  readonly #from: number;
  #end: number;
  #ranDry = false;
  #tasks = 0;
  #last: number;
  allTasks = 0;

  constructor({ warmUpMs, ms, groups, threads }: Times, now: () => number = () => performance.now()) {
    this.#now = now;
    this.#leastCalls = groups.length * threads;
    this.#from = now() + warmUpMs;
    this.#end = now() + ms;
    this.#last = this.#from;
  }

  /** True at the end of the time, but not before as many calls are answered as run concurrently, for a slow node. */
  get isOver(): boolean {
    return this.#now() >= this.#end && (this.#latencies.count >= this.#leastCalls || this.#ranDry);
  }

  record(tasks: number, latencyMs: number): void {
    this.allTasks += tasks;
    const now = this.#now();
    if (now < this.#from || this.isOver) return;
    const interval = Math.floor((now - this.#from) / INTERVAL_MS);
    this.#counts[interval] = (this.#counts[interval] ?? 0) + tasks;
    this.#latencies.record(Math.max(1, Math.round(latencyMs * 1e6)));
    this.#tasks += tasks;
    this.#last = now;
  }

  /** Call this when no task is left: the time ends here. */
  dry(): void {
    if (this.isOver) return;
    this.#ranDry = true;
    this.#end = this.#now();
  }

  result(refused: number): WorkersResult {
    const elapsedMs = Math.max(this.#last - this.#from, 1e-3);
    const latencyMs = (percent: number): number => this.#latencies.percentile(percent) / 1e6;
    const mean = (this.#tasks * 1000) / elapsedMs;
    return {
      tasks: this.#tasks,
      allTasks: this.allTasks,
      elapsedMs,
      tasksPerS: mean,
      perInterval: this.#perSecond(elapsedMs, mean),
      latencyMs: { median: latencyMs(50), p20: latencyMs(20), p80: latencyMs(80) },
      refused,
      ranDry: this.#ranDry,
    };
  }

  /** Rates of whole intervals; without one, the rate of the whole time. */
  #perSecond(elapsedMs: number, mean: number): number[] {
    const whole = Math.floor(elapsedMs / INTERVAL_MS);
    if (whole === 0) return [mean];
    return Array.from({ length: whole }, (_, i) => ((this.#counts[i] ?? 0) * 1000) / INTERVAL_MS);
  }
}
