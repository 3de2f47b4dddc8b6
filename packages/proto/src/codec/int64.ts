import type { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire';

/**
 * 64-bit fields as numbers. The library uses BigInt, and the generated readers then use strings. For a message with a few
 * fields this is a large part of the cost.
 */

/** Bits of the first four bytes of a varint. */
const LOW_BITS = 28;
const LOW = 2 ** LOW_BITS;
/** A varint of up to this many bytes fits into a number and has no sign. */
const LONGEST = 8;

/** Writes a whole number from -2^53 to 2^53 as an int64 or uint64. */
export function writeInt64(writer: BinaryWriter, value: number): BinaryWriter {
  if (value >= 0 && value < LOW) return writer.uint32(value);
  if (!Number.isSafeInteger(value) || value < 0) return writer.int64(value);
  const low = value % LOW;
  const bytes = 0x80808080 | (low & 0x7f) | ((low & 0x3f80) << 1) | ((low & 0x1fc000) << 2) | ((low & 0xfe00000) << 3);
  return writer.fixed32(bytes >>> 0).uint32((value - low) / LOW);
}

/** Reads an int64 or uint64. Throws if a number cannot hold the value. */
export function readInt64(reader: BinaryReader): number {
  const start = reader.pos;
  const low = reader.uint32();
  const length = reader.pos - start;
  if (length <= 4) return low;
  reader.pos = start;
  if (length > LONGEST) return safe(Number(reader.int64()));
  reader.pos += 4;
  return safe((low % LOW) + reader.uint32() * LOW);
}

function safe(value: number): number {
  if (value > Number.MAX_SAFE_INTEGER) throw new RangeError('Value is larger than Number.MAX_SAFE_INTEGER');
  if (value < Number.MIN_SAFE_INTEGER) throw new RangeError('Value is smaller than Number.MIN_SAFE_INTEGER');
  return value;
}
