import { createHash, randomFillSync } from 'node:crypto';
import { type Enqueue, encodeToBuffer, UpdateTasksRequest } from '@taskmaster/proto';
import type { UpdateOptions } from '../values/options.ts';

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

const NO_BYTES = new Uint8Array(0);

/** An update without items. */
export function emptyRequest(): UpdateTasksRequest {
  return { enqueue: [], dequeue: [], renew: [], release: [], requestId: NO_BYTES, parts: [], traceparent: undefined };
}

/** An update that only enqueues, as bytes that can be kept. */
export const encodeEnqueues = (enqueue: Enqueue[], requestId: Uint8Array): Uint8Array =>
  encodeToBuffer(UpdateTasksRequest, { ...emptyRequest(), enqueue, requestId });

/** What was encoded, and nothing else. @throws if the bytes are no update. */
export function decodeEnqueues(bytes: Uint8Array): UpdateTasksRequest {
  const { enqueue, requestId } = UpdateTasksRequest.decode(bytes);
  return { ...emptyRequest(), enqueue, requestId };
}

/** The request id of the options. Undefined: none is given. @throws TypeError if it is empty. */
export function requestIdOf({ requestId }: UpdateOptions): Uint8Array | undefined {
  if (requestId === undefined) return undefined;
  if (requestId.length === 0) throw new TypeError('requestId: must not be empty');
  return typeof requestId === 'string' ? Buffer.from(requestId, 'utf8') : requestId;
}
