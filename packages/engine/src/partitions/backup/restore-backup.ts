import { BackupError, type BackupEvent, type BackupSource, type Manifest, readBackup } from '@taskmaster/backup';
import { type BackupEnd, type BackupHeader, isReservedName } from '@taskmaster/proto';
import { UnreadableBytesError } from '../../domain/bytes.ts';
import type { Instant, PartitionId, QueueId, Ticket } from '../../domain/ids.ts';
import { metaKeys } from '../../domain/keys.ts';
import { encodeNodeRow } from '../../log/node-row.ts';
import { ticketBehindEarlierLives } from '../../log/partition-row.ts';
import { Family, type Store, StoreFullError } from '../../ports/store.ts';
import { WriteBatch } from '../../ports/write-batch.ts';
import { clearPartition } from '../transfer/clear-partition.ts';
import { ImportBrokenError, PartitionImport } from '../transfer/import-partition.ts';

export interface RestoreOptions {
  /** An empty store. */
  readonly store: Store;
  readonly source: BackupSource;
  /** Length of a retry window of the restored node, in ms. */
  readonly requestWindowMs: number;
  /** The time from which the remaining time of leases and delays counts. */
  readonly now: Instant;
  /** Ends the restore early. */
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: RestoreProgress) => void;
}

/** How far a restore is. */
export interface RestoreProgress {
  /** Partitions that are complete. */
  partitions: number;
  /** Number of all partitions; undefined while it is not known. */
  partitionCount: number | undefined;
  tasks: number;
  queues: number;
  /** Bytes of the backup that were read. */
  bytes: number;
}

/** A backup that was restored. */
export interface RestoredBackup {
  readonly manifest: Manifest;
  readonly progress: RestoreProgress;
}

/**
 * Writes a backup to an empty store, as the data of a node without a cluster. Resolves when everything is durable. If it
 * rejects, the store has a part of the backup and must not be used. Throws `BackupError` or an error of the store.
 */
export async function restoreBackup(options: RestoreOptions): Promise<RestoredBackup> {
  const restore = new Restore(options);
  try {
    const manifest = await readBackup(options.source, (event) => restore.take(event));
    return { manifest, progress: await restore.finish(manifest) };
  } catch (error) {
    if (!(error instanceof ImportBrokenError) && !(error instanceof UnreadableBytesError)) throw error;
    throw new BackupError('BACKUP_DAMAGED', `the backup does not fit together: ${error.message}`, { cause: error });
  }
}

class Restore {
  readonly #options: RestoreOptions;
  readonly #progress: RestoreProgress = { partitions: 0, partitionCount: undefined, tasks: 0, queues: 0, bytes: 0 };
  /** Partitions that have begun, also those that are complete. */
  readonly #begun = new Set<PartitionId>();
  /** Partitions that are arriving. */
  readonly #arriving = new Map<PartitionId, PartitionImport>();

  constructor(options: RestoreOptions) {
    this.#options = options;
  }

  async take(event: BackupEvent): Promise<void> {
    this.#options.signal.throwIfAborted();
    this.#assertSpace();
    switch (event.kind) {
      case 'begin':
        return this.#begin(event.header, event.nowMs as Instant);
      case 'rows':
        return this.#arrivingAt(event.partition).addRows(event.rows);
      case 'atoms':
        return this.#arrivingAt(event.partition).addAtoms(event.atoms);
      case 'end':
        return this.#end(event.partition as PartitionId, event.end);
      case 'part':
        this.#progress.bytes += event.part.bytes;
        this.#progress.partitionCount ??= event.manifest?.partitionCount;
        this.#options.onProgress?.(this.#progress);
        return;
      default:
        return event satisfies never;
    }
  }

  /** Writes the row that makes the store the data of a node. Resolves when this row and everything before is durable. */
  async finish({ partitionCount }: Manifest): Promise<RestoreProgress> {
    const last = new WriteBatch();
    last.put(Family.meta, metaKeys.node, encodeNodeRow({ partitions: partitionCount }));
    await this.#options.store.write(last, { sync: true });
    return { ...this.#progress, partitionCount };
  }

  /** A write may wait for ever on a disk that is completely full. So the restore ends while the store still has its reserve. */
  #assertSpace(): void {
    const { state } = this.#options.store;
    if (state.kind !== 'full') return;
    throw new StoreFullError(`no space is left for the data: only ${state.freeBytes} bytes are free`);
  }

  async #begin(header: BackupHeader, takenAt: Instant): Promise<void> {
    const { store, now, requestWindowMs } = this.#options;
    const partition = header.partition as PartitionId;
    // A stream may have a partition again, whole, behind an attempt that broke.
    if (this.#begun.has(partition)) await clearPartition(store, partition);
    this.#begun.add(partition);
    const arriving = new PartitionImport({
      store,
      partition,
      epoch: 0,
      shiftMs: now - takenAt,
      requestWindowMs,
      now: () => now,
      sentRequestWindowMs: header.requestWindowMs,
      ticket: header.ticket as Ticket,
      nextQueueId: header.nextQueueId as QueueId,
      // Changes since the backup are lost: readers of events must know.
      life: now,
    });
    this.#arriving.set(partition, arriving);
  }

  async #end(partition: PartitionId, { lastTicket, tasks, queues }: BackupEnd): Promise<void> {
    const arrived = this.#arrivingAt(partition);
    arrived.assertComplete(lastTicket, tasks);
    const { recovered } = arrived;
    const named = [...recovered.ledgers.values()].filter(({ name }) => !isReservedName(name.name));
    if (named.length !== queues) {
      throw new ImportBrokenError(`${named.length} queues of partition ${partition} arrived, ${queues} were sent`);
    }
    // The old cluster may have given larger tokens since the backup, and workers compare tokens.
    const { store, now } = this.#options;
    recovered.lastTicket = Math.max(recovered.lastTicket, ticketBehindEarlierLives(now)) as Ticket;
    const state = new WriteBatch();
    arrived.writeState(state);
    await store.write(state, { sync: false });
    this.#arriving.delete(partition);
    this.#progress.partitions++;
    this.#progress.tasks += tasks;
    this.#progress.queues += queues;
  }

  #arrivingAt(partition: number): PartitionImport {
    const arriving = this.#arriving.get(partition as PartitionId);
    if (arriving) return arriving;
    throw new ImportBrokenError(`partition ${partition} has not begun`);
  }
}
