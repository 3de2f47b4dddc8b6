import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';

/** Which entries of a message count: all of a field, by its number, or what counts inside each of them. */
export interface CountedFields {
  readonly [field: number]: 'each' | CountedFields;
}

/**
 * Whether repeated fields have more entries than `most`, without decoding them: an empty one has two bytes on the wire,
 * and hundreds when it is decoded. Looks no further than the first one too many. Throws where the message is damaged
 * before that; the decoder says how.
 */
export function hasMoreEntries(bytes: Uint8Array, fields: CountedFields, most: number): boolean {
  // The shortest entry is a tag and a length.
  if (bytes.byteLength <= 2 * most) return false;
  const reader = new BinaryReader(bytes);
  return countWithin(reader, reader.len, fields, most) > most;
}

/** Stops beyond `most`. */
function countWithin(reader: BinaryReader, end: number, fields: CountedFields, most: number): number {
  let count = 0;
  while (reader.pos < end && count <= most) {
    const [number, type] = reader.tag();
    const counted = type === WireType.LengthDelimited ? fields[number] : undefined;
    if (counted === undefined || counted === 'each') {
      if (counted === 'each') count++;
      reader.skip(type, number);
    } else {
      const entryEnd = reader.uint32() + reader.pos;
      if (entryEnd > end) throw new RangeError(`an entry of field ${number} is cut short`);
      count += countWithin(reader, entryEnd, counted, most - count);
    }
  }
  return count;
}
