import { ByteReader, ByteWriter } from '../domain/bytes.ts';
import type { QueueId, Ticket } from '../domain/ids.ts';

const VERSION = 1;
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
