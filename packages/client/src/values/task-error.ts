import { inspect } from 'node:util';
import { limits, type TaskError } from '@taskmaster/proto';

/**
 * What a task keeps of an error: its name and message, and its stack with the stacks of its causes. Long texts are truncated.
 * Other properties of errors are left out, because they may hold secrets, such as the headers of a request.
 */
export function taskErrorOf(thrown: unknown): TaskError {
  return {
    message: truncated(messageOf(thrown), limits.errorMessageBytes),
    details: truncated(stacksOf(thrown).join('\ncaused by '), limits.errorDetailsBytes),
  };
}

function messageOf(thrown: unknown): string {
  if (thrown instanceof Error) return `${thrown.name}: ${thrown.message}`;
  return typeof thrown === 'string' ? thrown : inspect(thrown);
}

/** Causes of causes that are kept. Causes may form a circle. */
const MOST_CAUSES = 8;

function stacksOf(thrown: unknown): string[] {
  const stacks: string[] = [];
  for (let error = thrown; error instanceof Error && stacks.length < MOST_CAUSES; error = error.cause) {
    stacks.push(error.stack ?? messageOf(error));
  }
  return stacks;
}

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
