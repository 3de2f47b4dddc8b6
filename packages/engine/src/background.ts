import type { Instant } from '@taskmaster/server/domain';
import { type CancelTimer, type Clock, repeat } from '@taskmaster/server/ports';
import type { EngineState } from './engine-state.ts';
import type { CommitLog } from './log/commit-log.ts';
import { DEAD_SEARCH_MS, DeadSearch } from './operations/dead-search.ts';
import { KEY_SWEEP_MS, KeySweep } from './operations/keys/key-sweep.ts';
import type { Reaper } from './operations/reaper.ts';
import { RECORD_SWEEP_MS, RecordSweep } from './operations/records/record-sweep.ts';
import type { Queue } from './queues/queue.ts';
import { AHEAD_SEARCH_MS, AheadSearch } from './schedules/ahead-search.ts';
import { DUE_SEARCH_MS, DueSearch } from './schedules/due-search.ts';
import { SUBSCRIPTION_SWEEP_MS, SubscriptionSweep } from './topics/subscription-sweep.ts';

export interface BackgroundDeps {
  /** Undefined while nothing can be written. */
  readonly memory: () => EngineState | undefined;
  readonly clock: Clock;
  readonly reaper: Pick<Reaper, 'reap'>;
  readonly log: { warn(details: object, message: string): void };
}

/** The timers of an engine, and its searches in the background. */
export class Background {
  readonly #deps: BackgroundDeps;
  readonly #deadSearch: DeadSearch;
  readonly #dueSearch: DueSearch;
  readonly #aheadSearch: AheadSearch;
  readonly #recordSweep: RecordSweep;
  readonly #keySweep: KeySweep;
  readonly #subscriptionSweep: SubscriptionSweep;
  /** Those in progress. */
  readonly #searches = new Set<Promise<void>>();
  #cancelTimers: CancelTimer[] = [];

  constructor(deps: BackgroundDeps) {
    this.#deps = deps;
    this.#deadSearch = new DeadSearch(deps);
    this.#dueSearch = new DueSearch(deps);
    this.#aheadSearch = new AheadSearch(deps);
    this.#recordSweep = new RecordSweep(deps.memory);
    this.#keySweep = new KeySweep(deps.memory);
    this.#subscriptionSweep = new SubscriptionSweep({ ...deps, reaper: this });
  }

  /** Number of schedules that wait because the system clock was set back. */
  get schedulesAhead(): number {
    return this.#aheadSearch.waiting;
  }

  start(): void {
    this.#search(DEAD_SEARCH_MS, () => this.#deadSearch.look());
    this.#search(DUE_SEARCH_MS, () => this.#dueSearch.look());
    this.#search(AHEAD_SEARCH_MS, () => this.#aheadSearch.look());
    this.#search(RECORD_SWEEP_MS, () => this.#recordSweep.look());
    this.#search(KEY_SWEEP_MS, () => this.#keySweep.look());
    this.#search(SUBSCRIPTION_SWEEP_MS, () => this.#subscriptionSweep.look());
  }

  /** Deletes what a queue that was deleted has left. */
  reap(log: Pick<CommitLog, 'appendRows'>, queue: Queue): void {
    this.#deps.reaper.reap(log, queue);
    this.#keySweep.forget(queue);
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

  /** Resolves when no search is in progress. */
  async ended(): Promise<void> {
    await Promise.all(this.#searches);
  }

  #search(intervalMs: number, look: () => Promise<void>): void {
    this.every(intervalMs, () => {
      const searching = look();
      const ended = searching
        .catch(() => {})
        .then(() => {
          this.#searches.delete(ended);
        });
      this.#searches.add(ended);
      return searching;
    });
  }
}
