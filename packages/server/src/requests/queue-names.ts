import {
  type GroupScope,
  isReservedName,
  limits,
  Memo,
  nameIn,
  parseQueueName,
  type QueueName,
} from '@taskmaster/proto';
import { excerpt, type Place, refuse } from './checks.ts';

/** A decoder replaces bytes that are not UTF-8 with this character. */
const REPLACEMENT = '\uFFFD';

/** Checked names, of about 1 KiB at most. Without them bench row B4 allocates 4.6 points more. */
const seen = new Memo<string, QueueName>(4_096);

/**
 * Checks the name of a queue, `group#name`. Names are UTF-8. A decoder turns invalid bytes into U+FFFD, so names with U+FFFD are
 * refused: otherwise two different names could become one.
 */
export function queueName(full: string, place: Place): QueueName {
  const known = seen.get(full);
  if (known !== undefined) return known;
  const name = parseQueueName(full);
  checkPart(name.group, 'group', place, full);
  checkPart(name.name, 'name', place, full);
  if (name.name === '') {
    refuse('INVALID_QUEUE', place, full === '' ? 'is empty' : `is ${excerpt(full)}: its name is empty`, {
      limit: limits.nameBytes,
    });
  }
  if (isReservedName(name.name)) {
    refuse('INVALID_QUEUE', place, `is ${excerpt(full)}: names that begin with $taskmaster/ are reserved`);
  }
  return seen.remember(full, name);
}

/** Checks the queue that a request is about. */
export const queueIn = (full: string): QueueName => queueName(full, { field: 'queue' });

/** The name that a request is about, or with an empty name its whole group. Throws a `Refusal` if it is not valid. */
export function queueOrGroup(full: string, { field, whole }: Pick<GroupScope, 'field' | 'whole'>): QueueName {
  const { group, name } = parseQueueName(full);
  const isWhole = name === '' && (full.includes('#') ? whole !== undefined : whole === 'as group# or empty');
  return isWhole ? { group: groupName(group, { field }), name } : queueName(full, { field });
}

/** The group that a request is about. Throws a `Refusal` if its name is not valid. */
export const groupOf = (scope: GroupScope, request: object): string =>
  queueOrGroup(nameIn(scope, request), scope).group;

/** Checks the name of a group. Empty: the default group. */
export function groupName(group: string, place: Place): string {
  checkPart(group, 'group', place, group);
  if (group.includes('#')) refuse('INVALID_QUEUE', place, `is ${excerpt(group)}: a group contains no "#"`);
  return group;
}

function checkPart(part: string, what: 'group' | 'name', place: Place, full: string): void {
  if (part.includes(REPLACEMENT) || !part.isWellFormed()) {
    refuse('INVALID_QUEUE', place, `is ${excerpt(full)}: its ${what} is not valid UTF-8 or contains U+FFFD`);
  }
  const bytes = part.length > limits.nameBytes / 3 ? Buffer.byteLength(part) : part.length;
  if (bytes > limits.nameBytes) {
    refuse('INVALID_QUEUE', place, `is ${excerpt(full)}: its ${what} has ${bytes} bytes, at most ${limits.nameBytes}`, {
      value: bytes,
      limit: limits.nameBytes,
    });
  }
}
