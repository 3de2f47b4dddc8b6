import { bytesFromText, isMarked, limits, pidText } from '@taskmaster/proto';
import { messageOf } from './thrown.ts';

export { pidText };

/**
 * Priority ID: 1 to 4096 bytes that identify a task in its queue and order it, bytewise, lowest first. `pidText` is its text
 * form, `pidFromText` reads this form, `comparePids` compares PIDs.
 */
export type Pid = Uint8Array;

/** A PID as an argument: bytes, or text in UTF-8. Read the text form of `pidText` with `pidFromText` first. */
export type PidLike = string | Uint8Array;

/** A part of a PID, for `pidOf`. */
export type PidPart = number | Date | string | Uint8Array;

const NUMBER_BYTES = 8;
const ESCAPE = 0xff;
const loneSurrogate = /\p{Surrogate}/u;

/** The bytes of a PID. @throws TypeError for no bytes, for more than 4096 bytes, or for text with a lone surrogate. */
export function pidBytes(pid: PidLike): Pid {
  const bytes = typeof pid === 'string' ? utf8(pid) : pid;
  if (!(bytes instanceof Uint8Array)) throw new TypeError('a PID is a string or a Uint8Array');
  if (bytes.byteLength === 0) throw new TypeError('a PID has at least one byte');
  if (bytes.byteLength > limits.pidBytes) {
    throw new TypeError(`a PID has at most ${limits.pidBytes} bytes, and this one has ${bytes.byteLength}`);
  }
  return bytes;
}

/**
 * Makes a PID with the order of its value: numbers by value, dates by time, strings by code point, bytes bytewise, tuples by
 * their first part, then by their second part, and so on. Compare only PIDs with the same types of parts.
 *
 *     pidOf('invoice-17')           // the text
 *     pidOf(new Date())             // by time, on the client's clock
 *     pidOf([9 - urgency, orderId]) // most urgent first
 *
 * @throws TypeError for NaN, an invalid date, an empty tuple, or a result that is empty or longer than 4096 bytes.
 */
export function pidOf(value: PidPart | readonly [PidPart, ...PidPart[]]): Pid {
  if (!isTuple(value)) return pidBytes(partBytes(value));
  if (value.length === 0) throw new TypeError('a PID is made of at least one part');
  // Parts before the last one are terminated, so that the next part does not influence their order.
  return pidBytes(Buffer.concat(value.map((part, at) => (at === value.length - 1 ? partBytes(part) : inner(part)))));
}

/** Order of PIDs: negative if `a` is leased before `b`, 0 if they are equal. */
export function comparePids(a: PidLike, b: PidLike): number {
  return Buffer.compare(pidBytes(a), pidBytes(b));
}

/**
 * Reads the text form of a PID, as `pidText` writes it. Text without `hex:` or `base64:` is the PID in UTF-8.
 * @throws TypeError as `pidBytes`, and for malformed text after `hex:` or `base64:`.
 */
export function pidFromText(text: string): Pid {
  if (!isMarked(text)) return pidBytes(text);
  let bytes: Pid;
  try {
    bytes = bytesFromText(text);
  } catch (cause) {
    const why = messageOf(cause);
    throw new TypeError(`${why}; the PID with this text is written ${pidText(utf8(text))}`, { cause });
  }
  return pidBytes(bytes);
}

function utf8(text: string): Buffer {
  const bytes = Buffer.from(text, 'utf8');
  // UTF-8 cannot encode a lone surrogate, and different texts would become one PID. ASCII text has none.
  if (bytes.byteLength !== text.length && loneSurrogate.test(text)) {
    throw new TypeError('the text of a PID must be well-formed: it has a lone surrogate');
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
    throw new TypeError('a part of a PID must be a number, a date, a string or bytes, but not NaN or an invalid date');
  }
  return numberBytes(number);
}

/**
 * The bits of IEEE 754 doubles are sign and magnitude. With the sign bit of positive numbers set, and all bits of negative
 * numbers inverted, the order of the bytes is the order of the numbers.
 */
function numberBytes(number: number): Buffer {
  const bytes = Buffer.allocUnsafe(NUMBER_BYTES);
  bytes.writeDoubleBE(number + 0); // + 0 turns -0 into 0
  const first = bytes.readUInt8(0);
  if (first < 0x80) bytes.writeUInt8(first | 0x80, 0);
  else for (let i = 0; i < NUMBER_BYTES; i++) bytes.writeUInt8(bytes.readUInt8(i) ^ 0xff, i);
  return bytes;
}

/** A part before the last: a zero byte becomes 00 FF, and 00 00 ends the part. So a prefix sorts before longer parts. */
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
