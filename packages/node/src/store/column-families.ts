import type { Column, ColumnOptions, RocksLevel } from '@nxtedition/rocksdb';
import { type Family, familyNames } from '../ports/store.ts';

/** What of the memory each family gets, in percent, and what it is read by. */
interface Share {
  readonly memtables: number;
  readonly cache: number;
  readonly optimize?: 'point-lookup';
  /** Bytes of rows that are read, checked and compressed together; RocksDB's default is 4 KiB. */
  readonly blockBytes?: number;
}

/*
 * Memtables take what is written: a task of 1 KB writes its payload to `data` and a tenth of that to `log`; the rows that
 * follow its state are as little. A family that is written little must not get much, because its memtable keeps the
 * write-ahead log alive until it is flushed. One that is written much must get enough: with five memtables waiting to be
 * flushed RocksDB writes 16 MB a second, and payloads may come at 300.
 *
 * The cache takes what is read at random: payloads, then the state of tasks. The log is read in order, at recovery.
 *
 * `point-lookup` (hash index in the blocks, filters on whole keys in the memtable, smaller filters on disk) fits the
 * families that are read by key only.
 *
 * Of payloads of 1 KB four fit into a block of the default size, each with an entry of the file's index and a compression of
 * its own: about a fifth of what compactions cost. Heads of queues are read in order, so that larger blocks cost reads
 * nothing.
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

/** RocksDB's own family, which must exist; nothing is written to it. */
const unused: Share = { memtables: 1, cache: 1 };

/** With the binding's level compaction a memtable is a quarter of the budget and up to six of them exist. */
const MEMTABLES_PER_BUDGET = 6 / 4;

/** Below this RocksDB's caches and memtables stop working well. */
const LEAST_BYTES = 256 * 1024;

export interface MemoryBudget {
  /** All block caches together. */
  readonly cacheBytes: number;
  /** All memtables together, at their worst. */
  readonly memtableBytes: number;
}

export interface ColumnBudget extends MemoryBudget {
  /** See `RocksStoreOptions`. */
  readonly compression: boolean;
}

const optionsOf = (share: Share, budget: ColumnBudget): ColumnOptions => ({
  // Level compaction: space stays near the live data, which matters for tasks that are deleted soon after they are
  // written. Levels 0 and 1 are not compressed, for most tasks do not live to see a deeper one.
  compaction: 'level',
  memtableMemoryBudget: Math.max(
    LEAST_BYTES,
    Math.floor((budget.memtableBytes / MEMTABLES_PER_BUDGET) * (share.memtables / 100)),
  ),
  cacheSize: Math.max(LEAST_BYTES, Math.floor(budget.cacheBytes * (share.cache / 100))),
  // Otherwise indexes and filters are held for every file: memory that grows with the number of tasks.
  cacheIndexAndFilterBlocks: true,
  // Zstd with a dictionary, as tasks of one queue resemble each other. Training it costs more than all else that becomes of
  // a task once it is committed, and most tasks are gone before their space counts.
  compression: budget.compression,
  ...(share.optimize && { optimize: share.optimize }),
  ...(share.blockBytes && { blockSize: share.blockBytes }),
});

/** Options of all column families, by name. Opening must name every family there is. */
export const columnOptions = (budget: ColumnBudget): Record<string, ColumnOptions> => ({
  default: optionsOf(unused, budget),
  ...Object.fromEntries(familyNames.map((name) => [name, optionsOf(shares[name], budget)])),
});

/** The column of each family, by the family's number. */
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
