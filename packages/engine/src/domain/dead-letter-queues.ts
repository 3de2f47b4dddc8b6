import { createHash } from 'node:crypto';
import { limits } from '@taskmaster/proto';
import type { Pid } from './ids.ts';
import { DEAD_LETTER_SUFFIX } from './task.ts';

/** Bytes of a name before the suffix. */
const NAME_BYTES = limits.nameBytes - DEAD_LETTER_SUFFIX.length;
/** A hash follows this mark. */
const MARK = '~';
/** Bytes of a digest that are kept: enough for all names of a group. As text they are 11 characters. */
const DIGEST_BYTES = 8;
const HASH_CHARACTERS = 11;
/** In UTF-8, all bytes of a character but the first begin with these two bits. */
const FOLLOWING_BITS = 0b1100_0000;
const FOLLOWING = 0b1000_0000;

/**
 * The name of the dead-letter queue of a queue, unless a policy or settings name another one. The end of a name that would be too
 * long is cut, between two characters. A hash of the whole name takes its place, because other names may begin alike.
 */
export function defaultDeadLetters(name: string): string {
  if (name.length <= NAME_BYTES / 3 || Buffer.byteLength(name) <= NAME_BYTES) return `${name}${DEAD_LETTER_SUFFIX}`;
  const bytes = Buffer.from(name);
  let end = NAME_BYTES - MARK.length - HASH_CHARACTERS;
  while (((bytes[end] ?? 0) & FOLLOWING_BITS) === FOLLOWING) end--;
  return `${bytes.toString('utf8', 0, end)}${MARK}${hashOf(name)}${DEAD_LETTER_SUFFIX}`;
}

/**
 * Another PID for a dead letter of a queue, behind the PID that another task has in its dead-letter queue. It differs from those
 * of the dead letters of other queues.
 */
export function deadLetterPid(pid: Pid, queue: string): Pid {
  const kept = limits.pidBytes - MARK.length - HASH_CHARACTERS;
  return (
    pid.length <= kept
      ? `${pid}${MARK}${hashOf(queue)}`
      : `${pid.slice(0, kept)}${MARK}${hashOf(`${queue.length} ${queue}${pid}`)}`
  ) as Pid;
}

const hashOf = (text: string): string =>
  createHash('sha256').update(text).digest().subarray(0, DIGEST_BYTES).toString('base64url');
