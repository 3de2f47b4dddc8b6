import { ByteReader, ByteWriter, type Instant, type QueueId, type Ticket } from '@taskmaster/server/domain';

const VERSION = 1;
/** More atoms than a partition ever commits in a millisecond, on average over its life. */
const TICKETS_PER_MS = 64;
/** Keys have room for a trillion more: a clock that is set to some far year must not use up all tickets. */
const LARGEST_BEGIN = 2 ** 48 - 2 ** 40;
const writer = new ByteWriter();

/** What is remembered of a partition between checkpoints. */
export interface PartitionRow {
  /** The minimum ticket (the paper, 5.3): all atoms up to it are in the rows; replay begins behind it. */
  readonly appliedTicket: Ticket;
  /** Queue ids are never reused. */
  readonly nextQueueId: QueueId;
}

export function encodePartitionRow(row: PartitionRow): Uint8Array {
  writer.byte(VERSION);
  writer.number(row.appliedTicket);
  writer.number(row.nextQueueId);
  return Uint8Array.from(writer.view());
}

export function decodePartitionRow(bytes: Uint8Array): PartitionRow {
  const from = new ByteReader(bytes);
  from.version(VERSION, 'partition row');
  return { appliedTicket: from.number() as Ticket, nextQueueId: from.number() as QueueId };
}

/**
 * Tickets of a partition that begins anew go on behind this one, and lease tokens with them: what it had before is lost,
 * the largest of its tickets too. An earlier life ended before now, and used fewer tickets than time passed.
 */
export const ticketBehindEarlierLives = (now: Instant): Ticket =>
  Math.min(now * TICKETS_PER_MS, LARGEST_BEGIN) as Ticket;
