import { type ClientOptions, clientOver, type TaskMasterClient } from '@taskmaster/client';
import { type Log, SystemClock, systemRandom } from '@taskmaster/server/ports';
import { createLogger } from '@taskmaster/server/program';
import { createHandlers } from '@taskmaster/server/service';
import type { EngineConfig } from './engine/config.ts';
import { openEngine } from './engine/engine.ts';
import { InProcessTransport } from './in-process-transport.ts';
import { openRocksStore, type RocksStoreOptions } from './store/rocks-store.ts';

export interface EmbeddedOptions extends Partial<EngineConfig> {
  /** Directory of the data; created if it is missing. One process at a time can use it. */
  readonly dir: string;
  /** Sizes of the store underneath, and whether it compresses. */
  readonly store?: Pick<RocksStoreOptions, 'cacheBytes' | 'memtableBytes' | 'reserveBytes' | 'compression'>;
  /** Of the client itself. */
  readonly client?: ClientOptions;
  /** Default: warnings and errors, as JSON lines on standard error. */
  readonly log?: Log;
}

/**
 * Opens a queue of this process's own: the same engine and the same client, no node and no network. Closing the client
 * finishes what is in flight and closes the data. Throws `StoreLockedError`, `StoreCorruptError` and the like.
 *
 * ```ts
 * await using client = await openEmbedded({ dir: './data' });
 * await client.queue('mail').enqueue({ to: 'ada' });
 * ```
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<TaskMasterClient> {
  const { dir, store: sizes, client, log = createLogger('warn'), ...config } = options;
  const { durability } = config;
  const flush = durability?.kind === 'relaxed' ? { flushIntervalMs: durability.flushIntervalMs } : {};

  await using opened = new AsyncDisposableStack();
  const store = opened.use(await openRocksStore({ ...sizes, ...flush, dir, log }));
  const engine = await openEngine({ store, clock: new SystemClock(), random: systemRandom, config, log });
  opened.defer(() => engine.stop());

  const running = opened.move();
  const handlers = createHandlers(engine, log);
  return clientOver(new InProcessTransport({ handlers, log, close: () => running.disposeAsync() }), client);
}
