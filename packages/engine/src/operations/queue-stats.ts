import { formatQueueName, type KindStats, limits, type QueueKinds, type QueueName } from '@taskmaster/proto';
import type {
  ListCommand,
  QueueFilter,
  QueueOperations,
  QueuePage,
  QueueStats,
  QueueTotals,
  StatsCommand,
  StatsReport,
} from '../domain/commands.ts';
import type { Instant } from '../domain/ids.ts';
import { KindFilter } from '../domain/kind-filter.ts';
import type { LimitUse } from '../domain/queue-limits.ts';
import { isOver } from '../domain/queue-pauses.ts';
import type { EngineState } from '../engine-state.ts';
import type { KindCounts } from '../log/queue-ledger.ts';
import type { Queue } from '../queues/queue.ts';
import type { QueuesLimit } from '../records/limit-table.ts';
import { dueFor, dueUnder, mayBeDue, showAllDue } from './expire.ts';

/** ListQueues: a summary of each queue, after its due tasks have been shown. */
export async function listQueues(
  engineState: EngineState,
  { filter: asked, limit, after, includeEmpty = false }: ListCommand,
): Promise<QueuePage> {
  const filter = await withMatches(engineState, asked, { limit, after });
  await showAllDue(engineState, dueQueues(engineState, filter));
  const now = engineState.clock.now();
  const queues: QueueStats[] = [];
  let more = false;
  for (const queue of engineState.table.inOrder(filter, after)) {
    if (!isWithin(queue, filter) || !(includeEmpty || exists(queue))) continue;
    more = queues.length === limit;
    if (more) break;
    queues.push(statsOf(queue, now));
  }
  await engineState.durable();
  return { queues, more };
}

/** GetQueueStats: statistics of named queues, or of queues that match a filter, with the sums over all of them. */
export async function queueStats(engineState: EngineState, command: StatsCommand): Promise<StatsReport> {
  const report =
    command.kind === 'named' ? await namedStats(engineState, command) : await filteredStats(engineState, command);
  await engineState.durable();
  return report;
}

async function namedStats(
  engineState: EngineState,
  { queues: names }: Extract<StatsCommand, { kind: 'named' }>,
): Promise<StatsReport> {
  await showAllDue(engineState, dueForStats(engineState, names));
  const now = engineState.clock.now();
  const totals = new Totals();
  const queues = names.map((name) => {
    const queue = engineState.table.get(name);
    const stats = queue ? statsOf(queue, now) : emptyStats(engineState, name, now);
    totals.add(stats);
    return stats;
  });
  return { queues, totals };
}

/** The statistics say, too, how many tasks of other queues take slots of a limit that these queues have. */
function* dueForStats(engineState: EngineState, names: readonly QueueName[]): Generator<Queue> {
  yield* dueFor(engineState, names);
  const limits = new Set(names.flatMap((name) => engineState.table.get(name)?.limits ?? []));
  yield* dueUnder(limits, engineState.clock.now());
}

async function filteredStats(
  engineState: EngineState,
  { filter: asked, limit }: Extract<StatsCommand, { kind: 'filtered' }>,
): Promise<StatsReport> {
  const filter = await withMatches(engineState, asked, {});
  await showAllDue(engineState, dueQueues(engineState, filter));
  const now = engineState.clock.now();
  const totals = new Totals();
  const queues: QueueStats[] = [];
  for (const queue of engineState.table.inOrder(filter)) {
    if (!isWithin(queue, filter) || !exists(queue)) continue;
    totals.add(queue.ledger);
    if (queues.length < limit) queues.push(statsOf(queue, now));
  }
  return { queues, totals };
}

/** The filter with the results of its regular expression, so that the work on one instant of the queues takes little time. */
async function withMatches(engineState: EngineState, filter: QueueFilter, page: Page): Promise<QueueFilter> {
  const { matches } = filter;
  if (matches === undefined) return filter;
  return { ...filter, matches: await engineState.names.prepare(matches, namesFor(engineState, filter, page)) };
}

