const HEX = 'hex:';

/** The bytes as text. Undefined: they are not UTF-8. */
export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}]/u;

/**
 * The text form of a PID, as the command line has it: its text, or `hex:` and its bytes if the text cannot be shown. `bytesOfPid`
 * reads it back.
 */
export function pidText(pid: Uint8Array): string {
  const text = utf8Text(pid);
  const isPlain = text !== undefined && !text.startsWith(HEX) && !text.startsWith('base64:') && !text.startsWith('-');
  return isPlain && text.trim() === text && !INVISIBLE.test(text) ? text : HEX + hexText(pid);
}

/** The bytes of a text form. Undefined: `hex:` without digits behind it that make sense. */
export function bytesOfPid(text: string): Uint8Array | undefined {
  return text.startsWith(HEX) ? bytesOfHex(text.slice(HEX.length)) : new TextEncoder().encode(text);
}

export const hexText = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** The bytes of pairs of hexadecimal digits, with any white space between them. Undefined: the text is something else. */
export function bytesOfHex(text: string): Uint8Array | undefined {
  const digits = text.replaceAll(/\s/g, '');
  if (!/^(?:[0-9a-f]{2})*$/i.test(digits)) return undefined;
  return Uint8Array.from({ length: digits.length / 2 }, (_, at) =>
    Number.parseInt(digits.slice(2 * at, 2 * at + 2), 16),
  );
}

const ROW = 16;

/** Rows of 16 bytes: where they are, the bytes, and what of them is ASCII. */
export function hexDump(bytes: Uint8Array): string {
  const rows: string[] = [];
  for (let at = 0; at < bytes.length; at += ROW) {
    const part = bytes.subarray(at, at + ROW);
    const hex = Array.from(part, (byte) => byte.toString(16).padStart(2, '0'));
    const ascii = Array.from(part, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('');
    const half = (from: number): string =>
      hex
        .slice(from, from + ROW / 2)
        .join(' ')
        .padEnd(23);
    rows.push(`${at.toString(16).padStart(6, '0')}  ${half(0)}  ${half(ROW / 2)}  ${ascii}`);
  }
  return rows.join('\n');
}

/** The text as JSON, indented. Undefined: it is no JSON. */
export function prettyJson(text: string): string | undefined {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return undefined;
  }
}
