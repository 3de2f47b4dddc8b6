import { limits, type TaskError } from '@taskmaster/proto';
import { errorPartsOf, textOf } from './thrown.ts';

/**
 * What a task keeps of anything that was thrown: name and message, and the stack with the stacks of its causes. Long texts are
 * truncated. Never throws.
 */
export function taskErrorOf(thrown: unknown): TaskError {
  return {
    // An empty text would look as if nothing had been thrown.
    message: truncated(textOf(thrown) || "''", limits.errorMessageBytes),
    details: detailsOf(thrown),
  };
}

/** Errors whose stacks are kept, with their causes. Causes may form a circle. */
const MOST_ERRORS = 8;
const CAUSED_BY = '\ncaused by ';

/** The stacks of an error and its causes. Each has its part of the space, so that a long stack hides no cause. */
function detailsOf(thrown: unknown): string {
  const stacks = stacksOf(thrown);
  const whole = stacks.join(CAUSED_BY);
  if (Buffer.byteLength(whole) <= limits.errorDetailsBytes) return whole;
  const part = Math.floor(limits.errorDetailsBytes / stacks.length) - CAUSED_BY.length;
  return stacks.map((stack) => truncated(stack, part)).join(CAUSED_BY);
}

/** Empty if it is not an error: the message says everything then. */
function stacksOf(thrown: unknown): string[] {
  if (errorPartsOf(thrown) === undefined) return [];
  const stacks: string[] = [];
  const seen = new Set<unknown>();
  const waiting = [thrown];
  while (waiting.length > 0 && stacks.length < MOST_ERRORS) {
    const error = waiting.shift();
    if (seen.has(error)) continue;
    seen.add(error);
    const parts = errorPartsOf(error);
    stacks.push(parts?.stack ?? textOf(error));
    waiting.push(...(parts?.causes ?? []));
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
