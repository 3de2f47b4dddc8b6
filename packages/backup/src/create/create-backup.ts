import { randomBytes } from 'node:crypto';
import type { BackupHeader } from '@taskmaster/proto';
import { BackupError } from '../format/errors.ts';
import type { BackupOrigin, Manifest, PartitionRecord } from '../format/manifest.ts';
import { PART_BYTES } from '../format/part.ts';
import type { BackupStore, BackupTarget } from '../places/place.ts';
import { readManifest } from '../read/stored-objects.ts';
import { copyPartition } from './copy-partition.ts';
import { Draft, findUnfinished } from './draft.ts';
import type { PartitionSource } from './partition-source.ts';
import { type Retry, retried } from './retry.ts';

export interface CreateOptions {
  readonly source: PartitionSource;
  readonly target: BackupTarget;
  /** An earlier backup of the cluster. Partitions that have not changed since are taken from it. */
  readonly base?: BackupStore | undefined;
  /** Release of this program, for the manifest. */
  readonly release: string;
  /** Number of partitions that are copied at the same time. */
  readonly concurrency: number;
  /** Limit of the bytes that the holders send in a second, all together; 0: no limit. */
  readonly maxBytesPerSecond: number;
  readonly retry: Retry;
  /** Size of the messages in one part, in bytes. Default: `PART_BYTES`. */
  readonly partBytes?: number;
  /** Ends the backup early. A later run continues it. */
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: CreateProgress) => void;
  /** Default: the system's clock, in ms since 1970. */
  readonly now?: () => number;
}

/** Progress of a backup. */
export interface CreateProgress {
  readonly partitionCount: number;
  /** Partitions that are complete. */
  partitions: number;
  /** Of these: complete before this run. */
  kept: number;
  /** Of these: taken from the base. */
  unchanged: number;
  /** Tasks in the partitions that are complete. */
  tasks: number;
  /** Bytes written in this run. */
  bytes: number;
}

/** A backup that is complete, and how this run made it. */
export interface CreatedBackup {
  readonly manifest: Manifest;
  readonly progress: CreateProgress;
}

/**
 * Backs up a cluster while it serves, or continues a backup in the target. Everything that was acknowledged before the backup
 * began is in it. Throws `BackupError`, or what the source throws. Then a later run continues the backup.
 */
export async function createBackup(options: CreateOptions): Promise<CreatedBackup> {
  const { source, target, base, release, signal, retry, now = Date.now } = options;
  const begunAtMs = now();
  if (base && !target.store) {
    throw new BackupError('UNSUPPORTED', `a backup with a base cannot be written to ${target.title}`, {
      hint: 'write it to a directory or to S3',
    });
  }
  const earlier = await findUnfinished(target);
  const baseManifest = base && (await readManifest(base));
  const origin = await retried(retry, signal, source, () => originOf(source, signal));
  if (base && baseManifest) assertOfCluster(base, baseManifest, origin);
  const run = randomBytes(8).toString('hex');
  const draft = await Draft.open({ target, origin, release, run, begunAtMs, earlier });
  const progress = progressOf(draft, origin);
  const copying = new AbortController();
  const copy = async (id: number): Promise<void> => {
    const known = baseManifest?.partitions[id];
    const copied = await copyPartition(id, {
      source,
      target,
      retry,
      partBytes: options.partBytes ?? PART_BYTES,
      signal: AbortSignal.any([signal, copying.signal]),
      base: base && known && { store: base, clusterId: origin.clusterId, record: known },
      maxBytesPerSecond: shareOf(options),
      onHeader: (header) => assertSameOrigin(header, origin),
      onPart: ({ bytes }) => {
        progress.bytes += bytes;
        options.onProgress?.(progress);
      },
    });
    await draft.add(copied.record);
    if (copied.isUnchanged) progress.unchanged++;
    count(progress, copied.record);
    options.onProgress?.(progress);
  };
  options.onProgress?.(progress);
  try {
    await forEach(draft.missing, concurrencyOf(options), copy, (error) => copying.abort(error));
  } catch (error) {
    // Another program that writes to the same place explains every error. Other errors of the save explain none.
    const isInUse = (of: unknown): boolean => of instanceof BackupError && of.reason === 'BACKUP_PLACE_IN_USE';
    const saving = await draft.save().catch((inSave: unknown) => inSave);
    throw isInUse(saving) ? saving : error;
  }
  return { manifest: await draft.finish(now()), progress };
}

