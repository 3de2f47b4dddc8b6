import { ByteReader, ByteWriter } from '../domain/bytes.ts';
import type { Instant, PartitionId, PartitionLife, QueueId, Ticket } from '../domain/ids.ts';
import { metaKeys } from '../domain/keys.ts';
import { Family } from '../ports/store.ts';
import type { WriteBatch } from '../ports/write-batch.ts';

const VERSION = 1;
/** More atoms than any partition commits in a millisecond, on average over its life. */
const TICKETS_PER_MS = 64;
/** Keys have room for a trillion more tickets, so that a clock set to a distant year does not use up all of them. */
const LARGEST_BEGIN = 2 ** 48 - 2 ** 40;
const writer = new ByteWriter();

/** The row of a partition, written with each checkpoint. */
export interface PartitionRow {
  /** The minimum ticket (the paper, 5.3): all atoms up to it are in the rows; replay begins behind it. */
  readonly appliedTicket: Ticket;
  /** Queue ids are never reused. */
  readonly nextQueueId: QueueId;
  readonly life: PartitionLife;
  /**
   * Its last atom was committed at this epoch, or at an earlier one. 0: there is none in this life. Undefined: unknown. Earlier
   * builds write none.
   */
  readonly lastEpoch: number | undefined;
}

export function encodePartitionRow(row: PartitionRow): Uint8Array {
  writer.byte(VERSION);
  writer.number(row.appliedTicket);
  writer.number(row.nextQueueId);
  writer.number(row.life);
  if (row.lastEpoch !== undefined) writer.number(row.lastEpoch);
  return Uint8Array.from(writer.view());
}

/** Writes the rows of new partitions, so that recovery knows where their logs begin. */
export function putBegun(
  rows: WriteBatch,
  ids: readonly PartitionId[],
  { appliedTicket, life }: Pick<PartitionRow, 'appliedTicket' | 'life'>,
): void {
  const row = encodePartitionRow({ appliedTicket, nextQueueId: 1 as QueueId, life, lastEpoch: 0 });
  for (const id of ids) rows.put(Family.meta, metaKeys.partition(id), row);
}

export function decodePartitionRow(bytes: Uint8Array): PartitionRow {
  const from = new ByteReader(bytes);
  from.version(VERSION, 'partition row');
  const [appliedTicket, nextQueueId] = [from.number() as Ticket, from.number() as QueueId];
  // Earlier builds write fewer numbers, and ignore the last ones.
  const life = from.atEnd ? 0 : from.number();
  return { appliedTicket, nextQueueId, life, lastEpoch: from.atEnd ? undefined : from.number() };
}

/**
 * The tickets, and so the lease tokens, of a partition that starts empty begin behind this one. The largest ticket of its
 * earlier life is lost, but it is smaller: that life ended before now and used fewer than `TICKETS_PER_MS` since 1970.
 */
export const ticketBehindEarlierLives = (now: Instant): Ticket =>
  Math.min(now * TICKETS_PER_MS, LARGEST_BEGIN) as Ticket;
