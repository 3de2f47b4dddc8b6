import type { EngineConfig } from './config.ts';
import type { EndedBulkRun } from './domain/bulk-runs.ts';
import type { Holdings } from './holdings.ts';
import type { Clock } from './ports/clock.ts';
import type { Random } from './ports/random.ts';
import type { SharedHolders } from './ports/shared-holders.ts';
import type { Store } from './ports/store.ts';
import type { GroupLimitsOf } from './queues/group-usage.ts';

/** The log of an engine, with methods like pino's. */
export interface EngineLog {
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
}

/** What an engine needs after its store is prepared. */
export interface OpenedEngineDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: EngineLog;
  /** Called while the commit log is replayed, with the number of its entries so far. */
  readonly onReplay: (atoms: number) => void;
  /** Called for each run of a schedule that was enqueued, with the time since its instant, in ms. */
  readonly onRun: (lateMs: number) => void;
  /** Called once when the end of a bulk run is on disk, unless the process ends in that moment. */
  readonly onBulkRunEnd: (run: EndedBulkRun) => void;
  readonly config: EngineConfig;
  readonly groupLimits: GroupLimitsOf;
  /** See `EngineDeps`. */
  readonly tellsAll: boolean;
  readonly holdings: Holdings;
  /** See `EngineDeps`. */
  readonly shared: SharedHolders | undefined;
}