type Page = Partial<Pick<ListCommand, 'limit' | 'after'>>;

/** The names that a listing matches. It is told which of them match, and ends with the page. */
function* namesFor(
  engineState: EngineState,
  filter: QueueFilter,
  { limit, after }: Page,
): Generator<string, void, boolean> {
  const { group } = filter;
  const now = engineState.clock.now();
  for (const queue of [...engineState.hiding]) {
    if (!mayBeDue(queue, now) || (group !== undefined && queue.ledger.name.group !== group)) continue;
    if ((yield queue.fullName) || !engineState.lastAttempts.isDue(queue, now)) continue;
    for (const name of targetNames(engineState, queue)) if (yield name) break;
  }
  let left = limit ?? Number.POSITIVE_INFINITY;
  for (const queue of engineState.table.inOrder(group === undefined ? {} : { group }, after)) {
    // One more than fits into the page tells whether there is another page.
    if (isWithin(queue, filter) && exists(queue) && (yield queue.fullName) && left-- === 0) return;
  }
}

/** Matching queues that may have due tasks. Compares times before names: that is cheap, and few queues have due tasks. */
function* dueQueues(engineState: EngineState, { group, matches }: QueueFilter): Generator<Queue> {
  const now = engineState.clock.now();
  for (const queue of engineState.hiding) {
    if (!mayBeDue(queue, now) || (group !== undefined && queue.ledger.name.group !== group)) continue;
    if (matches === undefined || matches(queue.fullName) || feeds(engineState, queue, now, matches)) yield queue;
  }
}

/** True if dead tasks of the queue may belong into a queue whose name matches. */
function feeds(engineState: EngineState, queue: Queue, now: Instant, matches: (fullName: string) => boolean): boolean {
  if (!engineState.lastAttempts.isDue(queue, now)) return false;
  return targetNames(engineState, queue).some(matches);
}

/** Full names of the queues into which dead tasks of the queue may go. */
function targetNames(engineState: EngineState, queue: Queue): string[] {
  const { group } = queue.ledger.name;
  return [...engineState.lastAttempts.targetsOf(queue)].map((name) => formatQueueName({ group, name }));
}

/** A queue exists while it holds tasks (the paper, 2). */
const exists = ({ ledger }: Queue): boolean => ledger.size > 0;

function isWithin({ ledger }: Queue, filter: QueueFilter): boolean {
  return (
    within(ledger.available, filter.minAvailable, filter.maxAvailable) &&
    within(ledger.leased, filter.minLeased, filter.maxLeased) &&
    within(ledger.delayed, filter.minDelayed, filter.maxDelayed)
  );
}

const within = (value: number, min: number | undefined, max: number | undefined): boolean =>
  (min === undefined || value >= min) && (max === undefined || value <= max);

function emptyStats({ pauses }: EngineState, queue: QueueName, now: Instant): QueueStats {
  return { ...NO_STATS, queue, pause: pauses.of(queue, now), heldBy: [] };
}

function statsOf(queue: Queue, now: Instant): QueueStats {
  const { ledger, rates } = queue;
  const pause = queue.pause === undefined || isOver(queue.pause, now) ? undefined : queue.pause;
  const by = pause === undefined ? heldBy(queue) : [];
  return {
    queue: ledger.name,
    available: ledger.available,
    leased: ledger.leased,
    delayed: ledger.delayed,
    waiting: ledger.waiting,
    completed: ledger.completed,
    enqueueRate: rates?.enqueueRate(now) ?? 0,
    leaseRate: rates?.leaseRate(now) ?? 0,
    completeRate: rates?.completeRate(now) ?? 0,
    failureRate: rates?.failureRate(now) ?? 0,
    meanLeaseMs: rates?.meanLeaseMs ?? 0,
    oldestAgeMs: ledger.oldest === undefined ? 0 : Math.max(0, now - ledger.oldest),
    pause,
    heldBy: by,
    kinds: ledger.kinds && kindsOf(queue, ledger.kinds, now),
    heldKeys: queue.lanes?.held.size ?? 0,
    heldTasks: by.length === 0 ? (queue.lanes?.held.tasks ?? 0) : ledger.available,
    heldSince: by.length === 0 ? earliest(queue.lanes?.held.since) : by[0]?.usedUpSince,
    operations: rates?.operations ?? NO_OPERATIONS,
  };
}

