import { isUtf8 } from 'node:buffer';

/*
 * Text forms of bytes, for the command line, the environment, JSON and logs. UTF-8 is written unchanged, other bytes behind
 * a marker.
 */
const HEX = 'hex:';
const BASE64 = 'base64:';

/** Characters that a terminal does not show, that only look like a space, or that end a line. */
const INVISIBLE = /[\p{C}\p{Z}]/u;

/**
 * The text form of a PID: its text if it can be shown, typed and copied, otherwise `hex:` and its bytes. The bytes are also
 * used if the text begins with a marker or with `-` like an option, or has a space at an end. `bytesFromText` reads every
 * result back.
 */
export function pidText(pid: Uint8Array): string {
  const bytes = Buffer.from(pid.buffer, pid.byteOffset, pid.byteLength);
  const text = isUtf8(bytes) ? bytes.toString('utf8') : undefined;
  return text !== undefined && isPlain(text) ? text : HEX + bytes.toString('hex');
}

/** Whether the text begins with a marker. */
export function isMarked(text: string): boolean {
  return text.startsWith(HEX) || text.startsWith(BASE64);
}

/** The bytes of a text: `hex:...`, `base64:...`, or its UTF-8. @throws TypeError for a malformed text. */
export function bytesFromText(text: string): Buffer {
  if (text.startsWith(HEX)) {
    const digits = text.slice(HEX.length);
    if (!/^(?:[0-9a-f]{2})*$/i.test(digits)) throw malformed(text, 'pairs of hexadecimal digits');
    return Buffer.from(digits, 'hex');
  }
  if (text.startsWith(BASE64)) {
    const digits = text.slice(BASE64.length);
    const bytes = Buffer.from(digits, 'base64');
    // The decoder skips characters that are not base64.
    if (bytes.toString('base64') !== digits) throw malformed(text, 'base64, with its padding');
    return bytes;
  }
  return Buffer.from(text, 'utf8');
}

/** The bytes as base64, for long values. */
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

/** Shorter texts are always copies. */
const SHORTEST_PART = 13;

/** A copy of a text that is kept. A text that was cut out of a longer one holds all of that one in memory. */
export function ownText(text: string): string {
  return text.length < SHORTEST_PART ? text : Buffer.from(text, 'utf16le').toString('utf16le');
}
