import { inspect } from 'node:util';
import { limits, type TaskError } from '@taskmaster/proto';

/** What a task keeps of an error: its name and message, and its stack with the stacks of its causes. Long texts are truncated. */
export function taskErrorOf(thrown: unknown): TaskError {
  const [message, details] = thrown instanceof Error ? [String(thrown), inspect(thrown)] : [textOf(thrown), ''];
  return {
    message: truncated(message, limits.errorMessageBytes),
    details: truncated(details, limits.errorDetailsBytes),
  };
}

const textOf = (thrown: unknown): string => (typeof thrown === 'string' ? thrown : inspect(thrown));

const ELLIPSIS = '…';

/** The text, or its beginning and an ellipsis, in at most `bytes` of UTF-8. */
function truncated(text: string, bytes: number): string {
  const encoded = Buffer.from(text);
  if (encoded.length <= bytes) return encoded.toString();
  let end = bytes - Buffer.byteLength(ELLIPSIS);
  while (isContinuation(encoded[end])) end--;
  return encoded.toString('utf8', 0, end) + ELLIPSIS;
}

/** Whether a byte continues a character. */
const isContinuation = (byte = 0): boolean => (byte & 0xc0) === 0x80;
