import { readdir, stat, statfs } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { RocksLevel } from '@nxtedition/rocksdb';
import { FirstTimes, type Key } from '@taskmaster/engine/domain';
import {
  type Family,
  type KeyRange,
  type Row,
  type ScanLimit,
  type Store,
  StoreClosedError,
  type StoreSize,
  type StoreState,
  WriteBatch,
} from '@taskmaster/engine/ports';
import type { MemoryBudget } from './column-families.ts';
import { DiskGuard } from './disk-guard.ts';
import { closeToOthers, makeDirectory } from './make-directory.ts';
import { type OpenDatabase, openDatabase } from './open-database.ts';
import { errorOf, type Failure } from './rocks-errors.ts';
import { SyncedFiles } from './synced-files.ts';
import { RocksReader } from './threads/rocks-reader.ts';
import { RocksWriter } from './threads/rocks-writer.ts';

/** The log of a store, with methods like pino's. */
export interface StoreLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface RocksStoreOptions {
  /** Directory of the database. It is created if it is missing. */
  readonly dir: string;
  /** Version of this program. It is recorded when the format of the directory changes. */
  readonly release: string;
  /** Block caches of all families together. Default 128 MiB: an eighth of a machine with 1 GB. */
  readonly blockCacheBytes?: number;
  /**
   * Limit of the memtables of all families together, in bytes. Default 128 MiB. A larger limit makes larger files on disk (a
   * table of payloads is a fortieth of the limit), which helps with many millions of tasks. But the write-ahead log may grow
   * to four times the limit, and it is replayed when the store opens.
   */
  readonly memtableBytes?: number;
  /**
   * Size of the reserve file, which is deleted when the disk is full. Default 256 MiB, at least 1 MiB. The disk counts as
   * full when less than this plus `memtableBytes` is free beside the file. A reserve smaller than `memtableBytes` may not be
   * enough for RocksDB to write again.
   */
  readonly reserveBytes?: number;
  /**
   * True: files are compressed with dictionaries, except those of the two youngest levels. Default false. The choice may
   * change between two starts: existing files change when RocksDB rewrites them.
   */
  readonly dictionaryCompression?: boolean;
  /** True for a restore, which may open a directory that no node may use yet. Default false. */
  readonly restoring?: boolean;
  /** Longest time a write without `sync` stays unsynced, in ms. Default 100. */
  readonly flushIntervalMs?: number;
  readonly log?: StoreLog;
}

const MIB = 1024 * 1024;
const LEAST_RESERVE_BYTES = MIB;

/**
 * Number of reader threads. With two, a long scan or a slow disk read does not delay all other reads. More would not be faster,
 * because the event loop unpacks all answers. The second thread is started when it is first needed.
 */
const READERS = 2;

/** Time between two measurements of the size on disk, which must look at every file. */
const SIZE_INTERVAL_MS = 10_000;

/** Open databases. This prevents their garbage collection: handles are not counted, and threads would read freed memory. */
const open = new Set<RocksLevel>();

/**
 * Opens a store on RocksDB, or creates one in an empty directory. Throws `StoreNewerError`, `StoreLockedError`,
 * `StoreCorruptError` (also when the database has lost acknowledged writes), `StoreUnfinishedError`, `StoreFullError` or
 * `StoreFailedError`.
 */
