import { isUtf8 } from 'node:buffer';
import { UsageError } from './cli-errors.ts';

/**
 * How bytes are written as text, in both directions: as themselves where they are UTF-8, else as `base64:...`. Text that
 * begins with a marker is itself encoded, so reading back what was written always gives the same bytes.
 */
const BASE64 = 'base64:';
const HEX = 'hex:';

/** What a terminal would not show as it is: control characters, separators of lines, changes of direction, spaces at an end. */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]|^\s|\s$/u;
const control = /[\p{C}\p{Zl}\p{Zp}]/gu;

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** For programs: any UTF-8 is left as it is. */
export function textOf(bytes: Uint8Array): string {
  const text = utf8Of(bytes);
  return text === undefined || isMarked(text) ? base64Of(bytes) : text;
}

/** For people, to be copied: one line that a terminal shows as it is. */
export function printableOf(bytes: Uint8Array): string {
  const text = utf8Of(bytes);
  return text === undefined || isMarked(text) || unprintable.test(text) ? base64Of(bytes) : text;
}

/** For people, to get an impression: at most `width` characters, control characters as escapes. */
export function previewOf(bytes: Uint8Array, width: number): string {
  // A character has at most 4 bytes, so this is enough to fill the width, and does not decode 3 MiB for one line.
  const isLong = bytes.byteLength > 4 * (width + 1);
  const head = isLong ? withoutCutEnd(bytes.subarray(0, 4 * (width + 1))) : bytes;
  const text = utf8Of(head);
  const shown = text === undefined || isMarked(text) ? base64Of(head) : escapeControls(text);
  const characters = [...shown];
  return isLong || characters.length > width ? `${characters.slice(0, width - 1).join('')}…` : shown;
}

/** Control characters of a text as escapes, so that what others wrote cannot steer the terminal. */
export function escapeControls(text: string): string {
  return text.replace(control, (char) => escapes[char] ?? `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}

/** Bytes as written on a command line or by `textOf`. @throws UsageError when what follows a marker is malformed. */
export function bytesOf(text: string): Buffer {
  if (text.startsWith(BASE64)) {
    const digits = text.slice(BASE64.length);
    const bytes = Buffer.from(digits, 'base64');
    if (bytes.toString('base64') !== digits) throw malformed(text, 'base64, with its padding');
    return bytes;
  }
  if (text.startsWith(HEX)) {
    const digits = text.slice(HEX.length);
    if (!/^(?:[0-9a-f]{2})*$/i.test(digits)) throw malformed(text, 'pairs of hexadecimal digits');
    return Buffer.from(digits, 'hex');
  }
  return Buffer.from(text, 'utf8');
}

function isMarked(text: string): boolean {
  return text.startsWith(BASE64) || text.startsWith(HEX);
}

function base64Of(bytes: Uint8Array): string {
  return BASE64 + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

function utf8Of(bytes: Uint8Array): string | undefined {
  if (!isUtf8(bytes)) return undefined;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}

/** Without the beginning of a character that a cut may have left at the end. */
function withoutCutEnd(bytes: Uint8Array): Uint8Array {
  let end = bytes.byteLength;
  for (let back = 1; back <= 3 && back <= bytes.byteLength; back++) {
    const byte = bytes[bytes.byteLength - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    if (length > back) end = bytes.byteLength - back;
    break;
  }
  return bytes.subarray(0, end);
}

function malformed(text: string, wanted: string): UsageError {
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text;
  return new UsageError(
    `'${escapeControls(shown)}' does not go on with ${wanted}; to send text that begins like this, use a file or stdin`,
  );
}
