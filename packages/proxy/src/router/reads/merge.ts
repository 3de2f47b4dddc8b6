import {
  comparePlaces,
  encodeToBuffer,
  fieldBytes,
  placeOf,
  type QueuePlace,
  QueueStats,
  type QueueTotals,
  Schedule,
} from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/calls';

const byName = (queue: string): QueuePlace => ({ queue, rank: 0, since: 0 });

/** What is listed, in an order: queues or schedules. Schedules have places by their names. */
export interface Listed<T> {
  readonly placeOf: (item: T) => QueuePlace;
  readonly encode: (item: T) => Uint8Array;
  /** Whether `one` is newer than `other` of the same name. While a group moves, two nodes may list it. */
  readonly isNewer: (one: T, other: T) => boolean;
}

const sizeOf = ({ available, leased, delayed }: QueueStats): number => available + leased + delayed;

/** By name. */
export const listedQueues: Listed<QueueStats> = {
  placeOf: ({ queue }) => byName(queue),
  encode: (stats) => encodeToBuffer(QueueStats, stats),
  isNewer: (one, other) => sizeOf(one) > sizeOf(other),
};

export const listedByTrouble: Listed<QueueStats> = { ...listedQueues, placeOf };

const decidedRuns = ({ runs, missed, skipped, triggered }: Schedule): number => runs + missed + skipped + triggered;

export const listedSchedules: Listed<Schedule> = {
  placeOf: ({ schedule }) => byName(schedule),
  encode: (schedule) => encodeToBuffer(Schedule, schedule),
  isNewer: (one, other) => decidedRuns(one) > decidedRuns(other),
};

/** A page of one node. */
export interface ListedPage<T> {
  /** In the order of `comparePlaces`. */
  readonly items: readonly T[];
  /** The place behind which there may be more. Undefined: there are no more. */
  readonly end: QueuePlace | undefined;
}

/**
 * Merges pages that begin behind the same place. If a node has more, the merged page goes no further than that node's page: items
 * after it may be missing. The items of the merged page are encoded.
 */
export function mergePages<T>(
  pages: readonly ListedPage<T>[],
  limit: number,
  listed: Listed<T>,
): ListedPage<Uint8Array> {
  const ends = pages.map(({ end }) => end).filter((end) => end !== undefined);
  const [bound] = ends.sort(comparePlaces);
  const all = mergeItems(
    pages.map(({ items }) => items),
    listed,
  );
  const known = bound === undefined ? all : all.filter((item) => comparePlaces(listed.placeOf(item), bound) <= 0);
  const items = withinReply(known.slice(0, limit), listed);
  const last = known[items.length - 1];
  const isCut = items.length < known.length && last !== undefined;
  return { items, end: isCut ? listed.placeOf(last) : bound };
}

/** All items in the order of `comparePlaces`, each name once. */
export function mergeItems<T>(lists: readonly (readonly T[])[], { placeOf: of, isNewer }: Listed<T>): T[] {
  const known = new Map<string, T>();
  for (const item of lists.flat()) {
    const { queue } = of(item);
    const other = known.get(queue);
    if (other === undefined || isNewer(item, other)) known.set(queue, item);
  }
  return [...known.values()].sort((a, b) => comparePlaces(of(a), of(b)));
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
