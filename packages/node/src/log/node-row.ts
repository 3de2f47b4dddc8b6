import { ByteReader, ByteWriter, type Instant, UnreadableBytesError } from '@taskmaster/server/domain';
import type { ClockMark } from '@taskmaster/server/ports';

const VERSION = 1;
/** From 2 on the rows of tasks may be behind the log: a release that reads 1 only would miss what is there alone. */
const NODE_VERSION = 2;
const writer = new ByteWriter();

/** What is fixed when a store is created. */
export interface NodeRow {
  /** Partitions of the cluster; groups are assigned by it. */
  readonly partitions: number;
}

export function encodeNodeRow(row: NodeRow): Uint8Array {
  writer.byte(NODE_VERSION);
  writer.number(row.partitions);
  return Uint8Array.from(writer.view());
}

/** Whether an earlier release wrote the row, so that it has to be written again before the store is used. */
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
