import { parseQueueName, type QueueStats, type QueueTotals } from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/service';

/** Upper bound of the numbers and tags beside a queue's name in its statistics. */
const STATS_BYTES = 128;

/** The page of one node. */
export interface ListedPage {
  /** In the order of `compareNames`. */
  readonly queues: readonly QueueStats[];
  /** True if the node has more queues after these. */
  readonly more: boolean;
}

export interface MergedPage {
  readonly queues: readonly QueueStats[];
  readonly more: boolean;
}

/**
 * Merges pages that begin after the same queue. If a node has more queues, the merged page ends at the last queue of that node's
 * page: queues after it may be missing.
 */
export function mergePages(pages: readonly ListedPage[], limit: number): MergedPage {
  const ends = pages.filter(({ more }) => more).map(({ queues }) => queues.at(-1)?.queue);
  const bound = ends.reduce((least, end) => (least === undefined || compare(end, least) < 0 ? end : least), undefined);
  const all = mergeQueues(pages.map(({ queues }) => queues));
  const known = bound === undefined ? all : all.filter(({ queue }) => compareNames(queue, bound) <= 0);
  const queues = withinReply(known.slice(0, limit));
  return { queues, more: ends.length > 0 || queues.length < all.length };
}

/** All queues in the order of `compareNames`. A queue that moves can be on two nodes at once; it is listed once. */
export function mergeQueues(lists: readonly (readonly QueueStats[])[]): QueueStats[] {
  const byName = new Map<string, QueueStats>();
  for (const stats of lists.flat()) {
    const other = byName.get(stats.queue);
    if (other === undefined || sizeOf(other) < sizeOf(stats)) byName.set(stats.queue, stats);
  }
  return [...byName.values()].sort((a, b) => compareNames(a.queue, b.queue));
}

/** Adds the totals of several nodes. */
export function addTotals(parts: readonly (QueueTotals | undefined)[]): QueueTotals {
  const sum = { queues: 0, available: 0, leased: 0, delayed: 0, completed: 0 };
  for (const part of parts) {
    if (part === undefined) continue;
    sum.queues += part.queues;
    sum.available += part.available;
    sum.leased += part.leased;
    sum.delayed += part.delayed;
    sum.completed += part.completed;
  }
  return sum;
}

/** The longest prefix of the queues whose statistics fit into a reply. */
export function withinReply(queues: readonly QueueStats[]): readonly QueueStats[] {
  let left = REPLY_BYTES;
  const cut = queues.findIndex(({ queue }) => {
    left -= STATS_BYTES + Buffer.byteLength(queue);
    return left < 0;
  });
  return cut < 0 ? queues : queues.slice(0, cut);
}

/** Compares two full queue names bytewise: by group, then by name. */
export function compareNames(a: string, b: string): number {
  const [left, right] = [parseQueueName(a), parseQueueName(b)];
  return compareBytes(left.group, right.group) || compareBytes(left.name, right.name);
}

const compare = (a: string | undefined, b: string): number => (a === undefined ? -1 : compareNames(a, b));

/** Compares as UTF-8 bytes. JavaScript compares UTF-16 units, which differs beyond U+FFFF. */
function compareBytes(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}

const sizeOf = ({ available, leased, delayed }: QueueStats): number => available + leased + delayed;
