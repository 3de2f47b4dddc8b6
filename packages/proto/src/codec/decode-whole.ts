import { BinaryReader } from '@bufbuild/protobuf/wire';

/**
 * Decodes a message that has exactly these bytes. The generated decoders stop silently at a zero tag or an end-group tag. So
 * a damaged message could pass for a shorter one.
 *
 * Byte fields of the result are views of `bytes`. Copy those that are kept longer.
 */
export function decodeWhole<T>(type: { decode(input: BinaryReader): T }, bytes: Uint8Array): T {
  const reader = new BinaryReader(bytes);
  const message = type.decode(reader);
  if (reader.pos !== reader.len) throw new RangeError(`stopped at byte ${reader.pos} of ${reader.len}`);
  return message;
}
