import type { UpdateTasksRequest } from '@taskmaster/proto';
import type { UpdateOptions } from '../values/options.ts';

const NO_BYTES = new Uint8Array(0);

/** An update without items. */
export function emptyRequest(): UpdateTasksRequest {
  return { enqueue: [], dequeue: [], renew: [], release: [], requestId: NO_BYTES, parts: [] };
}

/** The request id of the options. Undefined: none is given. @throws TypeError if it is empty. */
export function requestIdOf({ requestId }: UpdateOptions): Uint8Array | undefined {
  if (requestId === undefined) return undefined;
  if (requestId.length === 0) throw new TypeError('requestId: must not be empty');
  return typeof requestId === 'string' ? Buffer.from(requestId, 'utf8') : requestId;
}
