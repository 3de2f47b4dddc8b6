import {
  type LeaseTasksRequest,
  limits,
  NO_ENTRIES,
  UpdateTasksRequest,
  type WaitForTasksRequest,
} from '@taskmaster/proto';
import { InvalidRequestError } from '../values/errors.ts';

/** Upper bound of numbers, tags and lengths of one item or call. */
const ITEM_BYTES = 64;
/** Upper bound of a part of an update: four numbers up to the limit of items, with their tags. */
const PART_BYTES = 18;
/** Upper bound of the tags and lengths of a header. */
const HEADER_BYTES = 16;
/** Most bytes in UTF-8 for one UTF-16 unit. */
const UTF8_BYTES = 3;

/** Upper bound of the size of an encoded update. It is much cheaper than encoding. */
export function updateSizeBound(request: UpdateTasksRequest): number {
  let bytes = ITEM_BYTES + request.requestId.byteLength + request.parts.length * PART_BYTES;
  for (const { queue, topic, key, pid, data, retry, headers } of request.enqueue) {
    bytes += ITEM_BYTES + (queue.length + topic.length + key.length) * UTF8_BYTES + pid.byteLength + data.byteLength;
    if (headers !== NO_ENTRIES) bytes += headersSizeBound(headers);
    if (retry !== undefined) bytes += ITEM_BYTES + retry.deadLetterQueue.length * UTF8_BYTES;
  }
  for (const { key, result, cancelReason } of request.dequeue) {
    bytes += ((key?.length ?? 0) + (cancelReason?.length ?? 0)) * UTF8_BYTES + (result?.byteLength ?? 0);
  }
  for (const { progress } of request.renew) bytes += (progress?.length ?? 0) * UTF8_BYTES;
  for (const { key, error } of request.release) {
    bytes += (key?.length ?? 0) * UTF8_BYTES;
    if (error !== undefined) bytes += ITEM_BYTES + (error.message.length + error.details.length) * UTF8_BYTES;
  }
  bytes += itemsSizeBound(request.dequeue) + itemsSizeBound(request.renew) + itemsSizeBound(request.release);
  return bytes;
}

/** Upper bound of the size of encoded headers. */
export function headersSizeBound(headers: Readonly<Record<string, string>>): number {
  let bytes = 0;
  for (const key in headers) bytes += HEADER_BYTES + (key.length + (headers[key]?.length ?? 0)) * UTF8_BYTES;
  return bytes;
}

/** Upper bound of the size of an encoded lease request. */
export function leaseSizeBound(request: LeaseTasksRequest): number {
  let bytes = 2 * ITEM_BYTES + request.maxPid.byteLength + request.workerLabel.length * UTF8_BYTES;
  for (const queue of request.queues) bytes += ITEM_BYTES + queue.length * UTF8_BYTES;
  return bytes;
}

/** Upper bound of the size of an encoded wait. */
export function waitSizeBound(request: WaitForTasksRequest): number {
  return ITEM_BYTES + itemsSizeBound(request.tasks);
}

/**
 * Refuses an update above the limits of nodes. In a stream it would break the stream for all other calls.
 * @throws InvalidRequestError
 */
export function assertUpdateFits(request: UpdateTasksRequest): void {
  const items = request.enqueue.length + request.dequeue.length + request.renew.length + request.release.length;
  if (items > limits.updateItems) {
    throw new InvalidRequestError(`the update has ${items} items; the limit is ${limits.updateItems}`, {
      reason: 'TOO_MANY_ITEMS',
      metadata: { field: 'update', value: String(items), limit: String(limits.updateItems) },
    });
  }
  const bytes = UpdateTasksRequest.encode(request).finish().byteLength;
  if (bytes <= limits.requestBytes) return;
  throw new InvalidRequestError(`the update has ${bytes} bytes; the limit is ${limits.requestBytes}`, {
    reason: 'REQUEST_TOO_LARGE',
    metadata: { bytes: String(bytes), limit: String(limits.requestBytes) },
  });
}

function itemsSizeBound(items: readonly { readonly queue: string; readonly pid: Uint8Array }[]): number {
  let bytes = 0;
  for (const { queue, pid } of items) bytes += ITEM_BYTES + queue.length * UTF8_BYTES + pid.byteLength;
  return bytes;
}
