import type { Timing } from '@taskmaster/client/internal';
import type { CallKind } from './call-figures.ts';
import { type Pause, Pauses } from './pauses.ts';
import { Interval, Timeline } from './timeline.ts';

/** Time of the shortest interval, in ms. */
const INTERVAL_MS = 1_000;

/** Counts and times the calls of one instance. */
export class Meter {
  readonly timeline = new Timeline(INTERVAL_MS);
  readonly #timing: Timing;
  readonly #start: number;
  readonly #pauses: Pauses;
  #openTasks = 0;
  #sinceTaken = new Interval();

  /** Its creation is the start of the load. */
  constructor(timing: Timing) {
    this.#timing = timing;
    this.#start = timing.now();
    this.#pauses = new Pauses(this.#start);
  }

  get elapsedMs(): number {
    return this.#timing.now() - this.#start;
  }

  get openTasks(): number {
    return this.#openTasks;
  }

  get longestPause(): Pause | undefined {
    return this.#pauses.longest;
  }

  /** A call begins. Reads and leases have no `group`: a lease may wait for a task. */
  began(group: string | undefined): void {
    if (group !== undefined) this.#pauses.began(group, this.#timing.now());
  }

  /** A call has succeeded. Its latency counts from the instant at which it was due. */
  succeeded(kind: CallKind, group: string | undefined, dueAt: number, tasks: number): void {
    const now = this.#timing.now();
    if (group !== undefined) this.#pauses.succeeded(group, now);
    for (const interval of this.#current()) {
      const figures = interval.callsOf(kind);
      figures.latencies.record(now - dueAt);
      figures.tasks += tasks;
    }
  }

  failed(kind: CallKind, group: string | undefined, reason: string): void {
    if (group !== undefined) this.#pauses.failed(group);
    for (const interval of this.#current()) increment(interval.callsOf(kind).errors, reason);
  }

  /** An attempt has failed and will be repeated. */
  retried(reason: string): void {
    for (const { retries } of this.#current()) increment(retries, reason);
  }

  /** Tasks were added to the queues, or have left them. */
  tasksChanged(by: number): void {
    this.#openTasks += by;
    this.#current();
  }

  /** The figures since the last call of `take`. */
  take(): Interval {
    const taken = this.#sinceTaken;
    taken.openTasks = this.#openTasks;
    this.#sinceTaken = new Interval();
    return taken;
  }

  /** Call this when all calls have ended. */
  finish(): void {
    this.#pauses.finish(this.#timing.now());
    this.#current();
  }

  /** The interval of now, and what `take` returns next. */
  #current(): readonly [Interval, Interval] {
    const interval = this.timeline.at(this.elapsedMs);
    interval.openTasks = this.#openTasks;
    return [interval, this.#sinceTaken];
  }
}

function increment(counts: Map<string, number>, reason: string): void {
  counts.set(reason, (counts.get(reason) ?? 0) + 1);
}