export async function openRocksStore(options: RocksStoreOptions): Promise<Store> {
  const dir = resolve(options.dir);
  const reserveBytes = options.reserveBytes ?? 256 * MIB;
  if (reserveBytes < LEAST_RESERVE_BYTES) throw new RangeError(`reserveBytes is ${reserveBytes}, less than 1 MiB`);
  const blockCacheBytes = options.blockCacheBytes ?? 128 * MIB;
  const memtableBytes = options.memtableBytes ?? 128 * MIB;
  await makeDirectory(dir);
  const warn = (message: string) => options.log?.error({ dir }, message);
  const { release, dictionaryCompression = false, restoring = false } = options;
  const budget = { blockCacheBytes, memtableBytes, dictionaryCompression };
  const database = await openDatabase({ dir, release, ...budget, restoring, warn });
  open.add(database.db);
  const store = new RocksStore(database.db, dir, { reserveBytes, blockCacheBytes, memtableBytes, log: options.log });
  try {
    if (!(await closeToOthers(dir))) {
      options.log?.warn(
        { dir },
        'other users may read the data directory, and its owner is another user: change its mode to 0700',
      );
    }
    await store.start(database, options.flushIntervalMs ?? 100);
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}

class RocksStore implements Store {
  readonly atomicBatches = true;
  readonly #db: RocksLevel;
  readonly #dir: string;
  readonly #log: StoreLog | undefined;
  readonly #guard: DiskGuard;
  readonly #fullBelowBytes: number;
  readonly #readers: RocksReader[] = [];
  readonly #listeners: ((state: StoreState) => void)[] = [];
  readonly #damages = new FirstTimes();
  #writer: RocksWriter | undefined;
  #readerStarting: Promise<void> | undefined;
  #failure: Error | undefined;
  #closing: Promise<void> | undefined;
  #sizeTimer: NodeJS.Timeout | undefined;
  #size: StoreSize;

  constructor(
    db: RocksLevel,
    dir: string,
    options: MemoryBudget & { readonly reserveBytes: number; readonly log: StoreLog | undefined },
  ) {
    this.#db = db;
    this.#dir = dir;
    this.#log = options.log;
    // The binding reports no memory of families, so this is the configured memory.
    this.#size = { disk: 0, memory: options.blockCacheBytes + options.memtableBytes };
    // Space to flush all memtables, in addition to the writes of the engine meanwhile.
    this.#fullBelowBytes = options.reserveBytes + options.memtableBytes;
    this.#guard = new DiskGuard({
      dir,
      reserveBytes: options.reserveBytes,
      shortBelowBytes: this.#fullBelowBytes,
      freeBytes: async () => {
        const { bavail, bsize } = await statfs(dir);
        return bavail * bsize;
      },
      probe: () => this.#probe(),
      onChange: () => this.#changed(),
      log: (message, error) => this.#log?.warn({ dir, err: error }, message),
    });
  }

  /** Starts the threads and the watch over the disk. */
  async start({ groupNumber }: OpenDatabase, flushIntervalMs: number): Promise<void> {
    const { handle } = this.#db;
    const writer = RocksWriter.start({
      handle,
      dir: this.#dir,
      groupNumber,
      flushIntervalMs,
      errorOf: this.#toError,
      onRefused: () => this.#guard.ranOut(),
      onFailed: (error) => this.#failed(error),
    });
    const reader = this.#startReader();
    // Wait for both, even if one fails: the database must not be closed while a thread is starting.
    const [writerStarted, readerStarted] = await Promise.allSettled([writer, reader]);
    if (writerStarted.status === 'fulfilled') this.#writer = writerStarted.value;
    if (readerStarted.status === 'fulfilled') this.#readers.push(readerStarted.value);
    for (const thread of [writerStarted, readerStarted]) if (thread.status === 'rejected') throw thread.reason;
    await this.#guard.start();
    await this.#measure();
    this.#sizeTimer = setInterval(() => void this.#measure(), SIZE_INTERVAL_MS);
    this.#sizeTimer.unref();
  }

  readonly #toError = (failure: Failure): Error => {
    const error = errorOf(failure, this.#dir);
    if (failure.kind === 'corrupt') this.#logDamage(failure.message, error);
    return error;
  };

  /** Logs each damage once. Errors for callers refer to the log. */
  #logDamage(damage: string, error: Error): void {
    if (this.#damages.isFirst(damage)) this.#log?.error({ dir: this.#dir, err: error }, 'a read found damaged rows');
  }

  get state(): StoreState {
    if (this.#failure !== undefined) return { kind: 'failed', cause: this.#failure };
    const disk = this.#guard.state;
    return disk.kind === 'short' ? { kind: 'full', freeBytes: disk.freeBytes } : { kind: 'writable' };
  }

  write(batch: WriteBatch, options: { readonly sync: boolean }): Promise<void> {
    return this.#with(this.#writer, (writer) => {
      this.#guard.submitted(batch.byteLength);
      return writer.write(batch, options.sync);
    });
  }

  deleteRange(family: Family, range: KeyRange): Promise<void> {
    return this.#with(this.#writer, (writer) => writer.deleteRange(family, range));
  }

  get(family: Family, keys: readonly Key[]): Promise<(Uint8Array | undefined)[]> {
    return this.#with(this.#idlestReader(), (reader) => reader.get(family, keys));
  }

  scan(family: Family, range: KeyRange, limit: ScanLimit): Promise<Row[]> {
    return this.#with(this.#idlestReader(), (reader) => reader.scan(family, range, limit));
  }

  onStateChange(listener: (state: StoreState) => void): void {
    this.#listeners.push(listener);
  }

  size(): StoreSize {
    const { freeBytes } = this.#guard;
    const space = Number.isFinite(freeBytes) ? { freeBytes, fullBelowBytes: this.#fullBelowBytes } : undefined;
    return { ...this.#size, space };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Ends the threads first: closing the database while a thread uses it would crash the process. */
  async #close(): Promise<void> {
    clearInterval(this.#sizeTimer);
    await this.#guard.close();
    await this.#readerStarting;
    await Promise.all([this.#writer?.close(), ...this.#readers.map((reader) => reader.close())]);
    try {
      await this.#db.close();
    } catch (error) {
      // After a failed write, RocksDB reports the error again but closes. Acknowledged writes are already on disk.
      this.#log?.warn({ dir: this.#dir, err: error }, 'the database did not close cleanly');
    }
    open.delete(this.#db);
    await this.#recordFiles();
  }

  /** Records the final state of the files: the next open checks that none is missing. */
  async #recordFiles(): Promise<void> {
    try {
      await new SyncedFiles(this.#dir).close();
    } catch (error) {
      this.#log?.warn({ dir: this.#dir, err: error }, 'the files were not recorded at close');
    }
  }

  /** Returns the promise of the call itself: a wrapper would deliver a rejection later than the writer assumes. */
  #with<Part, T>(part: Part | undefined, call: (part: Part) => Promise<T>): Promise<T> {
    if (part === undefined || this.#closing !== undefined) {
      return Promise.reject(new StoreClosedError(`the store in ${this.#dir} is closed`));
    }
    return call(part);
  }

  #idlestReader(): RocksReader | undefined {
    const [idlest] = this.#readers.toSorted((a, b) => a.outstanding - b.outstanding);
    if (idlest !== undefined && idlest.outstanding > 0 && this.#readers.length < READERS) this.#addReader();
    return idlest;
  }

  #addReader(): void {
    if (this.#closing !== undefined) return;
    this.#readerStarting ??= this.#startReader().then(
      (reader) => void this.#readers.push(reader),
      (error: unknown) =>
        this.#log?.warn(
          { dir: this.#dir, err: error },
          'the second reader thread could not be started: reads continue with one thread',
        ),
    );
  }

  #startReader(): Promise<RocksReader> {
    return RocksReader.start({ handle: this.#db.handle, errorOf: this.#toError });
  }

  async #probe(): Promise<boolean> {
    if (this.#closing !== undefined) return false;
    try {
      await this.#writer?.write(new WriteBatch(), true);
      return true;
    } catch {
      return false; // the disk is still full, or the writer has reported a failure
    }
  }

  #failed(error: Error): void {
    this.#failure = error;
    this.#log?.error(
      { dir: this.#dir, err: error },
      'a write or fsync failed: the store writes nothing until it is opened again',
    );
    this.#changed();
  }

  #changed(): void {
    const { state } = this;
    if (state.kind === 'full') {
      this.#log?.warn({ dir: this.#dir, freeBytes: state.freeBytes }, 'the disk is full');
    } else if (state.kind === 'writable') {
      this.#log?.info({ dir: this.#dir }, 'there is space on the disk again');
    }
    for (const listener of this.#listeners) listener(state);
  }

  async #measure(): Promise<void> {
    try {
      this.#size = { ...this.#size, disk: await bytesIn(this.#dir) };
    } catch (error) {
      this.#log?.warn({ dir: this.#dir, err: error }, 'cannot measure the size on disk');
    }
  }
}

/** Of all files below the directory: also of the reserve, and of logs that are kept in a directory of their own. */
async function bytesIn(dir: string): Promise<number> {
  const sizes = (await readdir(dir, { withFileTypes: true, recursive: true })).map(async (entry) => {
    if (!entry.isFile()) return 0;
    try {
      return (await stat(join(entry.parentPath, entry.name))).size;
    } catch {
      return 0; // deleted by a compaction meanwhile
    }
  });
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
