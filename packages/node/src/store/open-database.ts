import { readdir, rm } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import rocks, { type RocksLevel } from '@nxtedition/rocksdb';
import { encodeAcceptedLoss, type Instant, metaKeys } from '@taskmaster/engine/domain';
import {
  Family,
  StoreCorruptError,
  StoreFailedError,
  StoreFullError,
  StoreLockedError,
  StoreNewerError,
  StoreUnfinishedError,
} from '@taskmaster/engine/ports';
import { DATA_FORMAT } from '@taskmaster/proto';
import { type ColumnBudget, columnOf, columnOptions, columnsOf } from './column-families.ts';
import { assertReadable, readFormat, writeFormat } from './format-file.ts';
import { decodeGroupNumber, GROUP_NUMBER_KEY } from './group-number.ts';
import { ReserveFile } from './reserve-file.ts';
import { errorOf, type Failure, failureOf } from './rocks-errors.ts';
import { createSyncMark, readSyncMark, SYNC_MARK_FILE } from './sync-mark.ts';
import { beginRecord, checkFiles } from './synced-files.ts';
import { UNFINISHED_RESTORE_FILE } from './unfinished-restore.ts';

/** If the operator creates a file with this name, a database that has lost writes can be opened once. */
export const ACCEPT_LOSS_FILE = 'accept-loss';

export interface OpenDatabaseOptions extends ColumnBudget {
  /** The directory, which must exist. */
  readonly dir: string;
  /** Version of this program. It is recorded when the format of the directory changes. */
  readonly release: string;
  /** True for a restore, which may open a directory that no node may use yet. */
  readonly restoring: boolean;
  readonly warn: (message: string) => void;
}

export interface OpenDatabase {
  readonly db: RocksLevel;
  /** Number of the last group of writes in it. */
  readonly groupNumber: number;
}

/**
 * Opens the database, or creates it in an empty directory, and checks it against the sync mark and the synced files.
 * Throws `StoreNewerError`, before it changes any file, `StoreLockedError`, `StoreCorruptError`, `StoreUnfinishedError`,
 * `StoreFullError` or `StoreFailedError`.
 */
export async function openDatabase(options: OpenDatabaseOptions): Promise<OpenDatabase> {
  try {
    return await checkAndOpen(options);
  } catch (error) {
    const ours = [
      StoreCorruptError,
      StoreFailedError,
      StoreFullError,
      StoreLockedError,
      StoreNewerError,
      StoreUnfinishedError,
    ];
    throw ours.some((type) => error instanceof type) ? error : errorOf(failureOf(error), options.dir);
  }
}

async function checkAndOpen(options: OpenDatabaseOptions): Promise<OpenDatabase> {
  const { dir, release } = options;
  // Before anything else: a newer release may have changed the meaning of every file.
  const format = await readFormat(dir);
  assertReadable(dir, format, release);
  const names = await readdir(dir);
  if (names.includes(UNFINISHED_RESTORE_FILE) && !options.restoring) {
    throw new StoreUnfinishedError(
      `a restore into ${dir} has not finished: run the same restore again, until it succeeds`,
    );
  }
  const loss = new LossCheck(dir, names.includes(ACCEPT_LOSS_FILE), options.warn);
  const exists = names.some((name) => /^(CURRENT|MANIFEST-\d+|\d+\.(sst|log))$/.test(name));
  const expected = expectedNumber(dir, exists, loss);
  if (exists) {
    const { lost, unchecked } = await checkFiles(dir);
    for (const each of unchecked) options.warn(`${each}: the database is opened without comparing its files to it`);
    for (const each of lost) loss.found(each);
  } else {
    await beginRecord(dir);
    createSyncMark(dir, 0, { keep: !loss.accepted });
  }

  // If no group was ever synced, an earlier start may have ended while it created the database.
  const db = await openRocks(options, expected === 0);
  try {
    // Only now, because another process may have had the directory open.
    if (format.format < DATA_FORMAT) await raiseFormat(dir, release);
    const groupNumber = readGroupNumber(db);
    if (groupNumber < expected) {
      loss.found(`the database in ${dir} ends with group ${groupNumber} of writes, but group ${expected} was synced`);
    }
    if (loss.accepted) {
      createSyncMark(dir, groupNumber, { keep: false });
      // Before the file goes: other members may know of work that is lost now.
      recordAcceptedLoss(db);
      await rm(join(dir, ACCEPT_LOSS_FILE));
    }
    return { db, groupNumber };
  } catch (error) {
    await db.close();
    throw error;
  }
}

