import { Metadata, status as Status } from '@grpc/grpc-js';
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
import { METADATA_VALUE_CHARACTERS, Refusal, type RefusedItem, UpdateRefusal } from '../domain/refusal.ts';
import type { Log } from '../ports/log.ts';

/**
 * Where errors become statuses: every thrown value passes here once, whichever way its answer travels.
 *
 * A status travels in HTTP/2 trailers, which gRPC implementations bound at 8 KiB, message and details together (the
 * details as base64). What does not fit is left out, the reason never.
 */
const DETAILS_BYTES = 4096;
const MESSAGE_CHARACTERS = 512;
/** Answers in streams and processes are messages: there the bound only keeps them below the 4 MiB a client takes. */
const WIRE_ITEMS_BYTES = 256 * 1024;
/** Longer PIDs are left out of the items in trailers; kind and index tell which item is meant. */
const TRAILER_PID_BYTES = 512;

/** Carries what there is to say of a refusal, as gRPC implementations agree to. */
const DETAILS_TRAILER = 'grpc-status-details-bin';

/** How long to wait before trying again when the refusal does not say, in ms. */
const DEFAULT_RETRY_DELAY_MS = 200;

/** The status of a call, as grpc-js takes it. */
export interface CallStatus {
  readonly code: number;
  readonly details: string;
  readonly metadata: Metadata;
}

/** What another node refused, passed on as it came. */
export class RelayedRefusal extends Refusal {
  override readonly name = 'RelayedRefusal';
  readonly error: WireError;

  constructor(error: WireError) {
    // A reason that is newer than this program travels on all the same; only its own metrics count it as INTERNAL.
    super(isReason(error.reason) ? error.reason : 'INTERNAL', error.message, { metadata: error.metadata });
    this.error = error;
  }
}

/** What was thrown, as a refusal. Faults of ours are logged here, with their stacks, and nowhere else. */
export function refusalOf(thrown: unknown, log: Log): Refusal {
  if (thrown instanceof Refusal) {
    // One that was passed on is in the log of the node that said it.
    if (thrown.reason === 'INTERNAL' && !(thrown instanceof RelayedRefusal))
      log.error({ err: thrown }, 'a request failed');
    return thrown;
  }
  if (thrown instanceof Error && thrown.name === 'AbortError') return new Refusal('CANCELLED', 'the call was given up');
  log.error({ err: thrown }, 'a request failed for a reason that is not its own');
  return new Refusal('INTERNAL', 'the node failed to serve the request; its log says why', { cause: thrown });
}

/** The refusal as the answer to a call of its own. */
export function toCallStatus(refusal: Refusal): CallStatus {
  const error = toWireError(refusal);
  const metadata = new Metadata();
  metadata.set(DETAILS_TRAILER, encodeToBuffer(RichStatus, richStatusOf(refusal, error)));
  return { code: error.code, details: error.message, metadata };
}

/** A refusal's details as they are among a call's trailers; undefined where there are none. */
export function detailsIn(trailers: Metadata): Buffer | undefined {
  const [details] = trailers.get(DETAILS_TRAILER);
  return Buffer.isBuffer(details) ? details : undefined;
}

/** The refusal as an answer in a batch, a stream or a process; `itemsBytes` bounds the list of items at fault. */
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
  // The message is in grpc-message already; a long one would be paid for twice.
  return { code: error.code, message: shortened(error.message, 256), details };
}

function detail<T>(name: string, type: Parameters<typeof encodeToBuffer<T>>[0], value: T): Any {
  return { typeUrl: `type.googleapis.com/${name}`, value: encodeToBuffer(type, value) };
}

function toItem(item: RefusedItem): ItemRefusal {
  const { kind, index, reason } = item;
  return { kind, index, queue: formatQueueName(item.queue), pid: Buffer.from(item.pid, 'latin1'), reason };
}

function withoutLongPid(item: ItemRefusal): ItemRefusal {
  return item.pid.length > TRAILER_PID_BYTES ? { ...item, pid: Buffer.alloc(0) } : item;
}

/** The first items that fit, at least one. */
function itemsWithin(items: readonly ItemRefusal[], bytes: number): ItemRefusal[] {
  let left = bytes;
  const fitting = items.findIndex((item) => {
    left -= item.pid.length + item.queue.length + item.reason.length + 24;
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
  // Not all items may fit; this says how many there were.
  if (items > 0) short.items = String(items);
  return short;
}

/** At most so many characters, and well-formed: half a surrogate pair cannot be put into a header. */
function shortened(text: string, characters: number): string {
  return (text.length > characters ? `${text.slice(0, characters - 1)}…` : text).toWellFormed();
}
