import { limits } from '@taskmaster/proto';
import { DEAD_LETTER_SUFFIX } from './task.ts';

/** Bytes of a name before the suffix. */
const NAME_BYTES = limits.nameBytes - DEAD_LETTER_SUFFIX.length;
/** In UTF-8, all bytes of a character but the first begin with these two bits. */
const FOLLOWING_BITS = 0b1100_0000;
const FOLLOWING = 0b1000_0000;

/**
 * The name of the dead-letter queue of a queue, unless a policy or settings name another one. The end of a name that would be too
 * long is cut, between two characters.
 */
export function defaultDeadLetters(name: string): string {
  if (name.length <= NAME_BYTES / 3 || Buffer.byteLength(name) <= NAME_BYTES) return `${name}${DEAD_LETTER_SUFFIX}`;
  const bytes = Buffer.from(name);
  let end = NAME_BYTES;
  while (((bytes[end] ?? 0) & FOLLOWING_BITS) === FOLLOWING) end--;
  return `${bytes.toString('utf8', 0, end)}${DEAD_LETTER_SUFFIX}`;
}
