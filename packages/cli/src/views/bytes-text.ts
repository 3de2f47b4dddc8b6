import { isUtf8 } from 'node:buffer';
import { base64Text, bytesFromText, escapeControls, isMarked } from '@taskmaster/proto';
import { UsageError } from './cli-errors.ts';

/*
 * The text form of payloads: UTF-8 as it is, other bytes as `base64:...`. Text that begins with a marker is encoded too, so
 * that reading the text form always gives the same bytes. PIDs have their own text form, `pidText`.
 */

/** The text form of a payload, for programs. */
export function textOf(bytes: Uint8Array): string {
  const text = utf8Of(bytes);
  return text === undefined || isMarked(text) ? base64Text(bytes) : text;
}

/** The beginning of a payload, for people: at most `width` characters, with control characters as escapes. */
export function previewOf(bytes: Uint8Array, width: number): string {
  // A character has at most 4 bytes, so these bytes fill the width. A large payload is not decoded as a whole.
  const isLong = bytes.byteLength > 4 * (width + 1);
  const head = isLong ? withoutCutEnd(bytes.subarray(0, 4 * (width + 1))) : bytes;
  const text = utf8Of(head);
  const shown = text === undefined || isMarked(text) ? base64Text(head) : escapeControls(text);
  const characters = [...shown];
  return isLong || characters.length > width ? `${characters.slice(0, width - 1).join('')}…` : shown;
}

/** The payload of a text form. @throws UsageError when the text after a marker is malformed. */
export function bytesOf(text: string): Buffer {
  try {
    return bytesFromText(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new UsageError(`${why}; to send text that begins like this, use a file or stdin`);
  }
}

function utf8Of(bytes: Uint8Array): string | undefined {
  if (!isUtf8(bytes)) return undefined;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}

/** The bytes without an incomplete character at the end. */
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
