import { encodeToBuffer, fieldBytes, parseQueueName, QueueStats, type QueueTotals, Schedule } from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/calls';

/** What is listed: queues or schedules. */
export interface Listed<T> {
  /** The full name, `group#name`. */
  readonly nameOf: (item: T) => string;
  readonly encode: (item: T) => Uint8Array;
  /** Whether `one` is newer than `other` of the same name. While a group moves, two nodes may list it. */
  readonly isNewer: (one: T, other: T) => boolean;
}

const sizeOf = ({ available, leased, delayed }: QueueStats): number => available + leased + delayed;

export const listedQueues: Listed<QueueStats> = {
  nameOf: ({ queue }) => queue,
  encode: (stats) => encodeToBuffer(QueueStats, stats),
  isNewer: (one, other) => sizeOf(one) > sizeOf(other),
};

const decidedRuns = ({ runs, missed, skipped, triggered }: Schedule): number => runs + missed + skipped + triggered;

export const listedSchedules: Listed<Schedule> = {
  nameOf: ({ schedule }) => schedule,
  encode: (schedule) => encodeToBuffer(Schedule, schedule),
  isNewer: (one, other) => decidedRuns(one) > decidedRuns(other),
};

/** A page of one node. */
export interface ListedPage<T> {
  /** In the order of `compareNames`. */
  readonly items: readonly T[];
  /** Full name behind which there may be more. Undefined: there are no more. */
  readonly end: string | undefined;
}

/**
 * Merges pages that begin after the same name. If a node has more, the merged page goes no further than that node's page: items
 * after it may be missing. The items of the merged page are encoded.
 */
export function mergePages<T>(
  pages: readonly ListedPage<T>[],
  limit: number,
  listed: Listed<T>,
): ListedPage<Uint8Array> {
  const ends = pages.map(({ end }) => end).filter((end) => end !== undefined);
  const [bound] = ends.sort(compareNames);
  const all = mergeItems(
    pages.map(({ items }) => items),
    listed,
  );
  const known = bound === undefined ? all : all.filter((item) => compareNames(listed.nameOf(item), bound) <= 0);
  const items = withinReply(known.slice(0, limit), listed);
  const last = known[items.length - 1];
  const isCut = items.length < known.length && last !== undefined;
  return { items, end: isCut ? listed.nameOf(last) : bound };
}

/** All items in the order of `compareNames`, each name once. */
export function mergeItems<T>(lists: readonly (readonly T[])[], { nameOf, isNewer }: Listed<T>): T[] {
  const byName = new Map<string, T>();
  for (const item of lists.flat()) {
    const other = byName.get(nameOf(item));
    if (other === undefined || isNewer(item, other)) byName.set(nameOf(item), item);
  }
  return [...byName.values()].sort((a, b) => compareNames(nameOf(a), nameOf(b)));
}

/** Adds the totals of several nodes. */
export function addTotals(parts: readonly (QueueTotals | undefined)[]): QueueTotals {
  const sum = { queues: 0, available: 0, leased: 0, delayed: 0, waiting: 0, completed: 0 };
  for (const part of parts) {
    if (part === undefined) continue;
    sum.queues += part.queues;
    sum.available += part.available;
    sum.leased += part.leased;
    sum.delayed += part.delayed;
    sum.waiting += part.waiting;
    sum.completed += part.completed;
  }
  return sum;
}

/** The longest prefix of the items that fits into a reply, encoded. */
export function withinReply<T>(items: readonly T[], { encode }: Pick<Listed<T>, 'encode'>): Uint8Array[] {
  const entries: Uint8Array[] = [];
  let left = REPLY_BYTES;
  for (const item of items) {
    const entry = encode(item);
    left -= fieldBytes(entry.length);
    if (left < 0) break;
    entries.push(entry);
  }
  return entries;
}

/** Compares two full queue names bytewise: by group, then by name. */
export function compareNames(a: string, b: string): number {
  const [left, right] = [parseQueueName(a), parseQueueName(b)];
  return compareBytes(left.group, right.group) || compareBytes(left.name, right.name);
}

/** Compares as UTF-8 bytes. JavaScript compares UTF-16 units, which differs beyond U+FFFF. */
function compareBytes(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}
