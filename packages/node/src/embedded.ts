import type { ClientOptions, TaskMasterClient } from '@taskmaster/client';
import { assertKnown, type OptionNames } from '@taskmaster/client/internal';
import { assertDurability, type EngineConfig } from '@taskmaster/engine';
import { type Log, SystemClock } from '@taskmaster/engine/ports';
import { createLogger } from '@taskmaster/server/program';
import { clientOnStore, engineNames } from './client-on-store.ts';
import { divideEmbeddedMemory } from './embedded-memory.ts';
import { LONE_NAME, openSharedStore } from './open-shared-store.ts';
import type { RocksStoreOptions } from './store/rocks-store.ts';
import { version } from './version.ts';

export interface EmbeddedOptions extends Partial<EngineConfig> {
  /** Data directory; created if missing. Only one process at a time can use it. Required, unless `store` is a URL. */
  readonly dir?: string;
  /**
   * Memory of the queue, in bytes. It is divided among those sizes of the engine and the store that are not given. The heap of
   * V8 belongs to the program. Default: a quarter of the memory of the cgroup or the machine, at most 256 MiB.
   */
  readonly memoryBytes?: number;
  /**
   * Memory, disk reserve and compression of the store in `dir`. Or the data is in a PostgreSQL database: its URL, such as
   * `postgres://user:password@host:5432,other:5432/database`. One process at a time can use that, too: a second one takes the
   * place of the first, whose calls are refused with SHUTTING_DOWN from then on.
   */
  readonly store?: StoreSizes | string;
  /** Options of the client. */
  readonly client?: ClientOptions;
  /** Default: warnings and errors, as JSON lines on standard error. */
  readonly log?: Log;
}

type StoreSizes = Pick<
  RocksStoreOptions,
  'blockCacheBytes' | 'memtableBytes' | 'reserveBytes' | 'dictionaryCompression'
>;

const names: OptionNames<Required<EmbeddedOptions>> = {
  ...engineNames,
  dir: true,
  memoryBytes: true,
  store: true,
  client: true,
  log: true,
};

const storeNames: OptionNames<Required<StoreSizes>> = {
  blockCacheBytes: true,
  memtableBytes: true,
  reserveBytes: true,
  dictionaryCompression: true,
};

/**
 * Opens an engine inside this process, without a node or a network. It is used through the same client. Closing the client
 * finishes requests in progress and closes the data. Rejects with a `TypeError` if an option or a durability does
 * not exist, with `InvalidConfigError` if the sizes do not fit into the memory, with `StoreNewerError`, `StoreLockedError`,
 * `StoreCorruptError`, `StoreFailedError` or another error of the store.
 *
 * ```ts
 * await using client = await openEmbedded({ dir: './data' });
 * await client.queue('mail').enqueue({ to: 'ada' });
 * ```
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<TaskMasterClient> {
  assertKnown('openEmbedded', options, names);
  const url = typeof options.store === 'string' ? options.store : undefined;
  const storeOptions = typeof options.store === 'string' ? undefined : options.store;
  assertKnown('openEmbedded: store', storeOptions, storeNames);
  const { dir, memoryBytes, store: _, client, log = createLogger('warn'), ...given } = options;
  if ((dir === undefined) === (url === undefined)) {
    throw new TypeError('openEmbedded: name either dir, or a database by its URL in store');
  }
  if (given.durability !== undefined) assertDurability(given.durability);
  const memory = divideEmbeddedMemory(memoryBytes, {
    cacheBytes: given.cacheBytes,
    requestIdCacheBytes: given.requestIdCacheBytes,
    maxInFlightBytes: given.maxInFlightBytes,
    'store.blockCacheBytes': storeOptions?.blockCacheBytes,
    'store.memtableBytes': storeOptions?.memtableBytes,
  });
  const { cacheBytes, requestIdCacheBytes, maxInFlightBytes } = memory;
  const config = { ...given, cacheBytes, requestIdCacheBytes, maxInFlightBytes };
  const sizes = {
    ...storeOptions,
    blockCacheBytes: memory['store.blockCacheBytes'],
    memtableBytes: memory['store.memtableBytes'],
  };
  const { durability } = config;
  const flush = durability?.kind === 'relaxed' ? { flushIntervalMs: durability.flushIntervalMs } : {};

  if (url !== undefined) {
    const store = await openSharedStore({ url, name: LONE_NAME, release: version, log });
    return clientOnStore({ store, clock: new SystemClock({ wall: () => store.time() }), config, log, client });
  }
  // Loaded only here, because it is native.
  const { openRocksStore } = await import('./store/rocks-store.ts');
  const store = await openRocksStore({ ...sizes, ...flush, dir: dir ?? '', release: version, log });
  return clientOnStore({ store, clock: new SystemClock(), config, log, client });
}
