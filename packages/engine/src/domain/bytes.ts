const LARGEST_INT32 = 2 ** 31 - 1;
/** For strings up to this length, a loop is faster than a call into native code. */
const SHORT = 32;
const LARGEST_ASCII = 0x7f;

/** Writes a latin1 string into a buffer that has room for it. */
export function writeLatin1(target: Buffer, text: string, at: number): void {
  if (text.length > SHORT) {
    target.write(text, at, 'latin1');
    return;
  }
  for (let i = 0; i < text.length; i++) target[at + i] = text.charCodeAt(i);
}

/** Writes numbers and strings into a reused block of memory. `take` copies the result. */
export class ByteWriter {
  #bytes = Buffer.allocUnsafeSlow(1024);
  #length = 0;

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  /** Writes an integer from 0 to 2^53 - 1 as a varint. */
  number(value: number): void {
    // Other values could not be read back.
    if (!(value >= 0 && value <= Number.MAX_SAFE_INTEGER)) throw new RangeError(`${value} cannot be written`);
    this.#reserve(8);
    const bytes = this.#bytes;
    let at = this.#length;
    let rest = value;
    for (; rest > LARGEST_INT32; rest = Math.floor(rest / 0x80)) bytes[at++] = (rest % 0x80) | 0x80;
    // Operations on 32 bits are several times faster.
    for (; rest > 0x7f; rest >>>= 7) bytes[at++] = (rest & 0x7f) | 0x80;
    bytes[at++] = rest;
    this.#length = at;
  }

  /** Writes a latin1 string, after its length. */
  latin1(text: string): void {
    this.number(text.length);
    this.#reserve(text.length);
    writeLatin1(this.#bytes, text, this.#length);
    this.#length += text.length;
  }

  utf8(text: string): void {
    if (text.length <= SHORT && this.#ascii(text)) return;
    const length = Buffer.byteLength(text, 'utf8');
    this.number(length);
    this.#reserve(length);
    this.#length += this.#bytes.write(text, this.#length, 'utf8');
  }

  /** Writes a short text of ASCII, after its length. False: it is none, and nothing is written. */
  #ascii(text: string): boolean {
    const { length } = text;
    this.#reserve(1 + length);
    const bytes = this.#bytes;
    const at = this.#length + 1;
    for (let i = 0; i < length; i++) {
      const code = text.charCodeAt(i);
      if (code > LARGEST_ASCII) return false;
      bytes[at + i] = code;
    }
    bytes[at - 1] = length;
    this.#length = at + length;
    return true;
  }

  blob(bytes: Uint8Array): void {
    this.number(bytes.byteLength);
    this.#reserve(bytes.byteLength);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.byteLength;
  }

  /** Writes the bytes from one place to another, without their length. */
  part(bytes: Uint8Array, from: number, to: number): void {
    const length = to - from;
    this.#reserve(length);
    const target = this.#bytes;
    let at = this.#length;
    this.#length += length;
    if (length <= SHORT * 2) for (let i = from; i < to; i++) target[at++] = bytes[i] ?? 0;
    else target.set(bytes.subarray(from, to), at);
  }

  /** Begins a part that stands after its length, as a blob does. Returns the place for `endPart`. */
  beginPart(): number {
    this.byte(0);
    return this.#length;
  }

  endPart(begin: number): void {
    const length = this.#length - begin;
    if (length <= LARGEST_ASCII) {
      this.#bytes[begin - 1] = length;
      return;
    }
    // The length needs more bytes than the one that is there.
    const part = Buffer.from(this.#bytes.subarray(begin, this.#length));
    this.#length = begin - 1;
    this.blob(part);
  }

  /** Returns a copy of the result. The writer is empty afterwards. */
  take(): Buffer {
    const length = this.#length;
    const copy = Buffer.allocUnsafe(length);
    if (length > SHORT * 2) {
      this.moveTo(copy, 0);
      return copy;
    }
    const bytes = this.#bytes;
    for (let at = 0; at < length; at++) copy[at] = bytes[at] ?? 0;
    this.#length = 0;
    return copy;
  }

  /** Returns a view of the result, valid until the next write. The writer is empty afterwards. */
  view(): Uint8Array {
    const written = this.#bytes.subarray(0, this.#length);
    this.#length = 0;
    return written;
  }

  /** Number of bytes written since the writer was empty. */
  get length(): number {
    return this.#length;
  }

  /** Copies the result into an array that has room for it, without a view in between. The writer is empty afterwards. */
  moveTo(target: Uint8Array, at: number): void {
    this.#bytes.copy(target, at, 0, this.#length);
    this.#length = 0;
  }

  #reserve(more: number): void {
    const needed = this.#length + more;
    if (needed <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}

/** A row or log entry cannot be read: its bytes are damaged, or a newer release wrote it. */
export class UnreadableBytesError extends Error {
  override readonly name = 'UnreadableBytesError';
}

/** Reads the output of a ByteWriter. Throws `UnreadableBytesError` at the end of the bytes. */
export class ByteReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** True if everything was read. Fields at the end that only later releases write are then missing. */
  get atEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  byte(): number {
    const value = this.#bytes[this.#at++];
    if (value === undefined) throw new UnreadableBytesError(`ends at byte ${this.#bytes.length}`);
    return value;
  }

  number(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
      scale *= 0x80;
    }
    if (!Number.isSafeInteger(value)) throw new UnreadableBytesError(`number out of range before byte ${this.#at}`);
    return value;
  }

  latin1(): string {
    const [from, to] = this.#span();
    return this.#bytes.toString('latin1', from, to);
  }

  utf8(): string {
    const [from, to] = this.#span();
    return this.#bytes.toString('utf8', from, to);
  }

  /** Reads a blob. Returns a view. */
  blob(): Uint8Array {
    const [from, to] = this.#span();
    return this.#bytes.subarray(from, to);
  }

  /** Reads the version byte with which every row begins. Throws if it is none of the `known` ones. */
  version(known: number | readonly number[], what: string): number {
    const version = this.byte();
    if (version !== known && !(Array.isArray(known) && known.includes(version)))
      throw new UnreadableBytesError(`${what} has version ${version}; this release reads ${known}`);
    return version;
  }

  #span(): [number, number] {
    const length = this.number();
    const from = this.#at;
    if (length > this.#bytes.length - from) throw new UnreadableBytesError(`ends at byte ${this.#bytes.length}`);
    this.#at = from + length;
    return [from, this.#at];
  }
}

/** Copies the bytes into a latin1 string, so that the string does not keep the request in memory. */
export function latin1Of(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.toString('latin1');
}
