import {
  givenIn,
  type LeaseToken,
  latin1Of,
  type Pid,
  Refusal,
  type TaskGiven,
  type TaskHeaders,
} from '@taskmaster/engine/domain';
import { limits, type Reason } from '@taskmaster/proto';

/** The place of a field in its request. Its path is built only for a refusal, because that costs more than the check. */
export interface Place {
  /** Name of the repeated field. Undefined: the field is in the request itself. */
  readonly list?: string;
  readonly index?: number;
  readonly field: string;
}

export function pathOf({ list, index, field }: Place): string {
  const item = list === undefined ? undefined : `${list}[${index}]`;
  if (item === undefined) return field;
  return field === '' ? item : `${item}.${field}`;
}

/** Throws a refusal that names the field and, in its metadata, the value and the limit. */
export function refuse(
  reason: Reason,
  place: Place,
  problem: string,
  metadata: Readonly<Record<string, string | number>> = {},
): never {
  const field = pathOf(place);
  const texts = Object.entries(metadata).map(([name, value]) => [name, String(value)]);
  throw new Refusal(reason, `${field} ${problem}`, { metadata: { field, ...Object.fromEntries(texts) } });
}

export const refuseEmptyUpdate = (): never =>
  refuse('EMPTY_REQUEST', { field: 'update' }, 'has no enqueue, dequeue, renew or release');

/** Checks that a value is an integer from `min` to `max`. In-process callers may pass fractions and NaN. */
export function wholeNumber(value: number, place: Place, min: number, max: number, unit = ''): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
  return refuse('INVALID_ARGUMENT', place, `is ${value}: must be a whole number from ${min} to ${max}${unit}`, {
    value,
    min,
    max,
  });
}

/** Checks a duration in whole ms. */
export function duration(valueMs: number, place: Place, minMs: number, maxMs: number): number {
  return wholeNumber(valueMs, place, minMs, maxMs, ' (ms)');
}

/** Checks a lease duration in ms. 0 means the default. */
export function leaseTime(valueMs: number, place: Place): number {
  return duration(valueMs, place, 0, limits.leaseDurationMs);
}

/** Checks a time limit in ms. 0 means that there is none. */
export function timeLimit(valueMs: number, place: Place): number {
  return duration(valueMs, place, 0, limits.timeLimitMs);
}

/** Checks how long after its enqueue a task may start, in ms. Undefined: whenever. */
export function startWithin(valueMs: number | undefined, place: Place): number | undefined {
  return duration(valueMs ?? 0, place, 0, limits.delayMs) || undefined;
}

/** What a task is given. Undefined: nothing. `place`: of the message; its field is what stands before the names of fields. */
export function taskGiven(message: TaskGiven, place: Place): TaskGiven | undefined {
  const given = givenIn(message);
  if (given === undefined) return undefined;
  return {
    timeLimitMs: timeLimit(given.timeLimitMs, fieldOf(place, 'time_limit_ms')),
    limitKey: limitKey(given.limitKey, fieldOf(place, 'limit_key')),
    kind: given.kind && kind(given.kind, fieldOf(place, 'kind')),
  };
}

/** Checks a limit key, or a pattern of such keys. Empty: none. */
export const limitKey = (key: string, place: Place): string => shortText(key, place, limits.limitKeyBytes);

/** Checks a text that must stay the same when it is decoded. */
function shortText(text: string, place: Place, max: number): string {
  if (!text.isWellFormed() || text.includes('\uFFFD')) refuse('INVALID_ARGUMENT', place, 'is not valid UTF-8');
  const bytes = Buffer.byteLength(text);
  if (bytes <= max) return text;
  return refuse('INVALID_ARGUMENT', place, `has ${bytes} bytes: at most ${max}`, { value: bytes, max });
}

const KIND = /^[^\s\p{Cc}*@]+(@[^\s\p{Cc}*@]+)?$/u;

/** Checks the kind of a task. */
function kind(text: string, place: Place): string {
  if (KIND.test(shortText(text, place, limits.kindBytes))) return text;
  const rule = 'a name, or a name, @ and a version, without white space, control characters, * and another @';
  return refuse('INVALID_ARGUMENT', place, `is ${excerpt(text)}: ${rule}`, { value: excerpt(text) });
}

/** Checks a pattern of kinds. The empty one stands for tasks without a kind. */
export function kindPattern(pattern: string, place: Place): string {
  if (pattern === '' || KIND.test(shortText(pattern, place, limits.kindBytes).replaceAll('*', 'x'))) return pattern;
  const rule = 'a kind, in which * stands for any number of characters';
  return refuse('INVALID_ARGUMENT', place, `is ${excerpt(pattern)}: ${rule}`, { value: excerpt(pattern) });
}