/** Reads the header of a partition only, to learn which cluster answers. */
async function originOf(source: PartitionSource, signal: AbortSignal): Promise<BackupOrigin> {
  const probe = new AbortController();
  const request = { partition: 0, unchangedSince: undefined, maxBytesPerSecond: 0 };
  try {
    const stream = source.backupPartition(request, { signal: AbortSignal.any([signal, probe.signal]) });
    for await (const { part } of stream) if (part?.$case === 'header') return originIn(part.value);
  } finally {
    probe.abort();
  }
  throw new BackupError('BACKUP_DAMAGED', 'the node sent no header of partition 0');
}

const originIn = ({ clusterId, nodeId, partitions }: BackupHeader): BackupOrigin => ({
  clusterId,
  partitionCount: partitions,
  nodeId: clusterId === '' ? nodeId : '',
});

function assertSameOrigin(header: BackupHeader, expected: BackupOrigin): void {
  const { clusterId, nodeId } = originIn(header);
  if (clusterId !== expected.clusterId) {
    throw new BackupError('OTHER_CLUSTER', `partition ${header.partition} came from another cluster`, {
      hint: 'check that all endpoints belong to one cluster',
    });
  }
  if (nodeId === expected.nodeId) return;
  throw new BackupError('OTHER_CLUSTER', 'the node has restarted, or another node without a cluster answers', {
    hint: 'run the same command again: the backup begins anew',
  });
}

function assertOfCluster({ title }: BackupStore, { clusterId }: Manifest, origin: BackupOrigin): void {
  if (clusterId === origin.clusterId) return;
  const nameOf = (id: string): string => (id === '' ? 'a node without a cluster' : `cluster ${id}`);
  const message = `the base ${title} is a backup of ${nameOf(clusterId)}, not of ${nameOf(origin.clusterId)}`;
  throw new BackupError('OTHER_CLUSTER', message, { hint: 'choose another base, or none' });
}

function progressOf(draft: Draft, { partitionCount }: BackupOrigin): CreateProgress {
  const progress = { partitionCount, partitions: 0, kept: 0, unchanged: 0, tasks: 0, bytes: 0 };
  for (const record of draft.complete) count(progress, record);
  progress.kept = progress.partitions;
  return progress;
}

function count(progress: CreateProgress, { tasks }: PartitionRecord): void {
  progress.partitions++;
  progress.tasks += tasks;
}

const concurrencyOf = ({ concurrency, target }: CreateOptions): number =>
  Math.min(concurrency, target.maxConcurrency ?? concurrency);

/** The limit of one call. Concurrent calls share the whole limit. */
function shareOf(options: CreateOptions): number {
  const { maxBytesPerSecond } = options;
  return maxBytesPerSecond === 0 ? 0 : Math.max(1, Math.floor(maxBytesPerSecond / concurrencyOf(options)));
}

/** Works on all items, `concurrency` at a time. After the first error it begins no more. Rejects with it when all have ended. */
async function forEach<T>(
  items: readonly T[],
  concurrency: number,
  work: (item: T) => Promise<void>,
  onError: (error: unknown) => void,
): Promise<void> {
  const left = items.values();
  const failures: unknown[] = [];
  const worker = async (): Promise<void> => {
    for (const item of left) {
      if (failures.length > 0) return;
      try {
        await work(item);
      } catch (error) {
        failures.push(error);
        onError(error);
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  if (failures.length > 0) throw failures[0];
}
