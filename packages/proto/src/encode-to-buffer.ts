import { BinaryWriter } from '@bufbuild/protobuf/wire';

const shared = new BinaryWriter();

/** Encodes a message with one writer for all calls; encoding is synchronous, so they cannot meet. */
export function encodeToBuffer<T>(
  type: { encode(message: T, writer: BinaryWriter): BinaryWriter },
  message: T,
): Buffer {
  let bytes: Uint8Array;
  try {
    bytes = type.encode(message, shared).finish();
  } catch (error) {
    // What a failed message left in the writer must not become part of the next one.
    shared.finish();
    throw error;
  }
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
