import type { PartitionId, QueueId, Ticket } from '@taskmaster/server/domain';
import type { ClockMark } from '@taskmaster/server/ports';
import { logKey, metaKeys, queueKey } from '../domain/keys.ts';
import { Family, type Store } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import type { CommitLog } from './commit-log.ts';
import { encodeClockMark } from './node-row.ts';
import { encodePartitionRow } from './partition-row.ts';
import type { QueueLedger } from './queue-ledger.ts';

/** Range deletions cost more than a few single ones, and slow down later scans. */
const MOST_SINGLE_DELETES = 256;

/** A partition with changes since its last checkpoint. */
export interface CheckpointedPartition {
  readonly id: PartitionId;
  readonly lastTicket: Ticket;
  readonly nextQueueId: QueueId;
  /** The log holds entries behind this one only. */
  readonly trimmedTicket: Ticket;
  readonly changed: Iterable<QueueLedger>;
}

/**
 * Writes the ledgers that changed, then the minimum tickets, then trims the log (the paper, 5.3). The order makes it
 * safe where batches are not atomic: a minimum ticket is on disk only after everything it vouches for.
 *
 * Rejects when the store does; the checkpoint before it is still good then.
 */
export async function writeCheckpoint(
  deps: { readonly store: Store; readonly log: CommitLog },
  partitions: readonly CheckpointedPartition[],
  clock: ClockMark,
): Promise<void> {
  // Through the log, because the order with atoms that drop a queue matters: its row must not come back.
  const ledgers = deps.log.appendRows((rows) => {
    for (const { id, changed } of partitions) {
      for (const ledger of changed) rows.put(Family.queues, queueKey(id, ledger.queueId), ledger.encode());
    }
  });
  await ledgers;

  const minimums = new WriteBatch();
  for (const { id, lastTicket, nextQueueId } of partitions) {
    const row = encodePartitionRow({ appliedTicket: lastTicket, nextQueueId });
    minimums.put(Family.meta, metaKeys.partition(id), row);
  }
  minimums.put(Family.meta, metaKeys.clock, encodeClockMark(clock));
  await deps.store.write(minimums, { sync: true });

  await trimLog(deps.store, partitions);
}

/** Few entries go one by one, all partitions in one write; many by range, which takes a write of its own. */
async function trimLog(store: Store, partitions: readonly CheckpointedPartition[]): Promise<void> {
  const single = new WriteBatch();
  const ranges: Promise<void>[] = [];
  for (const { id, trimmedTicket, lastTicket } of partitions) {
    if (lastTicket - trimmedTicket > MOST_SINGLE_DELETES) {
      const range = { gte: logKey(id, trimmedTicket), lt: logKey(id, (lastTicket + 1) as Ticket) };
      ranges.push(store.deleteRange(Family.log, range));
      continue;
    }
    for (let ticket = trimmedTicket + 1; ticket <= lastTicket; ticket++) {
      single.delete(Family.log, logKey(id, ticket as Ticket));
    }
  }
  // Unsynced: entries that come back are behind the minimum ticket, and go with the next start.
  if (single.count > 0) ranges.push(store.write(single, { sync: false }));
  await Promise.all(ranges);
}
