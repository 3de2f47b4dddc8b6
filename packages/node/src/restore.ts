import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { BackupError, openSource, readManifest } from '@taskmaster/backup';
import { type RestoredBackup, type RestoreProgress, restoreBackup } from '@taskmaster/engine';
import { type Log, StoreLockedError, SystemClock } from '@taskmaster/engine/ports';
import { InvalidConfigError, logMemory } from '@taskmaster/server/program';
import { completeConfig, type NodeConfigInput } from './config.ts';
import { openRocksStore } from './store/rocks-store.ts';
import { beginRestore, finishRestore, restoreStateOf } from './store/unfinished-restore.ts';
import { version } from './version.ts';

export interface RestoreNodeOptions {
  /** Where the backup is: a directory, `s3://bucket/prefix`, or `-` for a tar stream on `stdin`. */
  readonly from: string;
  readonly stdin: Readable;
  readonly log: Log;
  /** Ends the restore early. It must be run again before a node can start with the directory. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: RestoreProgress) => void;
}

/**
 * Restores a backup into the data directory of the settings, which must be empty, missing, or left by a restore that did not
 * finish. Until this resolves, no node starts with the directory. Rejects with `BackupError`, with `InvalidConfigError` if the
 * settings name a database, or with an error of the store or the system.
 */
export async function restoreNode(settings: NodeConfigInput, options: RestoreNodeOptions): Promise<RestoredBackup> {
  const { config, memory } = completeConfig(settings);
  if (config.store.url !== '') {
    throw new InvalidConfigError(['store.url: a backup is restored into a data directory only']);
  }
  logMemory(memory, options.log);
  const dir = resolve(config.dataDir);
  const state = await restoreStateOf(dir);
  if (state === 'used') {
    throw new BackupError('DATA_DIRECTORY_IN_USE', `the data directory ${dir} is not empty`, {
      hint: 'restore into an empty directory',
    });
  }
  await using source = await openSource(options.from, options);
  // If there is no complete backup, this is known before the directory is changed.
  if (source.store) await readManifest(source.store);
  if (state === 'unfinished') await assertUnlocked(dir);
  await beginRestore(dir);
  const store = await openRocksStore({ dir, ...config.store, release: version, restoring: true, log: options.log });
  let restored: RestoredBackup;
  try {
    const { requestIdWindowMs: requestWindowMs } = config.engine;
    const now = new SystemClock().now();
    restored = await restoreBackup({ ...options, store, source, requestWindowMs, now });
  } finally {
    await store.close();
  }
  await finishRestore(dir);
  return restored;
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