const fieldOf = (place: Place, name: string): Place => ({ ...place, field: place.field + name });

/** Refuses a list with more than `max` items. */
export function countAtMost(count: number, place: Place, max: number): void {
  if (count > max) refuse('TOO_MANY_ITEMS', place, `has ${count} items: at most ${max}`, { value: count, limit: max });
}

/**
 * Refuses a text of more than `max` bytes of UTF-8. Returns the text as UTF-8 can store it: in-process callers may pass lone
 * surrogates.
 */
export function textAtMost(text: string, place: Place, max: number): string {
  const bytes = Buffer.byteLength(text);
  if (bytes > max)
    refuse('INVALID_ARGUMENT', place, `has ${bytes} bytes: at most ${max}`, { value: bytes, limit: max });
  return text.toWellFormed();
}

/** Refuses a span that is longer than any: a call that waits keeps it. */
export function checkTraceparent({ traceparent }: { readonly traceparent?: string | undefined }): void {
  if (traceparent !== undefined) textAtMost(traceparent, { field: 'traceparent' }, limits.traceparentBytes);
}

/** Refuses headers that are too many, too large, or not well-formed. Returns them as UTF-8 can store them. */
export function headers(given: Readonly<Record<string, string>>, place: Place): TaskHeaders {
  const keys = Object.keys(given);
  countAtMost(keys.length, place, limits.headers);
  const checked: Record<string, string> = Object.create(null);
  let bytes = 0;
  for (const key of keys) {
    const value = headerValue(given[headerKey(key, place)] ?? '', key, place);
    checked[key] = value;
    bytes += key.length + Buffer.byteLength(value);
  }
  if (bytes > limits.headersBytes) {
    refuse('INVALID_ARGUMENT', place, `have ${bytes} bytes of keys and values: at most ${limits.headersBytes}`, {
      value: bytes,
      limit: limits.headersBytes,
    });
  }
  return checked;
}

/** Checks the key of a header. */
export function headerKey(key: string, place: Place): string {
  if (HEADER_KEY.test(key)) return key;
  const rule = `1 to ${limits.headerKeyBytes} of A-Z, a-z, 0-9, ., _ and -, and a letter or digit first`;
  return refuse('INVALID_ARGUMENT', place, `has the key ${excerpt(key)}: ${rule}`, { value: excerpt(key) });
}

/** Checks the value of a header, or a part of one. Returns it as UTF-8 can store it. */
export function headerValue(value: string, key: string, place: Place): string {
  if (!CONTROL.test(value)) return value.toWellFormed();
  return refuse('INVALID_ARGUMENT', place, `has a control character in the value of ${key}`, { value: excerpt(value) });
}

const HEADER_KEY = new RegExp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,${limits.headerKeyBytes - 1}}$`);
const CONTROL = /\p{Cc}/u;

/**
 * Checks the key of a task. A decoder turns invalid bytes into U+FFFD, so keys with U+FFFD are refused: otherwise two different
 * keys could become one.
 */
export function taskKey(key: string, place: Place): string {
  if (key === '') refuse('INVALID_ARGUMENT', place, `is empty: 1 to ${limits.keyBytes} bytes`);
  if (key.includes('\uFFFD') || !key.isWellFormed()) {
    refuse('INVALID_ARGUMENT', place, 'is not valid UTF-8 or contains U+FFFD');
  }
  return textAtMost(key, place, limits.keyBytes);
}

export function pid(bytes: Uint8Array, place: Place): Pid {
  if (bytes.length === 0) {
    refuse('INVALID_PID', place, `is empty: 1 to ${limits.pidBytes} bytes`, { value: 0, limit: limits.pidBytes });
  }
  return pidOrNone(bytes, place) as Pid;
}

/** Checks a PID that may be missing. Empty means that there is none. */
export function pidOrNone(bytes: Uint8Array, place: Place): Pid | undefined {
  if (bytes.length > limits.pidBytes) {
    refuse('INVALID_PID', place, `has ${bytes.length} bytes: at most ${limits.pidBytes}`, {
      value: bytes.length,
      limit: limits.pidBytes,
    });
  }
  return bytes.length === 0 ? undefined : (latin1Of(bytes) as Pid);
}

/** Checks a lease token. 0 means that there is none. */
export function leaseToken(value: number, place: Place): LeaseToken | undefined {
  wholeNumber(value, place, 0, Number.MAX_SAFE_INTEGER);
  return value === 0 ? undefined : (value as LeaseToken);
}

/** The first characters of a text from a request, in a form that fits into a message. */
export function excerpt(text: string, length = 64): string {
  const short = text.length > length ? `${text.slice(0, length)}…` : text;
  return JSON.stringify(short.toWellFormed());
}
