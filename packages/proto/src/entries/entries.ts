import { BinaryReader } from '@bufbuild/protobuf/wire';
import { readTag, skipField } from '../codec/fields.ts';

/** Wire type of fields with a length. */
const LENGTH_DELIMITED = 2;

/**
 * Which fields of a message are counted: all entries of a repeated field, by its number, or counted fields inside each
 * entry.
 */
export interface CountedFields {
  readonly [field: number]: 'each' | CountedFields;
}

/**
 * Whether repeated fields have more than `most` entries, without decoding them: an empty entry has two bytes on the wire,
 * and hundreds in memory. Stops at the first entry above `most`. Throws if the message is damaged before it; the decoder
 * then reports how.
 */
export function hasMoreEntries(bytes: Uint8Array, fields: CountedFields, most: number): boolean {
  // The shortest entry has a tag and a length.
  if (bytes.byteLength <= 2 * most) return false;
  const reader = new BinaryReader(bytes);
  return countWithin(reader, reader.len, fields, most) > most;
}

/** Stops beyond `most`. */
function countWithin(reader: BinaryReader, end: number, fields: CountedFields, most: number): number {
  let count = 0;
  while (reader.pos < end && count <= most) {
    const tag = readTag(reader);
    const counted = (tag & 7) === LENGTH_DELIMITED ? fields[tag >>> 3] : undefined;
    if (counted === undefined || counted === 'each') {
      if (counted === 'each') count++;
      skipField(reader, tag);
    } else {
      const entryEnd = reader.uint32() + reader.pos;
      if (entryEnd > end) throw new RangeError(`an entry of field ${tag >>> 3} is cut short`);
      count += countWithin(reader, entryEnd, counted, most - count);
    }
  }
  return count;
}
