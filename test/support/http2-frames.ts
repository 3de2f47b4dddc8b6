/** The first bytes of a connection that speaks HTTP/2. */
export const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

/** An HTTP/2 frame: length, type, flags, stream, payload. */
export function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(stream, 5);
  return Buffer.concat([header, payload]);
}

/** Settings without a value. */
export const SETTINGS: Buffer = frame(4, 0, 0, Buffer.alloc(0));

/** A message of gRPC, with its header. */
export function grpcMessage(bytes: Uint8Array): Buffer {
  const header = Buffer.alloc(5);
  header.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([header, bytes]);
}
