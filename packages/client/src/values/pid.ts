import { bytesFromText, isMarked, limits, pidText } from '@taskmaster/proto';

export { pidText };

/**
 * Priority-id: 1 to 4096 bytes that name a task within its queue and order it, bytewise, lowest first. `pidText` shows it,
 * `pidFromText` reads what was shown, `comparePids` compares.
 */
export type Pid = Uint8Array;

/** A PID as callers may write it: bytes, or text that stands for its UTF-8. What `pidText` made is read by `pidFromText`. */
export type PidLike = string | Uint8Array;

/** What an ordered PID can be made of. */
export type PidPart = number | Date | string | Uint8Array;

const NUMBER_BYTES = 8;
const ESCAPE = 0xff;
const loneSurrogate = /\p{Surrogate}/u;

/** The bytes of a PID. @throws TypeError when there are none, more than 4096, or the text is not well-formed. */
export function pidBytes(pid: PidLike): Pid {
  const bytes = typeof pid === 'string' ? utf8(pid) : pid;
  if (!(bytes instanceof Uint8Array)) throw new TypeError('a PID is a string or a Uint8Array');
  if (bytes.byteLength === 0) throw new TypeError('a PID has at least one byte');
  if (bytes.byteLength > limits.pidBytes) {
    throw new TypeError(`a PID has at most ${limits.pidBytes} bytes, this one ${bytes.byteLength}`);
  }
  return bytes;
}

/**
 * Makes a PID whose order is the order of what it is made of: numbers by value, dates by time, strings by code point,
 * bytes bytewise, tuples by their first part, then by their second, and so on. PIDs are comparable when they are made
 * of the same kinds of parts in the same places.
 *
 *     pidOf('invoice-17')           // the text itself
 *     pidOf(new Date())             // first come, first served, by the client's clock
 *     pidOf([9 - urgency, orderId]) // most urgent first
 *
 * @throws TypeError for NaN, an invalid date, an empty tuple, or a result that is empty or longer than 4096 bytes.
 */
export function pidOf(value: PidPart | readonly [PidPart, ...PidPart[]]): Pid {
  if (!isTuple(value)) return pidBytes(partBytes(value));
  if (value.length === 0) throw new TypeError('a PID is made of at least one part');
  // What follows a part of variable length must not take part in its order, so all but the last one are terminated.
  return pidBytes(Buffer.concat(value.map((part, at) => (at === value.length - 1 ? partBytes(part) : inner(part)))));
}

/** Order of PIDs: negative when `a` is leased before `b`, 0 when they are the same. */
export function comparePids(a: PidLike, b: PidLike): number {
  return Buffer.compare(pidBytes(a), pidBytes(b));
}

/**
 * Reads the text form of a PID, as `pidText` and everything else that shows PIDs write it. Text that does not begin with
 * `hex:` or `base64:` stands for its UTF-8.
 * @throws TypeError as `pidBytes`, and when something else follows the marker.
 */
export function pidFromText(text: string): Pid {
  if (!isMarked(text)) return pidBytes(text);
  let bytes: Pid;
  try {
    bytes = bytesFromText(text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new TypeError(`${why}; the PID of that very text is written ${pidText(utf8(text))}`, { cause });
  }
  return pidBytes(bytes);
}

function utf8(text: string): Buffer {
  const bytes = Buffer.from(text, 'utf8');
  // Only text that is not ASCII can hold what UTF-8 cannot say, and what would make two texts one PID.
  if (bytes.byteLength !== text.length && loneSurrogate.test(text)) {
    throw new TypeError('a PID is well-formed text: it has a lone surrogate');
  }
  return bytes;
}

function isTuple(value: PidPart | readonly PidPart[]): value is readonly PidPart[] {
  return Array.isArray(value);
}

function partBytes(part: PidPart): Uint8Array {
  if (typeof part === 'string') return utf8(part);
  if (part instanceof Uint8Array) return part;
  const number = part instanceof Date ? part.getTime() : part;
  if (typeof number !== 'number' || Number.isNaN(number)) {
    throw new TypeError('a PID is made of numbers, dates, strings and bytes; not of NaN or an invalid date');
  }
  return numberBytes(number);
}

/**
 * IEEE 754 doubles order like their bits read as sign and magnitude: setting the sign bit of the positive ones and
 * inverting the negative ones makes that the order of the bytes.
 */
function numberBytes(number: number): Buffer {
  const bytes = Buffer.allocUnsafe(NUMBER_BYTES);
  bytes.writeDoubleBE(number + 0); // + 0: there is one zero, not -0 before 0
  const first = bytes.readUInt8(0);
  if (first < 0x80) bytes.writeUInt8(first | 0x80, 0);
  else for (let i = 0; i < NUMBER_BYTES; i++) bytes.writeUInt8(bytes.readUInt8(i) ^ 0xff, i);
  return bytes;
}

/** Zero bytes are written as 00 FF; 00 00 ends the part, and is below everything a longer part can go on with. */
function inner(part: PidPart): Uint8Array {
  const bytes = partBytes(part);
  if (typeof part !== 'string' && !(part instanceof Uint8Array)) return bytes;
  const escaped: number[] = [];
  for (const byte of bytes) {
    escaped.push(byte);
    if (byte === 0) escaped.push(ESCAPE);
  }
  escaped.push(0, 0);
  return Uint8Array.from(escaped);
}
