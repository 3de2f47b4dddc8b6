import { BinaryReader } from '@bufbuild/protobuf/wire';

/**
 * Decodes a message of exactly these bytes. The generated decoders stop without a word at a zero tag or an end-group
 * tag, which would let a damaged message pass for a shorter one.
 *
 * Byte fields of the result are views of `bytes`: copy what outlives it.
 */
export function decodeWhole<T>(type: { decode(input: BinaryReader): T }, bytes: Uint8Array): T {
  const reader = new BinaryReader(bytes);
  const message = type.decode(reader);
  if (reader.pos !== reader.len) throw new RangeError(`stopped at byte ${reader.pos} of ${reader.len}`);
  return message;
}
