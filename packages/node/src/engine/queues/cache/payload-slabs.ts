import { writeLatin1 } from '@taskmaster/server/domain';

/** A piece of memory shared by payloads. It lives as long as any of them. */
interface Slab {
  readonly memory: Uint8Array;
  used: number;
  payloads: number;
}

/** Where a payload is kept; of how many bytes it is, its task knows. */
export interface Kept {
  /**
   * A string: the bytes themselves, as latin1; a slab with a single payload takes 400 bytes beside it, in objects to be
   * marked. Undefined: nowhere, or there is nothing of it.
   */
  memory: Slab | string | undefined;
  /** In a slab. */
  at: number;
}

const SMALLEST_SLAB_BYTES = 256;
/** Larger ones would save little more, and stay as a whole for the last payload in them. */
const LARGEST_SLAB_BYTES = 64 * 1024;
/** Payloads that would fill this part of the largest slab have memory of their own. */
const LARGE_PART = 4;

/**
 * The memory of one queue's payloads. A payload that came in a message is a view into it and would keep all of it, so it
 * is copied: large ones into memory of their own, small ones into slabs. Node's pool would do, but it is shared with
 * everything else in the process, and one waiting task would keep 8 KiB that nobody has counted. What is kept is no view
 * either: a view takes V8 as much memory as the rest of a task, and as long to mark.
 *
 *  P1  `bytes` is what the payloads kept here keep in memory: of slabs all, until the last payload in it is dropped.
 *  P2  Memory that was given to a payload is given to no other: those who read it may do so for longer than it is kept.
 */
export class PayloadSlabs {
  /** The slab with room. */
  #open: Slab | undefined;
  /** How large it is; 0: as large as the first payload, which may be the only one. */
  #openBytes = 0;
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps a payload and notes where. What was kept there before is to be dropped first. */
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

  /** Ends what `keep` began. */
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
    // As large as the queue is long: twice the one that was filled, half of one whose tasks were all taken before.
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

/** The payload, which is so long: a view of where it is kept, or a copy. */
export const payloadIn = ({ memory, at }: Kept, bytes: number): Uint8Array | undefined =>
  typeof memory === 'string' ? fromString(memory) : memory?.memory.subarray(at, at + bytes);

/** Of memory of its own, as that of a slab is: whoever reads it may keep it. */
function fromString(text: string): Uint8Array {
  const bytes = Buffer.allocUnsafeSlow(text.length);
  writeLatin1(bytes, text, 0);
  return bytes;
}
