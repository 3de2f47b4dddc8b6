import { createBackup, type PartitionSource } from '@taskmaster/backup';
import { MemoryStore } from '@taskmaster/backup/testing';
import type { BackupPartitionRequest, BackupPartitionResponse } from '@taskmaster/proto';
import { type RestoredBackup, restoreBackup } from '../partitions/backup/restore-backup.ts';
import { BackupCopy, backupRequest } from './backup-copy.ts';
import type { EngineHarness } from './engine-harness.ts';

/** Partitions that were read before: real time passes while a backup is written, but an engine of a test has virtual time. */
class CopiedPartitions implements PartitionSource {
  readonly #copies: readonly BackupCopy[];

  constructor(copies: readonly BackupCopy[]) {
    this.#copies = copies;
  }

  async *backupPartition({ partition }: BackupPartitionRequest): AsyncGenerator<BackupPartitionResponse> {
    yield* this.#copies[partition]?.parts ?? [];
  }

  isTemporary(): boolean {
    return false;
  }
}

/** Backs up all partitions of an engine. */
export async function backupOf(harness: EngineHarness, partBytes = 64 * 1024): Promise<MemoryStore> {
  const copies: BackupCopy[] = [];
  for (let id = 0; id < harness.engine.partitions.count; id++) {
    copies.push(await harness.clock.run(BackupCopy.read(harness.engine.backups.backup(backupRequest(id)))));
  }
  const target = new MemoryStore();
  const { signal } = new AbortController();
  const retry = { backoffMs: { initial: 1, max: 1 }, giveUpAfterMs: 1, maxBroken: 1 };
  const source = new CopiedPartitions(copies);
  const options = { concurrency: 1, maxBytesPerSecond: 0, release: '0', partBytes };
  await createBackup({ ...options, source, target, retry, signal });
  return target;
}

/** Restores a backup to the disk of a harness that is not open. The disk must have no latency. */
export async function restoreTo(
  harness: EngineHarness,
  source: MemoryStore,
  requestWindowMs = 120_000,
): Promise<RestoredBackup> {
  const store = harness.disk.open();
  const { signal } = new AbortController();
  const restored = await restoreBackup({ store, source, requestWindowMs, now: harness.clock.now(), signal });
  await store.close();
  return restored;
}
