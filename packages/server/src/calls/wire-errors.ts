import { Metadata, status as Status } from '@grpc/grpc-js';
import { METADATA_VALUE_CHARACTERS, Refusal, type RefusedItem, UpdateRefusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import {
  type Any,
  BadRequest,
  ERROR_DOMAIN,
  ErrorInfo,
  encodeToBuffer,
  formatQueueName,
  type ItemRefusal,
  isReason,
  isTransient,
  RetryInfo,
  Status as RichStatus,
  statusOfReason,
  UpdateRefused,
  type Error as WireError,
} from '@taskmaster/proto';
import type { CallFields } from './call-fields.ts';

// This file turns every thrown value into a status, for all transports.

/**
 * Size limit of the details of a status, in bytes. Message and details travel in HTTP/2 trailers, which gRPC implementations
 * limit to 8 KiB, with the details as base64. Items that do not fit are left out. The reason always fits.
 */
const DETAILS_BYTES = 4096;
const MESSAGE_CHARACTERS = 512;
/** Size limit of items in answers that are messages, in bytes. It keeps a message below 4 MiB, the limit of clients. */
const WIRE_ITEMS_BYTES = 256 * 1024;
/** Longer PIDs are left out of items in trailers. Kind and index still identify the item. */
const TRAILER_PID_BYTES = 512;

/** The usual trailer of gRPC for the details of an error. */
const DETAILS_TRAILER = 'grpc-status-details-bin';

/** Retry delay of a refusal that names none, in ms. */
const DEFAULT_RETRY_DELAY_MS = 200;

/** The status of a call, in the format of grpc-js. */
export interface CallStatus {
  readonly code: number;
  readonly details: string;
  readonly metadata: Metadata;
}

/** A refusal of another node, forwarded unchanged. */
export class RelayedRefusal extends Refusal {
  override readonly name = 'RelayedRefusal';
  readonly error: WireError;

  constructor(error: WireError) {
    // A reason that this program does not know is forwarded too. Only the metrics of this program count it as INTERNAL.
    super(isReason(error.reason) ? error.reason : 'INTERNAL', error.message, { metadata: error.metadata });
    this.error = error;
  }
}

/**
 * Turns a thrown value into a refusal. Bugs are logged here, with their stack, and nowhere else.
 * @param fields of the call, for the log.
 */
export function refusalOf(thrown: unknown, log: Log, fields?: () => CallFields): Refusal {
  if (thrown instanceof Refusal) {
    // A forwarded refusal is in the log of the node that made it.
    if (thrown.reason === 'INTERNAL' && !(thrown instanceof RelayedRefusal))
      log.error({ err: thrown, ...fields?.() }, 'a request failed');
    return thrown;
  }
  if (thrown instanceof Error && thrown.name === 'AbortError')
    return new Refusal('CANCELLED', 'the call was cancelled');
  log.error({ err: thrown, ...fields?.() }, 'a request failed for a reason that is not its own');
  return new Refusal('INTERNAL', 'the node failed to serve the request; its log says why', { cause: thrown });
}

/** The refusal as the status of a unary call. */
export function toCallStatus(refusal: Refusal): CallStatus {
  const error = toWireError(refusal);
  const metadata = new Metadata();
  metadata.set(DETAILS_TRAILER, encodeToBuffer(RichStatus, richStatusOf(refusal, error)));
  return { code: error.code, details: error.message, metadata };
}

/** The encoded details of a refusal in the trailers of a call. Undefined if there are none. */
export function detailsIn(trailers: Metadata): Buffer | undefined {
  const [details] = trailers.get(DETAILS_TRAILER);
  return Buffer.isBuffer(details) ? details : undefined;
}

/** The refusal as an answer in a batch, in a stream or in process. `itemsBytes` limits the list of items at fault. */
export function toWireError(refusal: Refusal, itemsBytes: number = WIRE_ITEMS_BYTES): WireError {
  if (refusal instanceof RelayedRefusal) {
    return { ...refusal.error, items: itemsWithin(refusal.error.items, itemsBytes) };
  }
  const items = refusal instanceof UpdateRefusal ? refusal.items : [];
  return {
    code: statusOfReason[refusal.reason],
    reason: refusal.reason,
    message: shortened(refusal.message, MESSAGE_CHARACTERS),
    metadata: shortenedValues(refusal.metadata, items.length),
    retryDelayMs: retryDelayOf(refusal),
    items: itemsWithin(items.map(toItem), itemsBytes),
  };
}

function richStatusOf(refusal: Refusal, error: WireError): RichStatus {
  const details: Any[] = [
    detail('google.rpc.ErrorInfo', ErrorInfo, {
      reason: error.reason,
      domain: ERROR_DOMAIN,
      metadata: error.metadata,
    }),
  ];
  if (error.retryDelayMs > 0) {
    const retryDelay = { seconds: Math.floor(error.retryDelayMs / 1000), nanos: (error.retryDelayMs % 1000) * 1e6 };
    details.push(detail('google.rpc.RetryInfo', RetryInfo, { retryDelay }));
  }
  const { field } = refusal.metadata;
  if (error.code === Status.INVALID_ARGUMENT && field !== undefined) {
    const fieldViolations = [{ field: shortened(field, 256), description: shortened(error.message, 256) }];
    details.push(detail('google.rpc.BadRequest', BadRequest, { fieldViolations }));
  }
  if (error.items.length > 0) {
    const used = details.reduce((bytes, { value, typeUrl }) => bytes + value.length + typeUrl.length, 0);
    const items = itemsWithin(error.items.map(withoutLongPid), DETAILS_BYTES - used - error.message.length);
    details.push(detail('taskmaster.v1.UpdateRefused', UpdateRefused, { items }));
  }
  // A long message is shortened here, because it is in grpc-message too.
  return { code: error.code, message: shortened(error.message, 256), details };
}

function detail<T>(name: string, type: Parameters<typeof encodeToBuffer<T>>[0], value: T): Any {
  return { typeUrl: `type.googleapis.com/${name}`, value: encodeToBuffer(type, value) };
}

function toItem(item: RefusedItem): ItemRefusal {
  const { kind, index, reason } = item;
  const [queue, pid] = [formatQueueName(item.queue), Buffer.from(item.pid, 'latin1')];
  return { kind, index, queue, pid, reason, key: item.key ?? '' };
}

function withoutLongPid(item: ItemRefusal): ItemRefusal {
  return item.pid.length > TRAILER_PID_BYTES ? { ...item, pid: Buffer.alloc(0) } : item;
}

/** The longest prefix of the items that fits, at least one item. */
function itemsWithin(items: readonly ItemRefusal[], bytes: number): ItemRefusal[] {
  let left = bytes;
  const fitting = items.findIndex((item) => {
    left -= item.pid.length + 3 * item.key.length + item.queue.length + item.reason.length + 24;
    return left < 0;
  });
  return fitting < 0 ? [...items] : items.slice(0, Math.max(1, fitting));
}

function retryDelayOf({ reason, retryDelayMs }: Refusal): number {
  if (retryDelayMs !== undefined) return Math.max(1, Math.ceil(retryDelayMs));
  return isTransient(reason) ? DEFAULT_RETRY_DELAY_MS : 0;
}

function shortenedValues(metadata: Readonly<Record<string, string>>, items: number): Record<string, string> {
  const short: Record<string, string> = {};
  for (const [name, value] of Object.entries(metadata)) short[name] = shortened(value, METADATA_VALUE_CHARACTERS);
  // The number of all items, because not all of them may fit.
  if (items > 0) short.items = String(items);
  return short;
}

/** Shortens a text to a number of characters and makes it well-formed: a header cannot contain half a surrogate pair. */
function shortened(text: string, characters: number): string {
  return (text.length > characters ? `${text.slice(0, characters - 1)}…` : text).toWellFormed();
}
