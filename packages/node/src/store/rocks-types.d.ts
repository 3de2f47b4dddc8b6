/** The members of the RocksDB binding that the store uses; the package ships no types. */
declare module '@nxtedition/rocksdb' {
  /** Handle of a column family. It belongs to the thread that opened it. */
  export type Column = { readonly opaque: unique symbol };

  export interface ColumnOptions {
    readonly compaction?: 'level' | 'universal';
    /** In bytes. Only used if `compaction` is set. A memtable takes a quarter of it, and six may exist. */
    readonly memtableMemoryBudget?: number;
    /** Block cache of this family, in bytes. */
    readonly cacheSize?: number;
    readonly cacheIndexAndFilterBlocks?: boolean;
    readonly compression?: boolean;
    readonly optimize?: 'point-lookup';
    /** In bytes. Default 4 KiB. */
    readonly blockSize?: number;
  }

  export interface OpenOptions {
    readonly createIfMissing?: boolean;
    readonly parallelism?: number;
    readonly walCompression?: boolean;
    readonly columns?: Readonly<Record<string, ColumnOptions>>;
  }

  export interface QueryOptions {
    readonly gte: Uint8Array;
    readonly lt: Uint8Array;
    /** At most 2^31 - 1. */
    readonly limit: number;
    /** The last row is the one that exceeds this. At most 2^31 - 1. */
    readonly highWaterMarkBytes: number;
    readonly keyEncoding: 'buffer';
    readonly valueEncoding: 'buffer';
    readonly fillCache: boolean;
    readonly column: Column;
  }

  export interface Batch {
    _put(key: Uint8Array, value: Uint8Array, options: { readonly column: Column }): void;
    _del(key: Uint8Array, options: { readonly column: Column }): void;
    /** Blocks this thread until the write is on disk. Throws. */
    _writeSync(options: { readonly sync: boolean }): void;
    /** Empties the batch for another use. */
    _clear(): void;
  }

  export class RocksLevel {
    /** With a handle: uses a database that another thread of this process has opened. It must stay open longer than this. */
    constructor(locationOrHandle: string | bigint);
    open(options?: OpenOptions): Promise<void>;
    close(): Promise<void>;
    readonly handle: bigint;
    readonly columns: Readonly<Record<string, Column>>;
    _chainedBatch(): Batch;
    /** On this thread. Throws. */
    _getManySync(
      keys: readonly Uint8Array[],
      options: { readonly column: Column; readonly valueEncoding: 'buffer' },
    ): (Buffer | undefined | null)[];
    /** On this thread; keys and values in turn. Throws. */
    querySync(options: QueryOptions): { readonly rows: readonly Buffer[]; readonly finished: boolean };
    /** A range delete, on this thread, before it returns. */
    _clear(
      options: { readonly gte: Uint8Array; readonly lt: Uint8Array; readonly column: Column },
      callback: (error?: Error | null) => void,
    ): void;
  }

  const rocks: { readonly RocksLevel: typeof RocksLevel };
  export default rocks;
}