function kindsOf(queue: Queue, counts: ReadonlyMap<string, KindCounts>, now: Instant): QueueKinds {
  const all = Array.from(counts, ([kind, ofKind]): KindStats => {
    const { available, leased, delayed } = ofKind;
    return { kind, available, leased, delayed, unclaimedSinceUnixMs: unclaimedSince(queue, kind, ofKind, now) };
  });
  all.sort(
    (a, b) =>
      Number(b.unclaimedSinceUnixMs !== undefined) - Number(a.unclaimedSinceUnixMs !== undefined) ||
      sizeOf(b) - sizeOf(a) ||
      (a.kind < b.kind ? -1 : 1),
  );
  let unclaimed = 0;
  for (const { available, unclaimedSinceUnixMs } of all) if (unclaimedSinceUnixMs !== undefined) unclaimed += available;
  return { unclaimed, count: all.length, most: all.slice(0, limits.shownKinds) };
}

const sizeOf = ({ available, leased, delayed }: KindStats): number => available + leased + delayed;

/** Nobody can claim tasks that a pause or a limit holds back. */
function unclaimedSince(queue: Queue, kind: string, counts: KindCounts, now: Instant): Instant | undefined {
  const since = queue.claims?.unclaimedSince(kind, counts, now);
  return since !== undefined && queue.offers(new KindFilter([kind])) ? since : undefined;
}

/**
 * The limits that hold available tasks back, first those that have been used up for the longest time. A limit of keys holds them
 * back if no other task is available.
 */
function heldBy(queue: Queue): readonly LimitUse[] {
  const { ledger, limits: all, lanes } = queue;
  if (all === undefined || ledger.available === 0) return NONE;
  const usedUp: (readonly [QueuesLimit, Instant])[] = [];
  const ofKeys = ledger.plain === 0 && lanes?.isOpen === false ? lanes.held.since : undefined;
  for (const limit of all) {
    const since = limit.keys === undefined ? limit.usedUpSince : ofKeys?.get(limit.keys);
    if (since !== undefined) usedUp.push([limit, since]);
  }
  usedUp.sort(([, a], [, b]) => a - b);
  return usedUp.slice(0, limits.heldBy).map(([limit]) => limit.useNow(limits.heldKeys));
}

function earliest(heldSince: ReadonlyMap<unknown, Instant> = new Map()): Instant | undefined {
  let first: Instant | undefined;
  for (const since of heldSince.values()) if (first === undefined || since < first) first = since;
  return first;
}

const NONE: readonly never[] = [];
const NO_OPERATIONS: QueueOperations = {
  enqueued: 0,
  leased: 0,
  completed: 0,
  failed: 0,
  deadLettered: 0,
  waitedMs: 0,
  workedMs: 0,
};

const NO_STATS = {
  available: 0,
  leased: 0,
  delayed: 0,
  waiting: 0,
  completed: 0,
  enqueueRate: 0,
  leaseRate: 0,
  completeRate: 0,
  failureRate: 0,
  meanLeaseMs: 0,
  oldestAgeMs: 0,
  heldKeys: 0,
  heldTasks: 0,
  heldSince: undefined,
  operations: NO_OPERATIONS,
};

class Totals implements QueueTotals {
  queues = 0;
  available = 0;
  leased = 0;
  delayed = 0;
  waiting = 0;
  completed = 0;

  add(stats: Omit<QueueTotals, 'queues'>): void {
    this.queues++;
    this.available += stats.available;
    this.leased += stats.leased;
    this.delayed += stats.delayed;
    this.waiting += stats.waiting;
    this.completed += stats.completed;
  }
}
