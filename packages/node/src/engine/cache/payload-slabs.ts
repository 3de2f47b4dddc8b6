/** A piece of memory shared by payloads. It lives as long as any of them. */
interface Slab {
  readonly memory: Buffer;
  used: number;
  payloads: number;
}

const SMALLEST_SLAB_BYTES = 256;
/** As Node's own pool: below it memory of its own costs a payload more than its bytes. */
const LARGEST_SLAB_BYTES = 8 * 1024;
/** Payloads that would fill this part of the largest slab have memory of their own. */
const LARGE_PART = 4;

/**
 * The memory of one queue's payloads. A payload that came in a message is a view into it and would keep all of it, so it
 * is copied: large ones into memory of their own, small ones into slabs. Node's pool would do, but it is shared with
 * everything else in the process, and one waiting task would keep 8 KiB that nobody has counted.
 *
 *  P1  `bytes` is what the payloads kept here keep in memory: of slabs all, until the last payload in it is dropped.
 */
export class PayloadSlabs {
  /** All but the one with room: most queues have one slab only. */
  #full: Map<ArrayBufferLike, Slab> | undefined;
  /** The slab with room. */
  #open: Slab | undefined;
  #openBytes = SMALLEST_SLAB_BYTES;
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps a payload; returns it as it is to be kept, and dropped. */
  keep(data: Uint8Array): Uint8Array {
    const { byteLength, buffer } = data;
    if (byteLength === 0) return data;
    const slab = this.#slabOf(buffer);
    if (slab) {
      slab.payloads++;
      return data;
    }
    if (byteLength * LARGE_PART < LARGEST_SLAB_BYTES && byteLength * 2 < buffer.byteLength) return this.#copy(data);
    const own = byteLength * 2 >= buffer.byteLength ? data : Buffer.allocUnsafeSlow(byteLength);
    if (own !== data) own.set(data);
    this.#bytes += own.buffer.byteLength;
    return own;
  }

  /** Ends what `keep` began, once for each time. */
  drop(kept: Uint8Array): void {
    if (kept.byteLength === 0) return;
    const slab = this.#slabOf(kept.buffer);
    if (slab === undefined) this.#bytes -= kept.buffer.byteLength;
    else if (--slab.payloads === 0) this.#forget(slab);
  }

  #slabOf(memory: ArrayBufferLike): Slab | undefined {
    return this.#open?.memory.buffer === memory ? this.#open : this.#full?.get(memory);
  }

  #copy(data: Uint8Array): Uint8Array {
    let slab = this.#open;
    if (slab === undefined || slab.used + data.byteLength > slab.memory.byteLength)
      slab = this.#openSlab(data.byteLength);
    const own = slab.memory.subarray(slab.used, slab.used + data.byteLength);
    own.set(data);
    slab.used += data.byteLength;
    slab.payloads++;
    return own;
  }

  /** Slabs grow with the queue: most queues hold few tasks. */
  #openSlab(atLeast: number): Slab {
    const slab = { memory: Buffer.allocUnsafeSlow(Math.max(this.#openBytes, atLeast)), used: 0, payloads: 0 };
    this.#openBytes = Math.min(LARGEST_SLAB_BYTES, 2 * this.#openBytes);
    if (this.#open) {
      this.#full ??= new Map();
      this.#full.set(this.#open.memory.buffer, this.#open);
    }
    this.#bytes += slab.memory.byteLength;
    this.#open = slab;
    return slab;
  }

  #forget(slab: Slab): void {
    this.#bytes -= slab.memory.byteLength;
    if (this.#open === slab) this.#open = undefined;
    else this.#full?.delete(slab.memory.buffer);
    if (this.#full?.size === 0) this.#full = undefined;
  }
}
