/** The traffic of connections in one direction. */
export interface Traffic {
  /** gRPC messages. */
  readonly messages: number;
  /** Bytes of those messages as the generated codecs encode them, without the framing of HTTP/2 and gRPC. */
  readonly bytes: number;
}

/** Sent by a client before its first frame (RFC 9113, 3.4). */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
/** Length (3 bytes), type, flags, stream (4) (RFC 9113, 4.1). */
const FRAME_HEADER_BYTES = 9;
const DATA = 0;
const PADDED = 0x8;
const STREAM_BITS = 0x7fff_ffff;
/** A flag for compression, then the length of the message. */
const MESSAGE_HEADER_BYTES = 5;

/** Counts the gRPC messages in one direction of one HTTP/2 connection. */
export class GrpcCounter {
  readonly #onMessage: (bytes: number) => void;
  readonly #streams = new Map<number, MessageCutter>();
  #unread: Buffer = Buffer.alloc(0);
  #prefaceIsOver: boolean;

  /** `fromClient`: the connection begins with a preface. */
  constructor(fromClient: boolean, onMessage: (bytes: number) => void) {
    this.#prefaceIsOver = !fromClient;
    this.#onMessage = onMessage;
  }

  read(bytes: Buffer): void {
    this.#unread = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes]);
    let at = 0;
    if (!this.#prefaceIsOver) {
      if (this.#unread.length < PREFACE.length) return;
      if (!this.#unread.subarray(0, PREFACE.length).equals(PREFACE)) throw new Error('this is not HTTP/2');
      this.#prefaceIsOver = true;
      at = PREFACE.length;
    }
    for (;;) {
      if (this.#unread.length < at + FRAME_HEADER_BYTES) break;
      const end = at + FRAME_HEADER_BYTES + this.#unread.readUIntBE(at, 3);
      if (this.#unread.length < end) break;
      if (this.#unread[at + 3] === DATA) this.#data(at, end);
      at = end;
    }
    this.#unread = this.#unread.subarray(at);
  }

  #data(at: number, end: number): void {
    const stream = this.#unread.readUInt32BE(at + 5) & STREAM_BITS;
    let from = at + FRAME_HEADER_BYTES;
    let to = end;
    if (((this.#unread[at + 4] ?? 0) & PADDED) !== 0) {
      to -= this.#unread[from] ?? 0;
      from++;
    }
    let cutter = this.#streams.get(stream);
    if (cutter === undefined) {
      cutter = new MessageCutter(this.#onMessage);
      this.#streams.set(stream, cutter);
    }
    cutter.read(this.#unread.subarray(from, to));
  }
}

/** Splits the data of one stream into messages and reads only their lengths. */
class MessageCutter {
  readonly #onMessage: (bytes: number) => void;
  #header: Buffer = Buffer.alloc(0);
  /** Bytes of the current message that have not arrived yet. */
  #missing = 0;

  constructor(onMessage: (bytes: number) => void) {
    this.#onMessage = onMessage;
  }

  read(data: Buffer): void {
    let at = 0;
    while (at < data.length) {
      const skipped = Math.min(this.#missing, data.length - at);
      this.#missing -= skipped;
      at += skipped;
      if (this.#missing > 0 || at === data.length) return;
      const taken = data.subarray(at, at + MESSAGE_HEADER_BYTES - this.#header.length);
      at += taken.length;
      this.#header = Buffer.concat([this.#header, taken]);
      if (this.#header.length < MESSAGE_HEADER_BYTES) return;
      this.#missing = this.#header.readUInt32BE(1);
      this.#header = Buffer.alloc(0);
      this.#onMessage(this.#missing);
    }
  }
}
