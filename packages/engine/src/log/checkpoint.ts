import type { PartitionId, PartitionLife, QueueId, Ticket } from '../domain/ids.ts';
import { logKey, metaKeys, queueKey } from '../domain/keys.ts';
import type { ClockMark } from '../ports/clock.ts';
import { Family, type Store } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import type { CommitLog } from './commit-log.ts';
import { encodeClockMark } from './node-row.ts';
import { encodePartitionRow } from './partition-row.ts';
import type { QueueLedger } from './queue-ledger.ts';

/** Up to this many entries are deleted one by one: range deletions cost more than a few single ones and slow later scans. */
const MOST_SINGLE_DELETES = 256;

/** A partition with changes since its last checkpoint. */
export interface CheckpointedPartition {
  readonly id: PartitionId;
  readonly lastTicket: Ticket;
  readonly nextQueueId: QueueId;
  readonly life: PartitionLife;
  /** See `PartitionRow.lastEpoch`. */
  readonly lastEpoch: number | undefined;
  /** The log has only entries behind this ticket. */
  readonly trimmedTicket: Ticket;
  /** Entries up to this one are deleted. Readers of events may still need later ones. */
  readonly trimTo: Ticket;
  readonly changed: Iterable<QueueLedger>;
}

/**
 * Writes the changed ledgers, then the minimum tickets, then trims the log (the paper, 5.3). This order is safe without atomic
 * batches: a minimum ticket is on disk only after the rows that it covers.
 *
 * `clock`: undefined if the store has no mark of this node's clock. Rejects if the store fails. The previous checkpoint is still
 * valid then.
 */
export async function writeCheckpoint(
  deps: { readonly store: Store; readonly log: CommitLog },
  partitions: readonly CheckpointedPartition[],
  clock: ClockMark | undefined,
): Promise<void> {
  // Through the log, to be ordered with atoms that drop a queue: the row of a dropped queue must not reappear.
  const ledgers = deps.log.appendRows((rows) => {
    for (const { id, changed } of partitions) {
      for (const ledger of changed) rows.put(Family.queues, queueKey(id, ledger.queueId), ledger.encode());
    }
  });
  await ledgers;

  const minimums = new WriteBatch();
  for (const { id, lastTicket, nextQueueId, life, lastEpoch } of partitions) {
    const row = encodePartitionRow({ appliedTicket: lastTicket, nextQueueId, life, lastEpoch });
    minimums.put(Family.meta, metaKeys.partition(id), row);
  }
  if (clock !== undefined) minimums.put(Family.meta, metaKeys.clock, encodeClockMark(clock));
  await deps.store.write(minimums, { sync: true });

  await trimLog(deps.store, partitions);
}

/** Deletes few entries one by one, in one write for all partitions; many entries by range, with a write for each partition. */
async function trimLog(store: Store, partitions: readonly CheckpointedPartition[]): Promise<void> {
  const single = new WriteBatch();
  const ranges: Promise<void>[] = [];
  for (const { id, trimmedTicket, trimTo } of partitions) {
    if (trimTo - trimmedTicket > MOST_SINGLE_DELETES) {
      const range = { gte: logKey(id, trimmedTicket), lt: logKey(id, (trimTo + 1) as Ticket) };
      ranges.push(store.deleteRange(Family.log, range));
      continue;
    }
    for (let ticket = trimmedTicket + 1; ticket <= trimTo; ticket++) {
      single.delete(Family.log, logKey(id, ticket as Ticket));
    }
  }
  // Unsynced: entries that reappear after a crash are already covered by the minimum ticket; the next start deletes them.
  if (single.count > 0) ranges.push(store.write(single, { sync: false }));
  await Promise.all(ranges);
}
