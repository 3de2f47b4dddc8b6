import { createHash, randomFillSync } from 'node:crypto';

const ID_BYTES = 16;
const POOL_IDS = 256;

/** Random request ids. They come from pools, because one call to the kernel for many ids is several times cheaper. */
export class RequestIds {
  #pool = Buffer.alloc(0);
  #at = 0;

  next(): Uint8Array {
    if (this.#at === this.#pool.byteLength) {
      // A new buffer, because calls that may be repeated still use ids of the old one.
      this.#pool = randomFillSync(Buffer.allocUnsafeSlow(ID_BYTES * POOL_IDS));
      this.#at = 0;
    }
    const start = this.#at;
    this.#at += ID_BYTES;
    return this.#pool.subarray(start, this.#at);
  }
}

/** The request id of one part of a call. The same call and index always have the same id. */
export function partId(whole: Uint8Array, index: number): Uint8Array {
  return createHash('sha256').update(whole).update(`/${index}`).digest().subarray(0, ID_BYTES);
}
