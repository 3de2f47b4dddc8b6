const SETTINGS = 4;
const GOAWAY = 7;
/** The peer makes more work than it should. */
const ENHANCE_YOUR_CALM = 11;

function frame(type: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  return Buffer.concat([header, payload]);
}

/** The bytes of HTTP/2 that end a new connection with a reason. Clients show the text. */
export function refusingBytes(reason: string): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(ENHANCE_YOUR_CALM, 4);
  return Buffer.concat([frame(SETTINGS, Buffer.alloc(0)), frame(GOAWAY, Buffer.concat([head, Buffer.from(reason)]))]);
}
