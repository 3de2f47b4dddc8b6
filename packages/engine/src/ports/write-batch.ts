// Not the whole domain: the thread that writes would load gRPC, and take twice as long to start.
import { type ByteWriter, writeLatin1 } from '../domain/bytes.ts';
import type { Key } from '../domain/ids.ts';
import type { Family } from './store.ts';

const PUT = 1;
const DELETE = 2;
const HEADER_BYTES = 10;
const INITIAL_BYTES = 4096;
/** Spare blocks of memory: enough for two groups being written and two being filled, unless they are very large. */
const MOST_SPARE = 4;
const LARGEST_SPARE_BYTES = 8 * 1024 * 1024;
const spare: ArrayBuffer[] = [];

/**
 * Returns the smallest spare block that is large enough, so that large blocks stay for large batches; otherwise new memory.
 * Page faults of new memory are a large part of the cost of filling it.
 */
function memoryFor(bytes: number): Buffer<ArrayBuffer> {
  let best = -1;
  let bestBytes = Number.POSITIVE_INFINITY;
  for (const [at, { byteLength }] of spare.entries()) {
    if (byteLength < bytes || byteLength >= bestBytes) continue;
    best = at;
    bestBytes = byteLength;
  }
  const [found] = best < 0 ? [] : spare.splice(best, 1);
  return found ? Buffer.from(found) : Buffer.allocUnsafeSlow(bytes);
}

/** Makes the memory of a taken batch available again. It must not be read any more. */
export function reuseMemory(memory: ArrayBuffer): void {
  if (memory.byteLength < INITIAL_BYTES || memory.byteLength > LARGEST_SPARE_BYTES) return;
  if (spare.length >= MOST_SPARE) spare.shift();
  spare.push(memory);
}

/** Receives the row changes of a batch in order. `key` and `value` are views into the batch. */
export interface WriteVisitor {
  put(family: Family, key: Uint8Array, value: Uint8Array): void;
  delete(family: Family, key: Uint8Array): void;
}

/**
 * Row changes packed into one growing block of memory. So a batch is transferred to the writer thread without an object or a
 * copy for each row. Later changes of a row win over earlier ones.
 *
 * A record is: operation (1 byte), family (1), key length (4, big-endian), value length (4), key, value.
 */
export class WriteBatch {
  #bytes: Buffer<ArrayBuffer>;
  #length = 0;
  #count = 0;

  /** `expectedBytes`: size to allocate, because growing copies. */
  constructor(expectedBytes = 0) {
    this.#bytes = memoryFor(Math.max(INITIAL_BYTES, expectedBytes));
  }

  /** Number of row changes. */
  get count(): number {
    return this.#count;
  }

  /** Bytes of all records. */
  get byteLength(): number {
    return this.#length;
  }

  put(family: Family, key: Key, value: Uint8Array): void {
    const at = this.#header(PUT, family, key.length, value.byteLength);
    writeLatin1(this.#bytes, key, at);
    this.#bytes.set(value, at + key.length);
  }

  /** As `put`, with the value as a latin1 string of bytes. */
  putText(family: Family, key: Key, value: string): void {
    const at = this.#header(PUT, family, key.length, value.length);
    writeLatin1(this.#bytes, key, at);
    writeLatin1(this.#bytes, value, at + key.length);
  }

  /** As `put`, with the contents of a writer, which is empty afterwards. For hot paths: creates no view. */
  putWritten(family: Family, key: Key, value: ByteWriter): void {
    const at = this.#header(PUT, family, key.length, value.length);
    writeLatin1(this.#bytes, key, at);
    value.moveTo(this.#bytes, at + key.length);
  }

  delete(family: Family, key: Key): void {
    const at = this.#header(DELETE, family, key.length, 0);
    writeLatin1(this.#bytes, key, at);
  }

  /** Returns the records for transfer to another thread. The batch must not be used afterwards. */
  take(): Uint8Array<ArrayBuffer> {
    const taken = this.#bytes.subarray(0, this.#length);
    this.#bytes = Buffer.allocUnsafeSlow(0);
    this.#length = 0;
    this.#count = 0;
    return taken;
  }

  visit(visitor: WriteVisitor): void {
    visitWrites(this.#bytes.subarray(0, this.#length), visitor);
  }

  #header(operation: number, family: Family, keyLength: number, valueLength: number): number {
    const at = this.#length;
    const length = HEADER_BYTES + keyLength + valueLength;
    this.#reserve(length);
    const bytes = this.#bytes;
    bytes[at] = operation;
    bytes[at + 1] = family;
    writeU32(bytes, keyLength, at + 2);
    writeU32(bytes, valueLength, at + 6);
    this.#length = at + length;
    this.#count++;
    return at + HEADER_BYTES;
  }

  #reserve(more: number): void {
    const needed = this.#length + more;
    if (needed <= this.#bytes.length) return;
    const grown = memoryFor(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#length));
    reuseMemory(this.#bytes.buffer);
    this.#bytes = grown;
  }
}

/** Faster than `Buffer.writeUInt32BE`, which checks its arguments. */
function writeU32(bytes: Buffer, value: number, at: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

/** Reads the records of `WriteBatch.take()` without an object for each row, because the writer thread does little else. */
export function visitWrites(records: Uint8Array, visitor: WriteVisitor): void {
  const bytes = Buffer.from(records.buffer, records.byteOffset, records.byteLength);
  let at = 0;
  while (at < bytes.length) {
    const operation = bytes[at];
    const family = bytes[at + 1] as Family;
    const keyEnd = at + HEADER_BYTES + bytes.readUInt32BE(at + 2);
    const valueEnd = keyEnd + bytes.readUInt32BE(at + 6);
    const key = bytes.subarray(at + HEADER_BYTES, keyEnd);
    if (operation === PUT) visitor.put(family, key, bytes.subarray(keyEnd, valueEnd));
    else visitor.delete(family, key);
    at = valueEnd;
  }
}
