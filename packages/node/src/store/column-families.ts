import type { Column, ColumnOptions, RocksLevel } from '@nxtedition/rocksdb';
import { type Family, familyNames } from '../ports/store.ts';

/** What of the memory each family gets, in percent, and what it is read by. */
interface Share {
  readonly memtables: number;
  readonly cache: number;
  readonly optimize?: 'point-lookup';
}

/*
 * Memtables take what is written: a task of 1 KB writes its payload to `data` and, in its atom, to `log`; the rows that
 * follow its state are a tenth of that. A family that is written little must not get much, because its memtable keeps
 * the write-ahead log alive until it is flushed.
 *
 * The cache takes what is read at random: payloads, then the state of tasks. The log is read in order, at recovery.
 *
 * `point-lookup` (hash index in the blocks, filters on whole keys in the memtable, smaller filters on disk) fits the
 * families that are read by key only.
 */
const shares: Readonly<Record<keyof typeof Family, Share>> = {
  data: { memtables: 40, cache: 40, optimize: 'point-lookup' },
  ready: { memtables: 12, cache: 20 },
  hidden: { memtables: 12, cache: 15 },
  due: { memtables: 6, cache: 6 },
  queues: { memtables: 4, cache: 6 },
  log: { memtables: 17, cache: 4 },
  requests: { memtables: 7, cache: 7, optimize: 'point-lookup' },
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

/*
 * Level compaction: space stays near the live data, which matters for tasks that are deleted soon after they are written.
 * Where the binding is told so, it sets memtables to a part of a budget, and compresses all levels but the first two. Where
 * it is not told, it leaves everything as RocksDB has it: level compaction too, two memtables of 64 MiB, tables as large,
 * and no compression. For payloads that is half of the work that becomes of a task once it is committed.
 */
const PLAIN_PAYLOAD_BYTES = 128 * 1024 * 1024;
/** Fewer and larger blocks than the 4 KiB that are the default: an index of a table of 64 MiB would be as large as a small table. */
const PLAIN_BLOCK_BYTES = 16 * 1024;
/** From here on payloads may have that much of the memtables. */
export const PLAIN_MEMTABLE_BYTES = 1.5 * PLAIN_PAYLOAD_BYTES;

function compactionOf(name: keyof typeof Family | undefined, share: Share, budget: ColumnBudget): ColumnOptions {
  const isPlain = !budget.compression && budget.memtableBytes >= PLAIN_MEMTABLE_BYTES;
  if (isPlain && name === 'data') return { blockSize: PLAIN_BLOCK_BYTES };
  const percent = isPlain ? 100 - shares.data.memtables : 100;
  const bytes = isPlain ? budget.memtableBytes - PLAIN_PAYLOAD_BYTES : budget.memtableBytes;
  const memtables = (bytes / MEMTABLES_PER_BUDGET) * (share.memtables / percent);
  return { compaction: 'level', memtableMemoryBudget: Math.max(LEAST_BYTES, Math.floor(memtables)) };
}

const optionsOf = (name: keyof typeof Family | undefined, share: Share, budget: ColumnBudget): ColumnOptions => ({
  ...compactionOf(name, share, budget),
  cacheSize: Math.max(LEAST_BYTES, Math.floor(budget.cacheBytes * (share.cache / 100))),
  // Otherwise indexes and filters are held for every file: memory that grows with the number of tasks.
  cacheIndexAndFilterBlocks: true,
  // Zstd with a dictionary, as tasks of one queue resemble each other. Training it costs more than all else that becomes of
  // a task once it is committed, and most tasks are gone before their space counts.
  compression: budget.compression,
  ...(share.optimize && { optimize: share.optimize }),
});

/** Options of all column families, by name. Opening must name every family there is. */
export const columnOptions = (budget: ColumnBudget): Record<string, ColumnOptions> => ({
  default: optionsOf(undefined, unused, budget),
  ...Object.fromEntries(familyNames.map((name) => [name, optionsOf(name, shares[name], budget)])),
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
