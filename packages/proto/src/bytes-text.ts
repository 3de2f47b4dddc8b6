import { isUtf8 } from 'node:buffer';

/*
 * Bytes as text, where text has to stand for them: on a command line, in an environment, in JSON, in a log. UTF-8 is
 * written as it is, other bytes behind a marker.
 */
const HEX = 'hex:';
const BASE64 = 'base64:';

/** Characters that a terminal does not show, that look like a space but are none, or that end a line. */
const INVISIBLE = /[\p{C}\p{Z}]/u;

/**
 * The text form of a PID, for people and programs: its text where that can be seen, typed and copied as it is, else
 * `hex:` and its bytes. A text that begins with a marker, or with the `-` of an option, is written in hexadecimal digits
 * as well, and so is one with a space at an end. `bytesFromText` reads every result back.
 */
export function pidText(pid: Uint8Array): string {
  const bytes = Buffer.from(pid.buffer, pid.byteOffset, pid.byteLength);
  const text = isUtf8(bytes) ? bytes.toString('utf8') : undefined;
  return text !== undefined && isPlain(text) ? text : HEX + bytes.toString('hex');
}

/** Whether a text stands for other bytes than its own. */
export function isMarked(text: string): boolean {
  return text.startsWith(HEX) || text.startsWith(BASE64);
}

/**
 * The bytes that a text stands for: `hex:...`, `base64:...`, or its UTF-8. @throws TypeError for what no bytes are written as.
 */
export function bytesFromText(text: string): Buffer {
  if (text.startsWith(HEX)) {
    const digits = text.slice(HEX.length);
    if (!/^(?:[0-9a-f]{2})*$/i.test(digits)) throw malformed(text, 'pairs of hexadecimal digits');
    return Buffer.from(digits, 'hex');
  }
  if (text.startsWith(BASE64)) {
    const digits = text.slice(BASE64.length);
    const bytes = Buffer.from(digits, 'base64');
    // Decoding skips what is not base64.
    if (bytes.toString('base64') !== digits) throw malformed(text, 'base64, with its padding');
    return bytes;
  }
  return Buffer.from(text, 'utf8');
}

/** Bytes behind the marker for long ones. */
export function base64Text(bytes: Uint8Array): string {
  return BASE64 + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

function isPlain(text: string): boolean {
  if (isMarked(text) || text.startsWith('-') || text !== text.trim()) return false;
  return !INVISIBLE.test(text.replaceAll(' ', ''));
}

function malformed(text: string, wanted: string): TypeError {
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text;
  return new TypeError(`'${shown}' does not go on with ${wanted}`);
}
