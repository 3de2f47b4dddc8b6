import type { ShardedQueueStats } from '@taskmaster/client';
import { limitInfo, pauseInfo } from '@taskmaster/client/internal';
import type { QueueKinds, QueueLimit, QueueStats, QueueTotals } from '@taskmaster/proto';
import { count, countOf, duration, rate } from './format.ts';
import { heldText, limitObject } from './limit-view.ts';
import { pauseObject, pauseText } from './pause-view.ts';
import type { Column } from './table.ts';

/** Statistics of a queue for programs. Rates are per second, times in ms. */
export function statsObject(stats: QueueStats | ShardedQueueStats): object {
  return {
    queue: stats.queue,
    ...('shards' in stats ? { shards: fullShards(stats) } : {}),
    available: stats.available,
    leased: stats.leased,
    delayed: stats.delayed,
    waiting: stats.waiting === 0 ? undefined : stats.waiting,
    completed: stats.completed,
    enqueueRate: stats.enqueueRate,
    leaseRate: stats.leaseRate,
    completeRate: stats.completeRate,
    meanLeaseMs: stats.meanLeaseMs,
    oldestAgeMs: stats.oldestAgeMs,
    pause: stats.pause && pauseObject(pauseInfo(stats.pause)),
    heldBy: stats.heldBy.length === 0 ? undefined : stats.heldBy.map((limit) => limitObject(limitInfo(limit))),
    kinds: stats.kinds && kindsObject(stats.kinds),
    heldKeys: stats.heldKeys === 0 ? undefined : stats.heldKeys,
    heldTasks: stats.heldTasks === 0 ? undefined : stats.heldTasks,
    heldSince: stats.heldSinceUnixMs === 0 ? undefined : new Date(stats.heldSinceUnixMs).toISOString(),
  };
}

/**
 * The columns of a table of these queues. Without a paused queue there is no column for pauses, and likewise for limits, for
 * tasks that wait and for those that nobody can run.
 */
export function statsColumns(
  queues: readonly (QueueStats | ShardedQueueStats)[],
): readonly Column<QueueStats | ShardedQueueStats>[] {
  const now = Date.now();
  const shown = [...columns];
  if (queues.some(({ waiting }) => waiting > 0)) {
    shown.push({ title: 'WAITING', align: 'right', cell: ({ waiting }) => count(waiting) });
  }
  if (queues.some(({ pause }) => pause !== undefined)) {
    shown.push({ title: 'PAUSED', cell: ({ pause }) => (pause ? pauseText(pauseInfo(pause), now) : '-') });
  }
  if (queues.some(({ heldBy }) => heldBy.length > 0)) {
    shown.push({ title: 'HELD BACK', cell: ({ heldBy }) => heldTexts(heldBy, now) });
  }
  if (queues.some(({ kinds }) => kinds !== undefined && kinds.unclaimed > 0)) {
    shown.push({ title: 'UNCLAIMED', cell: ({ kinds }) => unclaimedText(kinds, now) });
  }
  if (queues.some(({ heldKeys }) => heldKeys > 0)) {
    shown.push({ title: 'HELD KEYS', cell: (stats) => (stats.heldKeys > 0 ? heldKeysText(stats, now) : '-') });
  }
  return shown;
}

/** `-` without a limit. */
const heldTexts = (heldBy: readonly QueueLimit[], now: number): string =>
  heldBy.map((limit) => heldText(limitInfo(limit), now)).join('; ') || '-';

/** `3 with 120 tasks for 5m12s`. */
const heldKeysText = ({ heldKeys, heldTasks, heldSinceUnixMs }: QueueStats, now: number): string =>
  `${count(heldKeys)} with ${countOf(heldTasks, 'task')} for ${duration(Math.max(0, now - heldSinceUnixMs))}`;

/** The kinds of the tasks of a queue for programs. */
const kindsObject = ({ unclaimed, count: all, most }: QueueKinds): object => ({
  unclaimed,
  count: all,
  most: most.map(({ unclaimedSinceUnixMs, ...counts }) => ({
    ...counts,
    unclaimedSince: unclaimedSinceUnixMs && new Date(unclaimedSinceUnixMs).toISOString(),
  })),
});

/** The kinds that nobody can run, as far as they are known, with the number of their tasks and the time. */
function unclaimedText(kinds: QueueKinds | undefined, now: number): string {
  if (kinds === undefined || kinds.unclaimed === 0) return '-';
  const texts = kinds.most.flatMap(({ kind, available, unclaimedSinceUnixMs: since }) =>
    since === undefined ? [] : [`${kind}: ${count(available)} for ${duration(Math.max(0, now - since))}`],
  );
  return texts.join(', ');
}

const columns: readonly Column<QueueStats | ShardedQueueStats>[] = [
  {
    title: 'QUEUE',
    cell: (stats) => ('shards' in stats ? `${stats.queue} (${fullShards(stats)} shards)` : stats.queue),
  },
  { title: 'AVAILABLE', align: 'right', cell: ({ available }) => count(available) },
  { title: 'LEASED', align: 'right', cell: ({ leased }) => count(leased) },
  { title: 'DELAYED', align: 'right', cell: ({ delayed }) => count(delayed) },
  { title: 'COMPLETED', align: 'right', cell: ({ completed }) => count(completed) },
  { title: 'ENQUEUE/S', align: 'right', cell: ({ enqueueRate }) => rate(enqueueRate) },
  { title: 'LEASE/S', align: 'right', cell: ({ leaseRate }) => rate(leaseRate) },
  { title: 'COMPLETE/S', align: 'right', cell: ({ completeRate }) => rate(completeRate) },
  { title: 'MEAN LEASE', align: 'right', cell: ({ meanLeaseMs }) => (meanLeaseMs > 0 ? duration(meanLeaseMs) : '-') },
  { title: 'OLDEST', align: 'right', cell: ({ oldestAgeMs }) => (oldestAgeMs > 0 ? duration(oldestAgeMs) : '-') },
];

/** Number of shards that hold tasks. */
const fullShards = ({ shards }: ShardedQueueStats): number =>
  shards.filter(({ available, leased, delayed }) => available + leased + delayed > 0).length;

/** Sums for programs. */
export const totalsObject = ({ waiting, ...totals }: QueueTotals): object => ({
  ...totals,
  waiting: waiting === 0 ? undefined : waiting,
});

/** Footer of a table of statistics. */
export function totalsRow(totals: QueueTotals): readonly string[] {
  const { queues, available, leased, delayed, completed } = totals;
  const name = countOf(queues, 'queue');
  return [name, count(available), count(leased), count(delayed), count(completed), '', '', '', '', ''];
}
