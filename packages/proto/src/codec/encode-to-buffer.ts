import { BinaryWriter } from '@bufbuild/protobuf/wire';

const shared = new BinaryWriter();

/** Encodes a message with one shared writer. Encoding is synchronous, so calls cannot interfere. */
export function encodeToBuffer<T>(
  type: { encode(message: T, writer: BinaryWriter): BinaryWriter },
  message: T,
): Buffer {
  let bytes: Uint8Array;
  try {
    bytes = type.encode(message, shared).finish();
  } catch (error) {
    // Clears the bytes of the failed message from the writer.
    shared.finish();
    throw error;
  }
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
