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

/** Deeper values are indented like these, because spaces could outnumber the text by far. */
const MOST_INDENTED = 32;
/** A text that would be longer, in characters, stays as it is. */
const MOST_PRETTY = 4_000_000;

/** The text as JSON, indented. Its numbers, keys and strings stay as they are written. Undefined: it is no JSON. */
export function prettyJson(text: string): string | undefined {
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  const parts: string[] = [];
  let length = 0;
  let depth = 0;
  const put = (part: string): void => {
    parts.push(part);
    length += part.length;
  };
  const newLine = (): void => put(`\n${'  '.repeat(Math.min(depth, MOST_INDENTED))}`);
  let before = '';
  for (const token of jsonTokens(text)) {
    const isEnd = token === '}' || token === ']';
    if (isEnd) depth--;
    const isEmpty = isEnd && (before === '{' || before === '[');
    if (before === ',' || ((before === '{' || before === '[' || isEnd) && !isEmpty)) newLine();
    put(token === ':' ? ': ' : token);
    if (token === '{' || token === '[') depth++;
    before = token;
    if (length > MOST_PRETTY) return text;
  }
  return parts.join('');
}

/** The tokens of valid JSON: signs, and other values as they are written. */
function* jsonTokens(text: string): Generator<string> {
  const tokens = /[{}[\],:]|[^\s{}[\],:"]+|"/g;
  for (let found = tokens.exec(text); found !== null; found = tokens.exec(text)) {
    if (found[0] === '"') tokens.lastIndex = endOfString(text, found.index);
    yield text.slice(found.index, tokens.lastIndex);
  }
}

function endOfString(text: string, start: number): number {
  let end = start + 1;
  while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
  return end + 1;
}

/** The beginning of a text. Each line, and each run of what cannot be seen, is an element of the page. */
export function beginningOf(text: string, mostCharacters: number, mostElements: number): string {
  const beginning = text.slice(0, mostCharacters);
  let elements = 0;
  for (const { index } of beginning.matchAll(/[\p{C}\p{Zl}\p{Zp}]+/gu)) {
    if (elements++ >= mostElements) return beginning.slice(0, index);
  }
  return beginning;
}
