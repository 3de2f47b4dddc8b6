import type { Instant } from './domain/ids.ts';
import { NEVER } from './domain/task.ts';
import type { CancelTimer, Clock } from './ports/clock.ts';
import { type Sweep, Sweeper, type SweeperDeps } from './sweeper.ts';

/** A clock that is corrected meanwhile makes a timer late by a thousandth of its time. */
const LONGEST_SLEEP_MS = 60_000;

export interface SweepsDeps extends SweeperDeps {
  readonly clock: Clock;
  /** Receives errors of sweeps. */
  readonly failed: (error: unknown) => void;
}

interface Entry {
  readonly everyMs: number;
  readonly look: () => Promise<void> | undefined;
  readonly next: () => number;
  lookAt: number;
  isRunning: boolean;
}

/** The sweeps of an engine. They share one timer, which sleeps while none of them can find anything. */
export class Sweeps {
  readonly #deps: SweepsDeps;
  readonly #entries: Entry[] = [];
  readonly #running = new Set<Promise<void>>();
  #timer: { readonly at: number; readonly cancel: CancelTimer } | undefined;
  /** True if a sweep waits longer than it would if the state changed. */
  #isAsleep = false;
  #isCancelled = false;

  constructor(deps: SweepsDeps) {
    this.#deps = deps;
  }

  /** Sweeps from the next `wake` on. */
  add<T extends object>(sweep: Sweep<T>): void {
    const { clock, engineState } = this.#deps;
    const sweeper = new Sweeper(this.#deps, sweep);
    const { everyMs } = sweep;
    this.#entries.push({
      everyMs,
      look: () => sweeper.look(),
      next: () => {
        const current = engineState();
        return (current && sweep.next?.(current)) ?? 0;
      },
      lookAt: nextLook(clock.now(), everyMs),
      isRunning: false,
    });
  }

  /** Call this whenever the state has changed. */
  wake(): void {
    if (this.#timer !== undefined && !this.#isAsleep) return;
    const now = this.#deps.clock.now();
    let first = Number.POSITIVE_INFINITY;
    for (const entry of this.#entries) {
      if (entry.isRunning) continue;
      if (entry.lookAt <= now) entry.lookAt = nextLook(now, entry.everyMs);
      first = Math.min(first, entry.lookAt);
    }
    this.#isAsleep = false;
    this.#arm(first);
  }

  /** Nothing begins from now on. */
  cancel(): void {
    this.#isCancelled = true;
    this.#timer?.cancel();
  }

  /** Resolves when no sweep is in progress. */
  async ended(): Promise<void> {
    await Promise.all(this.#running);
  }

  #look(): void {
    this.#timer = undefined;
    const now = this.#deps.clock.now();
    for (const entry of this.#entries) {
      if (entry.isRunning || entry.lookAt > now) continue;
      const sweeping = entry.next() > now ? undefined : lookOf(entry);
      // All look at the same instants, so that the timer fires seldom.
      if (sweeping === undefined) entry.lookAt = nextLook(now, entry.everyMs);
      else this.#follow(entry, sweeping);
    }
    this.#sleep();
  }

  #follow(entry: Entry, sweeping: Promise<void>): void {
    entry.isRunning = true;
    const ended = sweeping.catch(this.#deps.failed).then(() => {
      this.#running.delete(ended);
      entry.isRunning = false;
      entry.lookAt = this.#deps.clock.now() + entry.everyMs;
      this.#sleep();
    });
    this.#running.add(ended);
  }

  /** Sets the timer to the first look that may find something. */
  #sleep(): void {
    let first = Number.POSITIVE_INFINITY;
    let firstAwake = Number.POSITIVE_INFINITY;
    for (const entry of this.#entries) {
      if (entry.isRunning) continue;
      firstAwake = Math.min(firstAwake, entry.lookAt);
      first = Math.min(first, Math.max(entry.lookAt, entry.next()));
    }
    this.#isAsleep = first > firstAwake;
    this.#arm(first);
  }

  #arm(earliest: number): void {
    const { clock } = this.#deps;
    const at = earliest < NEVER ? Math.min(earliest, clock.now() + LONGEST_SLEEP_MS) : NEVER;
    if (this.#isCancelled || this.#timer?.at === at) return;
    this.#timer?.cancel();
    this.#timer = at < NEVER ? { at, cancel: clock.at(at as Instant, () => this.#look()) } : undefined;
  }
}

const nextLook = (now: number, everyMs: number): number => (Math.floor(now / everyMs) + 1) * everyMs;

function lookOf({ look }: Entry): Promise<void> | undefined {
  try {
    return look();
  } catch (error) {
    return Promise.reject(error);
  }
}
