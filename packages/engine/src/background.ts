import { sweepBulkRuns } from './bulk/sweep-bulk-runs.ts';
import type { Instant } from './domain/ids.ts';
import type { EngineState } from './engine-state.ts';
import { sweepEnds } from './operations/ends/sweep-ends.ts';
import { sweepKeys } from './operations/keys/sweep-keys.ts';
import type { Reaper } from './operations/reaper.ts';
import { sweepDead } from './operations/sweep-dead.ts';
import type { CancelTimer, Clock } from './ports/clock.ts';
import { repeat } from './ports/repeat.ts';
import { sweepLimits } from './records/limit-operations.ts';
import { sweepPauses } from './records/pause-operations.ts';
import { sweepTokens } from './records/token-records.ts';
import { SchedulesAhead } from './schedules/schedules-ahead.ts';
import { sweepRuns } from './schedules/sweep-runs.ts';
import { Sweeps } from './sweeps.ts';
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
  readonly #sweeps: Sweeps;
  #cancelTimers: CancelTimer[] = [];

  constructor(deps: BackgroundDeps) {
    this.#deps = deps;
    this.#sweeps = new Sweeps({ ...deps, failed: this.#failed });
  }

  /** Number of schedules that wait because the system clock was set back. */
  get schedulesAhead(): number {
    const engineState = this.#deps.engineState();
    return engineState === undefined ? 0 : this.#schedulesAhead.waiting(engineState);
  }

  start(): void {
    this.#sweeps.add(sweepDead);
    this.#sweeps.add(sweepRuns);
    this.#sweeps.add(this.#schedulesAhead);
    this.#sweeps.add(sweepEnds);
    this.#sweeps.add(sweepKeys);
    this.#sweeps.add(sweepSubscriptions(this.#deps.reaper));
    this.#sweeps.add(sweepPauses);
    this.#sweeps.add(sweepLimits);
    this.#sweeps.add(sweepTokens);
    this.#sweeps.add(sweepBulkRuns());
    this.wake();
  }

  /** Call this whenever something may have become due, or will. */
  wake(): void {
    this.#sweeps.wake();
  }

  /** Repeats work until `cancel`. Errors go to the log. */
  every(intervalMs: number, work: () => Promise<void>): void {
    this.#cancelTimers.push(repeat(this.#deps.clock, intervalMs, work, this.#failed));
  }

  /** Does work once, unless `cancel` comes before. */
  after(delayMs: number, work: () => void): void {
    const { clock } = this.#deps;
    this.#cancelTimers.push(clock.at((clock.now() + delayMs) as Instant, work));
  }

  /** Nothing begins from now on. */
  cancel(): void {
    for (const cancel of this.#cancelTimers.splice(0)) cancel();
    this.#sweeps.cancel();
  }

  /** Resolves when no sweep is in progress. */
  ended(): Promise<void> {
    return this.#sweeps.ended();
  }

  readonly #failed = (error: unknown): void => this.#deps.log.warn({ err: error }, 'background work failed');
}
