import { createHash, randomFillSync } from 'node:crypto';

const ID_BYTES = 16;
const POOL_IDS = 256;

/** Random request ids, cut from pools: asking the kernel once for many is several times cheaper. */
export class RequestIds {
  #pool = Buffer.alloc(0);
  #at = 0;

  next(): Uint8Array {
    if (this.#at === this.#pool.byteLength) {
      // A new pool each time: ids of the old one may be waiting for a repetition.
      this.#pool = randomFillSync(Buffer.allocUnsafeSlow(ID_BYTES * POOL_IDS));
      this.#at = 0;
    }
    const start = this.#at;
    this.#at += ID_BYTES;
    return this.#pool.subarray(start, this.#at);
  }
}

/** The id of one of the requests that a caller's call goes in: always the same for the same call and place. */
export function partId(whole: Uint8Array, index: number): Uint8Array {
  return createHash('sha256').update(whole).update(`/${index}`).digest().subarray(0, ID_BYTES);
}
