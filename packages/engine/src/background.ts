import { sweepBulkRuns } from './bulk/sweep-bulk-runs.ts';
import type { Instant } from './domain/ids.ts';
import type { EngineState } from './engine-state.ts';
import { sweepKeys } from './operations/keys/sweep-keys.ts';
import type { Reaper } from './operations/reaper.ts';
import { sweepEnds } from './operations/records/sweep-ends.ts';
import { sweepDead } from './operations/sweep-dead.ts';
import type { CancelTimer, Clock } from './ports/clock.ts';
import { repeat } from './ports/repeat.ts';
import { sweepLimits } from './records/limit-operations.ts';
import { sweepPauses } from './records/pause-operations.ts';
import { SchedulesAhead } from './schedules/schedules-ahead.ts';
import { sweepRuns } from './schedules/sweep-runs.ts';
import { type Sweep, Sweeper } from './sweeper.ts';
import { sweepSubscriptions } from './topics/sweep-subscriptions.ts';

export interface BackgroundDeps {
  /** Undefined while nothing can be written. */
  readonly engineState: () => EngineState | undefined;
  readonly clock: Clock;
  readonly reaper: Pick<Reaper, 'reap'>;
  readonly log: { warn(details: object, message: string): void };
}

/** The timers of an engine, and what it sweeps in the background. */
export class Background {
  readonly #deps: BackgroundDeps;
  readonly #schedulesAhead = new SchedulesAhead();
  /** Sweeps in progress. */
  readonly #sweeping = new Set<Promise<void>>();
  #cancelTimers: CancelTimer[] = [];

  constructor(deps: BackgroundDeps) {
    this.#deps = deps;
  }

  /** Number of schedules that wait because the system clock was set back. */
  get schedulesAhead(): number {
    const engineState = this.#deps.engineState();
    return engineState === undefined ? 0 : this.#schedulesAhead.waiting(engineState);
  }

  start(): void {
    this.#sweep(sweepDead);
    this.#sweep(sweepRuns);
    this.#sweep(this.#schedulesAhead);
    this.#sweep(sweepEnds);
    this.#sweep(sweepKeys);
    this.#sweep(sweepSubscriptions(this.#deps.reaper));
    this.#sweep(sweepPauses);
    this.#sweep(sweepLimits);
    this.#sweep(sweepBulkRuns());
  }

  /** Repeats work until `cancel`. Errors go to the log. */
  every(intervalMs: number, work: () => Promise<void>): void {
    const { clock, log } = this.#deps;
    const failed = (error: unknown): void => log.warn({ err: error }, 'background work failed');
    this.#cancelTimers.push(repeat(clock, intervalMs, work, failed));
  }

  /** Does work once, unless `cancel` comes before. */
  after(delayMs: number, work: () => void): void {
    const { clock } = this.#deps;
    this.#cancelTimers.push(clock.at((clock.now() + delayMs) as Instant, work));
  }

  /** Nothing begins from now on. */
  cancel(): void {
    for (const cancel of this.#cancelTimers.splice(0)) cancel();
  }

  /** Resolves when no sweep is in progress. */
  async ended(): Promise<void> {
    await Promise.all(this.#sweeping);
  }

  #sweep<T extends object>(sweep: Sweep<T>): void {
    const sweeper = new Sweeper(this.#deps, sweep);
    this.every(sweep.everyMs, () => {
      const sweeping = sweeper.look();
      const ended = sweeping
        .catch(() => {})
        .then(() => {
          this.#sweeping.delete(ended);
        });
      this.#sweeping.add(ended);
      return sweeping;
    });
  }
}
