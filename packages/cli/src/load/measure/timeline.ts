import { addCounts, CALL_KINDS, CallFigures, type CallKind } from './call-figures.ts';

/** The figures of an interval of time. */
export class Interval {
  readonly calls = new Map<CallKind, CallFigures>();
  /** Failed attempts that clients have repeated, by reason. */
  readonly retries = new Map<string, number>();
  /** Tasks in the queues at its end. */
  openTasks = 0;

  callsOf(kind: CallKind): CallFigures {
    const known = this.calls.get(kind);
    if (known !== undefined) return known;
    const figures = new CallFigures();
    this.calls.set(kind, figures);
    return figures;
  }

  /** Adds calls and retries, and not the open tasks. */
  add(other: Interval): void {
    for (const kind of CALL_KINDS) {
      const figures = other.calls.get(kind);
      if (figures !== undefined) this.callsOf(kind).add(figures);
    }
    addCounts(this.retries, other.retries);
  }
}

/** Intervals of a timeline. With more, each two become one, so that memory and reports stay small. */
const MOST_INTERVALS = 600;

/** The figures of a load over time, of one instance or of several. */
export class Timeline {
  #intervalMs: number;
  #intervals: Interval[];

  constructor(intervalMs: number, intervals: readonly Interval[] = []) {
    this.#intervalMs = intervalMs;
    this.#intervals = [...intervals];
  }

  get intervalMs(): number {
    return this.#intervalMs;
  }

  get intervals(): readonly Interval[] {
    return this.#intervals;
  }

  /** The interval of this instant, in ms since the start. Tasks stay open in intervals that are skipped. */
  at(elapsedMs: number): Interval {
    return this.#at(elapsedMs, this.#intervals.at(-1)?.openTasks ?? 0);
  }

  /** The sum of all intervals. */
  total(): Interval {
    const total = new Interval();
    for (const interval of this.#intervals) total.add(interval);
    total.openTasks = this.#intervals.at(-1)?.openTasks ?? 0;
    return total;
  }

  /** Adds the figures of another instance that started at the same time. */
  add(other: Timeline): void {
    while (this.#intervalMs < other.#intervalMs) this.#halve();
    const step = this.#intervalMs / other.#intervalMs;
    if (!Number.isInteger(step)) throw new TypeError(`intervals of ${other.#intervalMs} ms do not fit`);
    const last = other.#intervals.length - 1;
    for (const [index, interval] of other.#intervals.entries()) {
      const own = this.#at(index * other.#intervalMs, 0);
      own.add(interval);
      if ((index + 1) % step === 0 || index === last) own.openTasks += interval.openTasks;
    }
  }

  #at(elapsedMs: number, openTasks: number): Interval {
    let index = this.#indexOf(elapsedMs);
    while (index >= MOST_INTERVALS) {
      this.#halve();
      index = this.#indexOf(elapsedMs);
    }
    for (let at = this.#intervals.length; at <= index; at++) {
      const skipped = new Interval();
      skipped.openTasks = openTasks;
      this.#intervals.push(skipped);
    }
    return this.#intervals[index] as Interval;
  }

  #indexOf(elapsedMs: number): number {
    return Math.max(0, Math.floor(elapsedMs / this.#intervalMs));
  }

  #halve(): void {
    const halved: Interval[] = [];
    for (let at = 0; at < this.#intervals.length; at += 2) {
      const pair = this.#intervals.slice(at, at + 2);
      const joined = new Interval();
      for (const interval of pair) joined.add(interval);
      joined.openTasks = pair.at(-1)?.openTasks ?? 0;
      halved.push(joined);
    }
    this.#intervals = halved;
    this.#intervalMs *= 2;
  }
}
