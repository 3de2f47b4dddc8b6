import type { ClientOptions, TaskMasterClient } from '@taskmaster/client';
import { assertKnown, type OptionNames } from '@taskmaster/client/internal';
import type { EngineConfig } from '@taskmaster/engine';
import { type Log, SystemClock } from '@taskmaster/engine/ports';
import { createLogger } from '@taskmaster/server/program';
import { clientOnStore, engineNames } from './client-on-store.ts';
import { divideEmbeddedMemory } from './embedded-memory.ts';
import { openRocksStore, type RocksStoreOptions } from './store/rocks-store.ts';
import { version } from './version.ts';

export interface EmbeddedOptions extends Partial<EngineConfig> {
  /** Data directory; created if missing. Only one process at a time can use it. */
  readonly dir: string;
  /**
   * Memory of the queue, in bytes. It is divided among those sizes of the engine and the store that are not given. The heap of
   * V8 belongs to the program. Default: a quarter of the memory of the cgroup or the machine, at most 256 MiB.
   */
  readonly memoryBytes?: number;
  /** Memory, disk reserve and compression of the store. */
  readonly store?: Pick<
    RocksStoreOptions,
    'blockCacheBytes' | 'memtableBytes' | 'reserveBytes' | 'dictionaryCompression'
  >;
  /** Options of the client. */
  readonly client?: ClientOptions;
  /** Default: warnings and errors, as JSON lines on standard error. */
  readonly log?: Log;
}

type StoreOptions = NonNullable<EmbeddedOptions['store']>;

const names: OptionNames<Required<EmbeddedOptions>> = {
  ...engineNames,
  dir: true,
  memoryBytes: true,
  store: true,
  client: true,
  log: true,
};

const storeNames: OptionNames<Required<StoreOptions>> = {
  blockCacheBytes: true,
  memtableBytes: true,
  reserveBytes: true,
  dictionaryCompression: true,
};

/**
 * Opens an engine inside this process, without a node or a network. It is used through the same client. Closing the client
 * finishes requests in progress and closes the data. Rejects with a `TypeError` if an option does not exist, with
 * `InvalidConfigError` if the sizes do not fit into the memory, with `StoreNewerError`, `StoreLockedError`,
 * `StoreCorruptError` or another error of the store.
 *
 * ```ts
 * await using client = await openEmbedded({ dir: './data' });
 * await client.queue('mail').enqueue({ to: 'ada' });
 * ```
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<TaskMasterClient> {
  assertKnown('openEmbedded', options, names);
  assertKnown('openEmbedded: store', options.store, storeNames);
  const { dir, memoryBytes, store: storeOptions, client, log = createLogger('warn'), ...given } = options;
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

  const store = await openRocksStore({ ...sizes, ...flush, dir, release: version, log });
  return clientOnStore({ store, clock: new SystemClock(), config, log, client });
}
