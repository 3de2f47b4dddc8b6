import type { UpdateTasksRequest } from '@taskmaster/proto';

const NO_BYTES = new Uint8Array(0);

/** An update to be filled. */
export function emptyRequest(): UpdateTasksRequest {
  return { enqueue: [], dequeue: [], renew: [], release: [], requestId: NO_BYTES };
}
