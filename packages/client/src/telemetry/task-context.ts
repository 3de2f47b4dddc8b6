import {
  type Context,
  context,
  createContextKey,
  diag,
  propagation,
  type SpanContext,
  trace,
} from '@opentelemetry/api';
import { type Enqueue, limits, NO_ENTRIES } from '@taskmaster/proto';

type Headers = Readonly<Record<string, string>>;

/** Keys and values that nodes accept. */
const KEY = new RegExp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,${limits.headerKeyBytes - 1}}$`);
const CONTROL = /\p{Cc}/u;
/** Most bytes that the lengths of one header take in a request or on disk. */
const FRAME_BYTES = 8;

const RECEIVED = createContextKey('taskmaster.received-headers');
const CALL = createContextKey('taskmaster.batch-call');

/** A context in which a task with these headers is worked on. `call`: by this call of a handler of batches. */
export function working(within: Context, headers: Headers, call?: SpanContext): Context {
  const own = within.setValue(RECEIVED, headers);
  return call === undefined ? own : own.setValue(CALL, call);
}

/** The call of a handler of batches. */
export const callIn = (within: Context): SpanContext | undefined => within.getValue(CALL) as SpanContext | undefined;

/**
 * The context that the headers of a task carry, as the user's propagator reads it. What is active stays, apart from its span. A
 * propagator that fails must not fail the task.
 */
export function contextOf(headers: Headers): Context {
  const without = trace.deleteSpan(context.active());
  if (headers === NO_ENTRIES) return without;
  try {
    return propagation.extract(without, headers);
  } catch (error) {
    diag.warn('taskmaster: the context in the headers of a task cannot be read', error);
    return without;
  }
}

/** The span that has enqueued the task. Undefined: the headers name none. */
export const spanOf = (headers: Headers): SpanContext | undefined => trace.getSpanContext(contextOf(headers));

/**
 * Writes a context into the headers of new tasks. A task goes without it if it does not fit into the limits of its headers and
 * its payload, or if the user has given it a context: headers of users stay as they are. Only what was received with the task
 * that is worked on, and is passed on, is renewed.
 * @param room bytes that the request has left. If the context of all tasks does not fit, none gets it.
 * @returns the spans that users have given.
 */
export function inject(within: Context, items: readonly Enqueue[], room: number): readonly SpanContext[] {
  const carrier: Record<string, string> = {};
  propagation.inject(within, carrier);
  const keys = Object.keys(carrier);
  const isSound = keys.every((key) => KEY.test(key) && !CONTROL.test(carrier[key] ?? ''));
  if (keys.length === 0 || !isSound || sizeOf(carrier) * items.length > room) return [];
  const received = within.getValue(RECEIVED) as Headers | undefined;
  const given: SpanContext[] = [];
  for (const item of items) {
    const { headers } = item;
    if (keys.some((key) => isOwn(headers, key, received))) {
      const span = spanOf(headers);
      if (span !== undefined) given.push(span);
      continue;
    }
    const all = { ...headers, ...carrier };
    if (fits(all, item.data.byteLength)) item.headers = all;
  }
  return given;
}

/** Writes the context that is active into the headers of a task that another program will enqueue. */
export function injectActive(item: Enqueue): void {
  inject(context.active(), [item], Number.POSITIVE_INFINITY);
}

const isOwn = (headers: Headers, key: string, received: Headers | undefined): boolean =>
  headers[key] !== undefined && headers[key] !== received?.[key];

function sizeOf(headers: Headers): number {
  let bytes = 0;
  for (const key in headers) bytes += FRAME_BYTES + key.length + Buffer.byteLength(headers[key] ?? '');
  return bytes;
}

function fits(headers: Headers, dataBytes: number): boolean {
  const count = Object.keys(headers).length;
  const bytes = sizeOf(headers);
  const isWithin = bytes - count * FRAME_BYTES <= limits.headersBytes && dataBytes + bytes <= limits.dataBytes;
  return count <= limits.headers && isWithin;
}
