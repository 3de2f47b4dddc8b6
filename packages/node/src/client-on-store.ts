import { type ClientOptions, clientOver, type TaskMasterClient } from '@taskmaster/client';
import type { OptionNames, Timing } from '@taskmaster/client/internal';
import { type EngineConfig, openEngine } from '@taskmaster/engine';
import { type Clock, type Log, type Store, systemRandom } from '@taskmaster/engine/ports';
import { InProcessTransport } from './in-process-transport.ts';
import { type SharedStore, stopWithin } from './open-shared-store.ts';
import { createHandlers } from './service/handlers.ts';

/** The names of the engine's settings. */
export const engineNames: OptionNames<EngineConfig> = {
  partitions: true,
  durability: true,
  cacheBytes: true,
  maxInFlightRequests: true,
  maxInFlightBytes: true,
  maxQueues: true,
  maxWaiters: true,
  maxResultBytes: true,
  maxEventBytes: true,
  requestIdWindowMs: true,
  requestIdCacheBytes: true,
  checkpointIntervalMs: true,
  minRefillTasks: true,
  maxRefillTasks: true,
  emptyQueueRetentionMs: true,
  maxConcurrentBackups: true,
  maxBackupBytesPerSecond: true,
};

export interface ClientOnStoreOptions {
  readonly store: Store | SharedStore;
  readonly clock: Clock;
  /** The time of the client. Default: that of the process. */
  readonly timing?: Timing;
  /** Called when a call begins or ends. */
  readonly onCall?: () => void;
  readonly config: Partial<EngineConfig>;
  readonly log: Log;
  readonly client: ClientOptions | undefined;
}

/** How long a close waits for a database that does not answer, in ms. */
const CLOSE_WITHIN_MS = 10_000;

/** A client of an engine in this process. The store belongs to it: it is closed with the client, and if no engine opens on it. */
export async function clientOnStore(options: ClientOnStoreOptions): Promise<TaskMasterClient> {
  const { clock, timing, onCall, config, log, client } = options;
  await using opened = new AsyncDisposableStack();
  const store = opened.use(options.store);
  const engine = await openEngine({ store, clock, random: systemRandom, config, log });
  opened.defer(() => engine.stop());

  const running = opened.move();
  const handlers = createHandlers(engine, log);
  const backup = engine.backups.backup.bind(engine.backups);
  const close = () => stopWithin(CLOSE_WITHIN_MS, 'giveUp' in store ? store : undefined, () => running.disposeAsync());
  return clientOver(new InProcessTransport({ handlers, backup, log, timing, onCall, close }), client, { timing });
}
