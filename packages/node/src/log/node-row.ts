import { ByteReader, ByteWriter, UnreadableBytes } from '../domain/bytes.ts';
import type { Instant } from '../domain/ids.ts';
import type { ClockMark } from '../ports/clock.ts';

const VERSION = 1;
const writer = new ByteWriter();

/** What is fixed when a store is created. */
export interface NodeRow {
  /** Partitions of the cluster; groups are assigned by it. */
  readonly partitions: number;
}

export function encodeNodeRow(row: NodeRow): Uint8Array {
  writer.byte(VERSION);
  writer.number(row.partitions);
  return Uint8Array.from(writer.view());
}

export function decodeNodeRow(bytes: Uint8Array): NodeRow {
  const from = new ByteReader(bytes);
  from.version(VERSION, 'node row');
  const partitions = from.number();
  if (partitions < 1) throw new UnreadableBytes('node row without partitions');
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
