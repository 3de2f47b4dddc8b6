import type { BackupHeader, BackupPartitionRequest } from '@taskmaster/proto';
import { PartitionCheck } from '../format/check-partition.ts';
import type { PartitionRecord, PartRecord } from '../format/manifest.ts';
import type { BackupStore, BackupTarget } from '../places/place.ts';
import { PartWriter } from './part-writer.ts';
import type { PartitionSource } from './partition-source.ts';
import { type Retry, retried } from './retry.ts';

export interface CopyOptions {
  readonly source: PartitionSource;
  readonly target: BackupTarget;
  readonly retry: Retry;
  readonly signal: AbortSignal;
  /** Size of the messages in one part, in bytes. */
  readonly partBytes: number;
  /** The partition in an earlier backup. Undefined if there is none. */
  readonly base: BasePartition | undefined;
  /** 0: no limit. */
  readonly maxBytesPerSecond: number;
  /** Throws if the header is not of the cluster that is backed up. */
  readonly onHeader: (header: BackupHeader) => void;
  readonly onPart: (part: PartRecord) => void;
}

/** A partition in an earlier backup. */
interface BasePartition {
  readonly store: BackupStore;
  readonly clusterId: string;
  readonly record: PartitionRecord;
}

export interface CopiedPartition {
  readonly record: PartitionRecord;
  /** True if the parts were taken from the base. */
  readonly isUnchanged: boolean;
}

/** Copies one partition to the target. Begins again after a temporary error. */
export async function copyPartition(id: number, options: CopyOptions): Promise<CopiedPartition> {
  const { base, retry, signal, source } = options;
  let usable = base;
  for (;;) {
    const copied = await retried(retry, signal, source, (begun) => copyOnce(id, options, usable, begun));
    if (copied.kind === 'sent') return { record: copied.record, isUnchanged: false };
    const taken = usable && (await takeFromBase(options, usable, copied.header));
    if (taken) return { record: taken, isUnchanged: true };
    // The base is damaged.
    usable = undefined;
  }
}

type Copied =
  | { readonly kind: 'sent'; readonly record: PartitionRecord }
  | { readonly kind: 'unchanged'; readonly header: BackupHeader };

async function copyOnce(
  id: number,
  { source, target, signal, partBytes, maxBytesPerSecond, onHeader, onPart }: CopyOptions,
  known: BasePartition | undefined,
  begun: () => void,
): Promise<Copied> {
  const check = new PartitionCheck(id);
  const writer = new PartWriter(target, id, { partBytes, onPart });
  const request: BackupPartitionRequest = { partition: id, unchangedSince: pointOf(known), maxBytesPerSecond };
  try {
    for await (const message of source.backupPartition(request, { signal })) {
      check.next(message);
      if (message.part?.$case === 'header') {
        onHeader(message.part.value);
        begun();
      }
      if (!check.header?.unchanged) await writer.add(message);
    }
    const { header, end } = check.whole();
    if (header.unchanged) return { kind: 'unchanged', header };
    const parts = await writer.end();
    const { nodeId, epoch, nowMs } = header;
    const { lastTicket, tasks, queues } = end;
    return { kind: 'sent', record: { id, nodeId, epoch, nowMs, lastTicket, tasks, queues, parts } };
  } finally {
    await writer.abandon();
  }
}

function pointOf(known: BasePartition | undefined): BackupPartitionRequest['unchangedSince'] {
  if (!known) return undefined;
  const { nodeId, epoch, lastTicket: ticket } = known.record;
  return { clusterId: known.clusterId, nodeId, epoch, ticket };
}

async function takeFromBase(
  { target }: CopyOptions,
  { store, record }: BasePartition,
  { nowMs }: BackupHeader,
): Promise<PartitionRecord | undefined> {
  for (const part of record.parts) {
    if (!(await target.store?.copyFrom(store, part))) return undefined;
  }
  return { ...record, nowMs };
}
