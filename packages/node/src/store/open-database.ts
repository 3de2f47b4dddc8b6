import { readdir, rm } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import rocks, { type RocksLevel } from '@nxtedition/rocksdb';
import { Family, StoreCorrupt } from '../ports/store.ts';
import { columnOf, columnOptions, columnsOf, type MemoryBudget } from './column-families.ts';
import { decodeGroupNumber, GROUP_NUMBER_KEY } from './group-number.ts';
import { ReserveFile } from './reserve-file.ts';
import { errorOf, type Failure, failureOf } from './rocks-errors.ts';
import {
  createSyncMark,
  type ManifestMark,
  NOTHING_SYNCED,
  readSyncMark,
  SYNC_MARK_FILE,
  type SyncedState,
  syncedManifest,
} from './sync-mark.ts';

/** A file by this name, made by the operator, lets a database open that is known to have lost writes; once. */
export const ACCEPT_LOSS_FILE = 'accept-loss';

export interface OpenDatabaseOptions extends MemoryBudget {
  /** Must exist. */
  readonly dir: string;
  readonly warn: (message: string) => void;
}

export interface OpenDatabase {
  readonly db: RocksLevel;
  /** Number of the last group of writes in it. */
  readonly groupNumber: number;
  /** What the sync mark says. */
  readonly synced: SyncedState;
}

/**
 * Opens the database, or creates it in an empty directory, and checks it against the sync mark.
 * Throws `StoreLocked`, `StoreCorrupt`, `StoreFull` or `StoreFailed`.
 */
export async function openDatabase(options: OpenDatabaseOptions): Promise<OpenDatabase> {
  const { dir } = options;
  const names = await readdir(dir);
  const check = new LossCheck(dir, names.includes(ACCEPT_LOSS_FILE), options.warn);
  const exists = names.some((name) => /^(CURRENT|MANIFEST-\d+|\d+\.(sst|log))$/.test(name));
  const expected = check.expected(exists);
  if (exists) check.manifest(expected.manifest, await syncedManifest(dir));
  else createSyncMark(dir, NOTHING_SYNCED, { keep: !check.accepted });

  // Where nothing was ever synced, an earlier start may have ended while it created the database.
  const db = await openRocks(options, expected.groupNumber === 0);
  try {
    const groupNumber = readGroupNumber(db);
    check.groupNumber(expected.groupNumber, groupNumber);
    const synced = {
      groupNumber: check.accepted ? groupNumber : expected.groupNumber,
      manifest: (await syncedManifest(dir)) ?? NOTHING_SYNCED.manifest,
    };
    createSyncMark(dir, synced, { keep: false });
    if (check.accepted) await rm(join(dir, ACCEPT_LOSS_FILE));
    return { db, groupNumber, synced };
  } catch (error) {
    await db.close();
    throw error instanceof StoreCorrupt ? error : errorOf(failureOf(error), dir);
  }
}

/** Compares a database to its sync mark. Throws `StoreCorrupt` where something is missing, unless that was accepted. */
class LossCheck {
  readonly #dir: string;
  readonly #warn: (message: string) => void;
  readonly accepted: boolean;

  constructor(dir: string, accepted: boolean, warn: (message: string) => void) {
    this.#dir = dir;
    this.accepted = accepted;
    this.#warn = warn;
  }

  /** What the database must hold, by the mark. */
  expected(exists: boolean): SyncedState {
    const mark = readSyncMark(this.#dir);
    if (mark.kind === 'found') {
      if (exists || mark.synced.groupNumber === 0) return mark.synced;
      this.#lost(`the database in ${this.#dir} is gone, but group ${mark.synced.groupNumber} of its writes was synced`);
    } else if (mark.kind === 'damaged') {
      this.#lost(`${join(this.#dir, SYNC_MARK_FILE)} is damaged`);
    } else if (exists) {
      this.#lost(`${join(this.#dir, SYNC_MARK_FILE)} is missing beside a database`);
    }
    return NOTHING_SYNCED;
  }

  /** A manifest that is missing, or of a later number, is RocksDB's to judge. */
  manifest(expected: ManifestMark, found: ManifestMark | undefined): void {
    if (found === undefined || found.number > expected.number || expected.number === 0) return;
    if (found.number === expected.number && found.bytes >= expected.bytes) return;
    this.#lost(
      `the manifest of the database in ${this.#dir} is number ${found.number} with ${found.bytes} bytes, ` +
        `but number ${expected.number} with ${expected.bytes} bytes was synced`,
    );
  }

  groupNumber(expected: number, found: number): void {
    if (found >= expected) return;
    this.#lost(`the database in ${this.#dir} ends with group ${found} of writes, but group ${expected} was synced`);
  }

  #lost(what: string): void {
    const message = `${what}: acknowledged writes may be lost`;
    if (!this.accepted) {
      throw new StoreCorrupt(
        `${message}. Check the disk and restore the directory from a backup; or, to go on with what is left, create ` +
          `the file ${join(this.#dir, ACCEPT_LOSS_FILE)} and start again`,
      );
    }
    this.#warn(`${message}; going on because ${ACCEPT_LOSS_FILE} exists`);
  }
}

async function openRocks(options: OpenDatabaseOptions, create: boolean): Promise<RocksLevel> {
  const { dir } = options;
  try {
    return await tryOpenRocks(options, create);
  } catch (error) {
    if (failureOf(error).kind !== 'full') throw errorOf(openFailureOf(error), dir);
  }
  // RocksDB needs some space to open, to write its options and what it replays: the reserve is for that as well.
  await new ReserveFile(dir, 0).release();
  try {
    return await tryOpenRocks(options, create);
  } catch (error) {
    throw errorOf(openFailureOf(error), dir);
  }
}

/** A file that is not there is damage: a database is opened only where one is known to be. */
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
    // Threads for flushes and compactions. One is not enough: a long compaction would hold up flushes, then writes.
    parallelism: Math.min(Math.max(availableParallelism(), 2), 4),
    // Costs more time in the writer thread than it saves in bytes to sync.
    walCompression: false,
  });
  return db;
}

function readGroupNumber(db: RocksLevel): number {
  const column = columnOf(columnsOf(db), Family.meta);
  const [bytes] = db._getManySync([GROUP_NUMBER_KEY], { column, valueEncoding: 'buffer' });
  return decodeGroupNumber(bytes);
}
