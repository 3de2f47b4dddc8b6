import type { Column, ColumnOptions, RocksLevel } from '@nxtedition/rocksdb';
import { type Family, familyNames } from '@taskmaster/engine/ports';

/** The percentage of the memory that a family gets, and how it is read. */
interface Share {
  readonly memtables: number;
  readonly cache: number;
  readonly optimize?: 'point-lookup';
  /** Bytes of rows that are read, checked and compressed together. RocksDB's default is 4 KiB. */
  readonly blockBytes?: number;
}

/*
 * Memtables hold new rows. A task of 1 KB writes its payload to `data`, a tenth of that to `log`, and as little to the
 * families of its state. A family with few writes must not get much memory, because its memtable keeps the write-ahead log
 * alive until it is flushed. A family with many writes must get enough: while five memtables wait for a flush, RocksDB writes
 * only 16 MB a second, and payloads may arrive at 300 MB a second.
 *
 * Caches hold rows of random reads: payloads, then the states of tasks. The log is read in order, at recovery.
 *
 * `point-lookup` (hash index in the blocks, filters on whole keys in the memtable, smaller filters on disk) suits families that
 * are only read by key.
 *
 * A block of the default size holds only four payloads of 1 KB. Each block has its own index entry and compression, which are
 * about a fifth of the cost of compactions. Larger blocks do not make reads slower, because heads of queues are read in order.
 */
const shares: Readonly<Record<keyof typeof Family, Share>> = {
  data: { memtables: 56, cache: 40, optimize: 'point-lookup', blockBytes: 16 * 1024 },
  ready: { memtables: 10, cache: 20 },
  hidden: { memtables: 9, cache: 15 },
  due: { memtables: 4, cache: 6 },
  queues: { memtables: 3, cache: 6 },
  log: { memtables: 10, cache: 4 },
  requests: { memtables: 6, cache: 7, optimize: 'point-lookup' },
  meta: { memtables: 1, cache: 1 },
};

/** RocksDB's own family. It must exist but is not used. */
const unused: Share = { memtables: 1, cache: 1 };

/** With the binding's level compaction, a memtable is a quarter of the budget, and up to six of them exist. */
const MEMTABLES_PER_BUDGET = 6 / 4;

/** Caches and memtables smaller than this make RocksDB slow. */
const LEAST_BYTES = 256 * 1024;

export interface MemoryBudget {
  /** All block caches together. */
  readonly blockCacheBytes: number;
  /** All memtables together, at their worst. */
  readonly memtableBytes: number;
}

export interface ColumnBudget extends MemoryBudget {
  /** See `RocksStoreOptions`. */
  readonly dictionaryCompression: boolean;
}

const optionsOf = (share: Share, budget: ColumnBudget): ColumnOptions => ({
  // Level compaction keeps space near the size of the live data, because most tasks are deleted soon after they are written.
  // Levels 0 and 1 are not compressed: most tasks are deleted before they reach a deeper level.
  compaction: 'level',
  memtableMemoryBudget: Math.max(
    LEAST_BYTES,
    Math.floor((budget.memtableBytes / MEMTABLES_PER_BUDGET) * (share.memtables / 100)),
  ),
  cacheSize: Math.max(LEAST_BYTES, Math.floor(budget.blockCacheBytes * (share.cache / 100))),
  // Otherwise indexes and filters of every file stay in memory, which then grows with the number of tasks.
  cacheIndexAndFilterBlocks: true,
  // Zstd with a dictionary, because tasks of one queue are similar. Training the dictionary costs more than all other work on a
  // task after its commit, and most tasks are deleted before their space matters.
  compression: budget.dictionaryCompression,
  ...(share.optimize && { optimize: share.optimize }),
  ...(share.blockBytes && { blockSize: share.blockBytes }),
});

/** Options of all column families by name. RocksDB requires every existing family at an open. */
export const columnOptions = (budget: ColumnBudget): Record<string, ColumnOptions> => ({
  default: optionsOf(unused, budget),
  ...Object.fromEntries(familyNames.map((name) => [name, optionsOf(shares[name], budget)])),
});

/** The columns, indexed by the numbers of their families. */
export const columnsOf = (db: RocksLevel): readonly Column[] =>
  familyNames.map((name) => {
    const column = db.columns[name];
    if (column === undefined) throw new Error(`the database has no column family ${name}`);
    return column;
  });

export function columnOf(columns: readonly Column[], family: Family): Column {
  const column = columns[family];
  if (column === undefined) throw new TypeError(`no column family has the number ${family}`);
  return column;
}