/** The group number that the database must have reached, from the sync mark. */
function expectedNumber(dir: string, exists: boolean, loss: LossCheck): number {
  const mark = readSyncMark(dir);
  if (mark.kind === 'number') {
    if (exists || mark.number === 0) return mark.number;
    loss.found(`the database in ${dir} is gone, but group ${mark.number} of its writes was synced`);
  } else if (mark.kind === 'damaged') {
    loss.found(`${join(dir, SYNC_MARK_FILE)} is damaged`);
  } else if (exists) {
    loss.found(`${join(dir, SYNC_MARK_FILE)} is missing beside a database`);
  }
  return 0;
}

/** Throws `StoreCorruptError` for lost writes, unless the operator has accepted the loss. */
class LossCheck {
  readonly #dir: string;
  readonly #warn: (message: string) => void;
  readonly accepted: boolean;

  constructor(dir: string, accepted: boolean, warn: (message: string) => void) {
    this.#dir = dir;
    this.accepted = accepted;
    this.#warn = warn;
  }

  found(what: string): void {
    const message = `${what}: acknowledged writes may be lost`;
    if (!this.accepted) {
      throw new StoreCorruptError(
        `${message}. Check the disk and restore the directory from a backup; or, to continue with the remaining data, create ` +
          `the file ${join(this.#dir, ACCEPT_LOSS_FILE)} and start again`,
      );
    }
    this.#warn(`${message}; the database is opened because ${ACCEPT_LOSS_FILE} exists`);
  }
}

async function openRocks(options: OpenDatabaseOptions, create: boolean): Promise<RocksLevel> {
  const { dir } = options;
  try {
    return await tryOpenRocks(options, create);
  } catch (error) {
    if (failureOf(error).kind !== 'full') throw errorOf(openFailureOf(error), dir);
  }
  // RocksDB needs some space to open, for its options and for replayed rows. The reserve provides it.
  await new ReserveFile(dir, 0).release();
  try {
    return await tryOpenRocks(options, create);
  } catch (error) {
    throw errorOf(openFailureOf(error), dir);
  }
}

async function raiseFormat(dir: string, release: string): Promise<void> {
  try {
    await writeFormat(dir, release);
  } catch (error) {
    if (failureOf(error).kind !== 'full') throw error;
    await new ReserveFile(dir, 0).release();
    await writeFormat(dir, release);
  }
}

/** A missing file counts as damage, because only an existing database is opened. */
function openFailureOf(error: unknown): Failure {
  const failure = failureOf(error);
  const isMissing = /No such file or directory|create_if_missing is false/.test(failure.message);
  return failure.kind === 'failed' && isMissing ? { kind: 'corrupt', message: failure.message } : failure;
}

async function tryOpenRocks(options: OpenDatabaseOptions, create: boolean): Promise<RocksLevel> {
  const db = new rocks.RocksLevel(options.dir);
  await db.open({
    createIfMissing: create,
    columns: columnOptions(options),
    // Threads for flushes and compactions. With one thread, a long compaction would delay flushes and then writes.
    parallelism: Math.min(Math.max(availableParallelism(), 2), 4),
    // Compression would cost the writer thread more time than the smaller syncs save.
    walCompression: false,
  });
  return db;
}

function recordAcceptedLoss(db: RocksLevel): void {
  const batch = db._chainedBatch();
  const at = encodeAcceptedLoss(Date.now() as Instant);
  batch._put(Buffer.from(metaKeys.acceptedLoss, 'latin1'), at, { column: columnOf(columnsOf(db), Family.meta) });
  batch._writeSync({ sync: true });
  batch._clear();
}

function readGroupNumber(db: RocksLevel): number {
  const column = columnOf(columnsOf(db), Family.meta);
  const [bytes] = db._getManySync([GROUP_NUMBER_KEY], { column, valueEncoding: 'buffer' });
  return decodeGroupNumber(bytes);
}
