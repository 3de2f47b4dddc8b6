import type { BinaryReader } from '@bufbuild/protobuf/wire';

// Every decoder reads its fields with these functions, the generated ones, too. So all of them read the same message in the same
// bytes, or none of them reads one.

const LENGTH_DELIMITED = 2;
/** The wire type of the end of a group, and the last one that exists. */
const END_GROUP = 4;
const LAST_WIRE_TYPE = 5;
/** A tag of this many bytes may have bits that a number of 32 bits does not hold. */
const LONG_TAG_BYTES = 5;

/**
 * Reads the tag of the next field: its number and its wire type. Throws if there is no such field. A decoder that stopped there,
 * or went on, would read another message than the next decoder.
 */
export function readTag(reader: BinaryReader): number {
  const start = reader.pos;
  const tag = reader.uint32();
  const type = tag & 7;
  if (tag < 8 || type === END_GROUP || type > LAST_WIRE_TYPE) {
    throw new RangeError(`illegal tag: field ${tag >>> 3}, wire type ${type}`);
  }
  if (reader.pos - start >= LONG_TAG_BYTES) {
    reader.pos = start;
    reader.tag(); // Throws if bits would be lost.
  }
  return tag;
}

/** Skips the field behind a tag. */
export function skipField(reader: BinaryReader, tag: number): void {
  const type = tag & 7;
  if (type !== LENGTH_DELIMITED) {
    reader.skip(type, tag >>> 3);
    return;
  }
  // The library would make a view of the bytes, and entries are skipped four times before an update is decoded (bench row B3).
  const length = reader.uint32();
  reader.pos += length;
  if (reader.pos > reader.len) throw new RangeError('a field ends behind the message');
}

/** Throws unless the fields of a message have ended exactly where it ends. */
export function checkEnd(reader: BinaryReader, end: number): void {
  if (reader.pos !== end) throw new RangeError(`a field ends at byte ${reader.pos}: its message ends at byte ${end}`);
}
