import { parseQueueName, type QueueStats, type QueueTotals } from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/service';

/** Upper bound of the numbers and tags beside a queue's name in its statistics. */
const STATS_BYTES = 128;

/** What one node listed. */
export interface ListedPage {
  /** In order. */
  readonly queues: readonly QueueStats[];
  /** The node has more behind these. */
  readonly more: boolean;
}

export interface MergedPage {
  readonly queues: readonly QueueStats[];
  readonly more: boolean;
}

/**
 * Joins pages that begin behind the same queue. No queue behind the end of a page that goes on may be shown yet: those
 * before it are not all known.
 */
export function mergePages(pages: readonly ListedPage[], limit: number): MergedPage {
  const ends = pages.filter(({ more }) => more).map(({ queues }) => queues.at(-1)?.queue);
  const bound = ends.reduce((least, end) => (least === undefined || compare(end, least) < 0 ? end : least), undefined);
  const all = mergeQueues(pages.map(({ queues }) => queues));
  const known = bound === undefined ? all : all.filter(({ queue }) => compareNames(queue, bound) <= 0);
  const queues = withinReply(known.slice(0, limit));
  return { queues, more: ends.length > 0 || queues.length < all.length };
}

/** All queues in order of their groups, then of their names. One that moves between nodes can be on two: it shows once. */
export function mergeQueues(lists: readonly (readonly QueueStats[])[]): QueueStats[] {
  const byName = new Map<string, QueueStats>();
  for (const stats of lists.flat()) {
    const other = byName.get(stats.queue);
    if (other === undefined || sizeOf(other) < sizeOf(stats)) byName.set(stats.queue, stats);
  }
  return [...byName.values()].sort((a, b) => compareNames(a.queue, b.queue));
}

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

/** The first queues whose statistics fit into a reply. */
export function withinReply(queues: readonly QueueStats[]): readonly QueueStats[] {
  let left = REPLY_BYTES;
  const cut = queues.findIndex(({ queue }) => {
    left -= STATS_BYTES + Buffer.byteLength(queue);
    return left < 0;
  });
  return cut < 0 ? queues : queues.slice(0, cut);
}

/** Bytewise, by group, then by name. */
export function compareNames(a: string, b: string): number {
  const [left, right] = [parseQueueName(a), parseQueueName(b)];
  return compareBytes(left.group, right.group) || compareBytes(left.name, right.name);
}

const compare = (a: string | undefined, b: string): number => (a === undefined ? -1 : compareNames(a, b));

/** JavaScript orders texts by UTF-16 units, which differs from the order of bytes beyond U+FFFF. */
function compareBytes(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}

const sizeOf = ({ available, leased, delayed }: QueueStats): number => available + leased + delayed;
