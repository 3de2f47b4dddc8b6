import { isUtf8 } from 'node:buffer';
import { base64Text, bytesFromText, isMarked } from '@taskmaster/proto';
import { UsageError } from '../output/cli-errors.ts';

/*
 * Payloads as text: as themselves where they are UTF-8, else as `base64:...`. Text that begins with a marker is itself
 * encoded, so reading back what was written always gives the same bytes. PIDs have a text form of their own, `pidText`.
 */

/** What a terminal would not show as it is: control characters, separators of lines, changes of direction. */
const control = /[\p{C}\p{Zl}\p{Zp}]/gu;

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** For programs: any UTF-8 is left as it is. */
export function textOf(bytes: Uint8Array): string {
  const text = utf8Of(bytes);
  return text === undefined || isMarked(text) ? base64Text(bytes) : text;
}

/** For people, to get an impression: at most `width` characters, control characters as escapes. */
export function previewOf(bytes: Uint8Array, width: number): string {
  // A character has at most 4 bytes, so this is enough to fill the width, and does not decode 3 MiB for one line.
  const isLong = bytes.byteLength > 4 * (width + 1);
  const head = isLong ? withoutCutEnd(bytes.subarray(0, 4 * (width + 1))) : bytes;
  const text = utf8Of(head);
  const shown = text === undefined || isMarked(text) ? base64Text(head) : escapeControls(text);
  const characters = [...shown];
  return isLong || characters.length > width ? `${characters.slice(0, width - 1).join('')}…` : shown;
}

/** Control characters of a text as escapes, so that what others wrote cannot steer the terminal. */
export function escapeControls(text: string): string {
  return text.replace(control, (char) => escapes[char] ?? `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}

/** A payload as written on a command line or by `textOf`. @throws UsageError when what follows a marker is malformed. */
export function bytesOf(text: string): Buffer {
  try {
    return bytesFromText(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new UsageError(`${escapeControls(why)}; to send text that begins like this, use a file or stdin`);
  }
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
