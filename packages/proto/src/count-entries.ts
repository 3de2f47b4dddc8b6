import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';

/**
 * Entries of a repeated message field, without decoding them: an empty one has two bytes on the wire, and a hundred
 * when it is decoded. Stops counting beyond `most`, so that the count costs no more than that either. Throws where the
 * message is damaged; the decoder says how.
 */
export function countEntries(bytes: Uint8Array, field: number, most: number): number {
  const reader = new BinaryReader(bytes);
  let count = 0;
  while (reader.pos < reader.len && count <= most) {
    const [number, type] = reader.tag();
    if (number === field && type === WireType.LengthDelimited) count++;
    reader.skip(type, number);
  }
  return count;
}
