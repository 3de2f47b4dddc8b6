import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { BackupError, type BackupSource, openSource, readManifest } from '@taskmaster/backup';
import { type RestoredBackup, type RestoreProgress, restoreBackup } from '@taskmaster/engine';
import {
  type Log,
  type Store,
  StoreLockedError,
  StoreLostError,
  StoreUsedError,
  SystemClock,
} from '@taskmaster/engine/ports';
import { logMemory } from '@taskmaster/server/program';
import { completeConfig, type NodeConfig, type NodeConfigInput } from './config.ts';
import { openSharedStoreToRestore, type SharedStore } from './open-shared-store.ts';
import { openRocksStore } from './store/rocks-store.ts';
import { beginRestore, finishRestore, restoreStateOf } from './store/unfinished-restore.ts';
import { version } from './version.ts';

export interface RestoreNodeOptions {
  /** Where the backup is: a directory, `s3://bucket/prefix`, or `-` for a tar stream on `stdin`. */
  readonly from: string;
  readonly stdin: Readable;
  readonly log: Log;
  /** Ends the restore early. It must be run again before a node can start with the directory or the database. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: RestoreProgress) => void;
}

/**
 * Restores a backup into the data directory or the database of the settings. It must be empty, missing, or left by a restore that
 * did not finish. Until this resolves, no node starts with it. Rejects with `BackupError`, or with an error of the store or the
 * system.
 */
export async function restoreNode(settings: NodeConfigInput, options: RestoreNodeOptions): Promise<RestoredBackup> {
  const { config, memory } = completeConfig(settings);
  logMemory(memory, options.log);
  const isDirectory = config.store.url === '';
  if (isDirectory) await assertUnused(resolve(config.dataDir));
  await using source = await openSource(options.from, options);
  // If there is no complete backup, this is known before anything is changed.
  if (source.store) await readManifest(source.store);
  const restore = isDirectory ? restoreDirectory : restoreDatabase;
  return await restore(source, config, options);
}

type Restore = (source: BackupSource, config: NodeConfig, options: RestoreNodeOptions) => Promise<RestoredBackup>;

const restoreDirectory: Restore = async (source, config, options) => {
  const dir = resolve(config.dataDir);
  const state = await assertUnused(dir);
  if (state === 'unfinished') await assertUnlocked(dir);
  await beginRestore(dir);
  const store = await openRocksStore({ dir, ...config.store, release: version, restoring: true, log: options.log });
  const restored = await restoreInto(store, source, config, options);
  await finishRestore(dir);
  return restored;
};

/** Resolves with the state of a directory without data. Throws a `BackupError` if it has some. */
async function assertUnused(dir: string): Promise<'empty' | 'unfinished'> {
  const state = await restoreStateOf(dir);
  if (state !== 'used') return state;
  throw new BackupError('DATA_DIRECTORY_IN_USE', `the data directory ${dir} is not empty`, {
    hint: 'restore into an empty directory',
  });
}

const restoreDatabase: Restore = async (source, config, options) => {
  const { url, schema } = config.store;
  const { signal, log } = options;
  let store: SharedStore | undefined;
  const giveUp = (): void => store?.giveUp();
  // A database that does not answer is waited for without end.
  signal.addEventListener('abort', giveUp);
  try {
    store = await openSharedStoreToRestore({ url, schema, release: version, log });
    return await restoreInto(store, source, config, options);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof StoreUsedError) {
      const hint = `restore into another schema (--store-schema), or drop this one if its data is not needed: DROP SCHEMA ${schema} CASCADE`;
      throw new BackupError('DATABASE_IN_USE', error.message, { hint });
    }
    if (!(error instanceof StoreLostError)) throw error;
    throw error.kind === 'fenced'
      ? new BackupError('DATABASE_IN_USE', `another restore into the schema ${schema} has begun, and goes on`)
      : new Error('the database has lost a part of what was restored: run the same restore again', { cause: error });
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
};

async function restoreInto(
  store: Store,
  source: BackupSource,
  config: NodeConfig,
  options: RestoreNodeOptions,
): Promise<RestoredBackup> {
  try {
    const { requestIdWindowMs: requestWindowMs } = config.engine;
    const now = new SystemClock().now();
    return await restoreBackup({ ...options, store, source, requestWindowMs, now });
  } finally {
    await store.close();
  }
}

/** Throws `StoreLockedError` if another restore into the directory is running. */
async function assertUnlocked(dir: string): Promise<void> {
  try {
    const store = await openRocksStore({ dir, release: version, restoring: true, reserveBytes: 1024 * 1024 });
    await store.close();
  } catch (error) {
    // A store that cannot be opened is not in use, and will be deleted.
    if (error instanceof StoreLockedError) throw error;
  }
}
