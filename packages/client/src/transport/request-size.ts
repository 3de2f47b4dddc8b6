import {
  ENTRY_BYTES,
  type LeaseTasksRequest,
  limits,
  methods,
  NO_ENTRIES,
  type ReadEventsRequest,
  type StreamCall,
  type TaskLinks,
  type UpdateTasksRequest,
  type WaitForTasksRequest,
} from '@taskmaster/proto';
import { InvalidRequestError } from '../values/errors.ts';

/** Upper bound of numbers, tags and lengths of one item or call, and of the `traceparent` of a call. */
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
  for (const {
    queue,
    topic,
    key,
    limitKey,
    kind = '',
    pid,
    data,
    retry,
    headers,
    links,
    signalId,
  } of request.enqueue) {
    const texts = queue.length + topic.length + key.length + limitKey.length + kind.length;
    bytes += ITEM_BYTES + texts * UTF8_BYTES + pid.byteLength + data.byteLength;
    if (headers !== NO_ENTRIES) bytes += headersSizeBound(headers);
    if (retry !== undefined) bytes += ITEM_BYTES + retry.deadLetterQueue.length * UTF8_BYTES;
    if (links !== undefined) bytes += linksSizeBound(links);
    if (signalId !== undefined) bytes += signalId.length * UTF8_BYTES;
  }
  for (const { key, result, cancelReason } of request.dequeue) {
    bytes += ((key?.length ?? 0) + (cancelReason?.length ?? 0)) * UTF8_BYTES + (result?.byteLength ?? 0);
  }
  for (const { progress, checkpoint } of request.renew) {
    bytes += (progress?.length ?? 0) * UTF8_BYTES + (checkpoint?.byteLength ?? 0);
  }
  for (const { key, error } of request.release) {
    bytes += (key?.length ?? 0) * UTF8_BYTES;
    if (error !== undefined) bytes += ITEM_BYTES + (error.message.length + error.details.length) * UTF8_BYTES;
  }
  bytes += itemsSizeBound(request.dequeue) + itemsSizeBound(request.renew) + itemsSizeBound(request.release);
  return bytes;
}

/** Upper bound of the size of encoded links. */
function linksSizeBound({ parents, orderKey }: TaskLinks): number {
  let bytes = 2 * ITEM_BYTES + orderKey.length * UTF8_BYTES;
  for (const { queue, pid, key } of parents) {
    bytes += ITEM_BYTES + (queue.length + key.length) * UTF8_BYTES + pid.byteLength;
  }
  return bytes;
}

/** Upper bound of the size of encoded headers. */
export function headersSizeBound(headers: Readonly<Record<string, string>>): number {
  let bytes = 0;
  for (const key in headers) bytes += HEADER_BYTES + (key.length + (headers[key]?.length ?? 0)) * UTF8_BYTES;
  return bytes;
}

/** Upper bound of the size of an encoded lease request. */
function leaseSizeBound(request: LeaseTasksRequest): number {
  let bytes = 2 * ITEM_BYTES + request.maxPid.byteLength + request.workerLabel.length * UTF8_BYTES;
  for (const queue of request.queues) bytes += ITEM_BYTES + queue.length * UTF8_BYTES;
  for (const { nameRegex, group = '' } of request.patterns) {
    bytes += ITEM_BYTES + (nameRegex.length + group.length) * UTF8_BYTES;
  }
  for (const pattern of request.kinds?.patterns ?? []) bytes += ITEM_BYTES + pattern.length * UTF8_BYTES;
  return bytes;
}

/** Upper bound of the size of an encoded read of events. */
const readSizeBound = ({ queues, after, task }: ReadEventsRequest): number =>
  2 * ITEM_BYTES + (queues.length + after.length + (task?.value.length ?? 0)) * UTF8_BYTES + limits.eventKinds;

/** Upper bound of what a task adds to the size of an encoded wait. */
export const awaitedSizeBound = ({ queue, pid }: Item): number =>
  ITEM_BYTES + queue.length * UTF8_BYTES + pid.byteLength;

/** Largest request that a message of a stream can carry, in bytes. */
const STREAMED_BYTES = limits.requestBytes - ENTRY_BYTES;

/** A call over a stream. */
export type StreamedRequest = Exclude<NonNullable<StreamCall['call']>, { readonly $case: 'cancel' }>;

/**
 * Upper bound of the size of an encoded request, in bytes. Undefined: it does not fit into a message, so it must be a unary call.
 * @throws InvalidRequestError if it is above the limits of nodes. It would break the stream for all other calls.
 */
export function streamedSize(call: StreamedRequest): number | undefined {
  switch (call.$case) {
    case 'update':
      return updateSize(call.value);
    case 'lease':
      return leaseSizeBound(call.value);
    case 'wait':
      return waitSize(call.value);
    case 'events':
      return readSize(call.value);
  }
}

function updateSize(request: UpdateTasksRequest): number | undefined {
  const bound = updateSizeBound(request);
  if (bound <= STREAMED_BYTES) return bound;
  const items = request.enqueue.length + request.dequeue.length + request.renew.length + request.release.length;
  if (items > limits.updateItems) {
    throw new InvalidRequestError(`the update has ${items} items; the limit is ${limits.updateItems}`, {
      reason: 'TOO_MANY_ITEMS',
      metadata: { field: 'update', value: String(items), limit: String(limits.updateItems) },
    });
  }
  return measured('the update', methods.updateTasks.requestSerialize(request));
}

function waitSize(request: WaitForTasksRequest): number | undefined {
  const bound = ITEM_BYTES + itemsSizeBound(request.tasks);
  return bound <= STREAMED_BYTES ? bound : measured('the wait', methods.waitForTasks.requestSerialize(request));
}

/** Nodes refuse larger ones. */
function readSize(request: ReadEventsRequest): number | undefined {
  const bound = readSizeBound(request);
  return request.kinds.length <= limits.eventKinds && bound <= STREAMED_BYTES ? bound : undefined;
}

function measured(what: string, { byteLength: bytes }: Uint8Array): number | undefined {
  if (bytes <= limits.requestBytes) return bytes <= STREAMED_BYTES ? bytes : undefined;
  throw new InvalidRequestError(`${what} has ${bytes} bytes; the limit is ${limits.requestBytes}`, {
    reason: 'REQUEST_TOO_LARGE',
    metadata: { bytes: String(bytes), limit: String(limits.requestBytes) },
  });
}

interface Item {
  readonly queue: string;
  readonly pid: Uint8Array;
}

function itemsSizeBound(items: readonly Item[]): number {
  let bytes = 0;
  for (const item of items) bytes += awaitedSizeBound(item);
  return bytes;
}
