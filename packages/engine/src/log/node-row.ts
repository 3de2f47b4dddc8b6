import { ByteReader, ByteWriter, UnreadableBytesError } from '../domain/bytes.ts';
import type { Instant } from '../domain/ids.ts';
import type { ClockMark } from '../ports/clock.ts';

const VERSION = 1;
/** From version 2 on, the rows of tasks may be older than the log. A release that reads version 1 would miss the changes. */
const NODE_VERSION = 2;
const writer = new ByteWriter();

/** The settings that are fixed when a store is created. */
export interface NodeRow {
  /** Number of partitions. It decides which partition a group belongs to. */
  readonly partitions: number;
}

export function encodeNodeRow(row: NodeRow): Uint8Array {
  writer.byte(NODE_VERSION);
  writer.number(row.partitions);
  return Uint8Array.from(writer.view());
}

/** True if an earlier release wrote the row. It must then be written again before the store is used. */
export const isEarlierNodeRow = (bytes: Uint8Array): boolean => bytes[0] === VERSION;

export function decodeNodeRow(bytes: Uint8Array): NodeRow {
  const from = new ByteReader(bytes);
  from.version(isEarlierNodeRow(bytes) ? VERSION : NODE_VERSION, 'node row');
  const partitions = from.number();
  if (partitions < 1) throw new UnreadableBytesError('node row without partitions');
  return { partitions };
}

export function encodeClockMark(mark: ClockMark): Uint8Array {
  writer.byte(VERSION);
  writer.number(Math.floor(mark.instant));
  writer.number(Math.floor(mark.uptimeMs));
  writer.utf8(mark.bootId ?? '');
  return Uint8Array.from(writer.view());
}

export function decodeClockMark(bytes: Uint8Array): ClockMark {
  const from = new ByteReader(bytes);
  from.version(VERSION, 'clock row');
  const instant = from.number() as Instant;
  const uptimeMs = from.number();
  return { instant, uptimeMs, bootId: from.utf8() || undefined };
}
