import { writeLatin1 } from '../../domain/bytes.ts';

/** A piece of memory shared by payloads. It lives as long as any of them. */
interface Slab {
  readonly memory: Uint8Array;
  used: number;
  payloads: number;
}

/** Where a payload is kept. Its size is in the task's state. */
export interface Kept {
  /**
   * A slab, or the bytes themselves as a latin1 string: a slab with a single payload needs 400 bytes more, in objects that the
   * garbage collector must mark. Undefined: the payload is empty or not in memory.
   */
  memory: Slab | string | undefined;
  /** Offset in the slab. */
  at: number;
}

const SMALLEST_SLAB_BYTES = 256;
/** Larger slabs would save little more, and the last payload keeps its whole slab in memory. */
const LARGEST_SLAB_BYTES = 64 * 1024;
/** Payloads of at least the largest slab divided by this have memory of their own. */
const LARGE_PART = 4;

/**
 * The memory of one queue's payloads. A received payload is a view that keeps its whole message in memory, so it is copied:
 * large payloads into memory of their own, small ones into slabs. Node's buffer pool is no alternative: the whole process
 * shares it, and one waiting task would keep 8 KiB that are not counted. A kept payload is an offset and not a view, because a
 * view takes V8 as much memory, and as long to mark, as the rest of a task. Bench row B5: no more pauses of
 * 30 to 120 ms.
 *
 *  P1  `bytes` is the memory that the kept payloads hold. A slab counts as a whole until its last payload is dropped.
 *  P2  Memory of a payload is never reused for another one: readers may use it for longer than it is kept here.
 */
export class PayloadSlabs {
  /** The slab that new payloads go to. */
  #open: Slab | undefined;
  /** Size of the open slab; 0: as large as its first payload, which may stay the only one. */
  #openBytes = 0;
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps a payload and notes in `kept` where. Drop an earlier payload of `kept` first. */
  keep(data: Uint8Array, kept: Kept): void {
    const { byteLength } = data;
    if (byteLength === 0) return;
    const slab = this.#slabFor(data);
    kept.memory = slab;
    kept.at = slab.used;
    if (slab.memory !== data) slab.memory.set(data, slab.used);
    slab.used += byteLength;
    slab.payloads++;
  }

  /** Drops a payload that `keep` has kept. */
  drop(kept: Kept): void {
    const { memory: slab } = kept;
    kept.memory = undefined;
    if (slab === undefined || typeof slab === 'string' || --slab.payloads > 0) return;
    this.#bytes -= slab.memory.buffer.byteLength;
    if (slab !== this.#open) return;
    this.#open = undefined;
    this.#openBytes = this.#openBytes > SMALLEST_SLAB_BYTES ? this.#openBytes / 2 : 0;
  }

  #slabFor(data: Uint8Array): Slab {
    const { byteLength, buffer } = data;
    if (byteLength * 2 >= buffer.byteLength) return this.#counted(data);
    if (byteLength * LARGE_PART >= LARGEST_SLAB_BYTES) return this.#counted(Buffer.allocUnsafeSlow(byteLength));
    const open = this.#open;
    if (open !== undefined && open.used + byteLength <= open.memory.byteLength) return open;
    // Slabs grow with the queue: twice as large as the last one if that was filled, half if its tasks were all taken before.
    if (open !== undefined) {
      this.#openBytes = Math.min(LARGEST_SLAB_BYTES, Math.max(SMALLEST_SLAB_BYTES, 2 * this.#openBytes));
    }
    this.#open = this.#counted(Buffer.allocUnsafeSlow(Math.max(this.#openBytes, byteLength)));
    return this.#open;
  }

  #counted(memory: Uint8Array): Slab {
    this.#bytes += memory.buffer.byteLength;
    return { memory, used: 0, payloads: 0 };
  }
}

/** The payload of `bytes` bytes: a view of the slab, or a copy of the string. */
export const payloadIn = ({ memory, at }: Kept, bytes: number): Uint8Array | undefined =>
  typeof memory === 'string' ? fromString(memory) : memory?.memory.subarray(at, at + bytes);

/** A copy in memory of its own and not in Node's buffer pool, because readers may keep it. */
function fromString(text: string): Uint8Array {
  const bytes = Buffer.allocUnsafeSlow(text.length);
  writeLatin1(bytes, text, 0);
  return bytes;
}
