import { UnreadableBytes } from '../domain/bytes.ts';
import { Refusal } from '../domain/errors.ts';
import type { Instant } from '../domain/ids.ts';
import { StoreCorrupt } from '../ports/store.ts';
import type {
  ListCommand,
  QueueFilter,
  QueuePage,
  QueueStats,
  QueueTotals,
  StatsCommand,
  StatsReport,
} from './commands.ts';
import { mayBeDue, showDue } from './expire.ts';
import type { Memory } from './memory.ts';
import type { Queue } from './queue.ts';

/** How many queues look for expired leases at once before they are counted. */
const SEARCHES_AT_ONCE = 16;

/** ListQueues: what is in memory of each queue, once expired leases and ended delays are counted as available. */
export async function listQueues(memory: Memory, { filter, limit, after }: ListCommand): Promise<QueuePage> {
  await showAllDue(memory, dueQueues(memory, filter));
  const now = memory.clock.now();
  const queues: QueueStats[] = [];
  let more = false;
  for (const queue of memory.table.inOrder(filter, after)) {
    if (!isWithin(queue, filter)) continue;
    more = queues.length === limit;
    if (more) break;
    queues.push(statsOf(queue, now));
  }
  await memory.durable();
  return { queues, more };
}

/** GetQueueStats: of named queues, or of those a filter chooses, with the sums over all of them. */
export async function queueStats(memory: Memory, command: StatsCommand): Promise<StatsReport> {
  const report = command.kind === 'named' ? await namedStats(memory, command) : await filteredStats(memory, command);
  await memory.durable();
  return report;
}

async function namedStats(
  memory: Memory,
  { queues: names }: Extract<StatsCommand, { kind: 'named' }>,
): Promise<StatsReport> {
  await showAllDue(
    memory,
    names.map((name) => memory.table.get(name)).filter((queue) => queue !== undefined),
  );
  const now = memory.clock.now();
  const totals = new Totals();
  const queues = names.map((name) => {
    const queue = memory.table.get(name);
    const stats = queue ? statsOf(queue, now) : { ...NO_STATS, queue: name };
    totals.add(stats);
    return stats;
  });
  return { queues, totals };
}

async function filteredStats(
  memory: Memory,
  { filter, limit }: Extract<StatsCommand, { kind: 'filtered' }>,
): Promise<StatsReport> {
  await showAllDue(memory, dueQueues(memory, filter));
  const now = memory.clock.now();
  const totals = new Totals();
  const queues: QueueStats[] = [];
  for (const queue of memory.table.inOrder(filter)) {
    if (!isWithin(queue, filter)) continue;
    const stats = statsOf(queue, now);
    totals.add(stats);
    if (queues.length < limit) queues.push(stats);
  }
  return { queues, totals };
}

/** Counts are exact only after what is due has been shown. A damaged queue is counted as it stands. */
export async function showAllDue(memory: Memory, queues: Iterable<Queue>): Promise<void> {
  const now = memory.clock.now();
  const due: Queue[] = [];
  for (const queue of queues) if (mayBeDue(queue, now)) due.push(queue);
  const worker = async (): Promise<void> => {
    for (let queue = due.pop(); queue; queue = due.pop()) {
      // The search that is found may have begun before this call, and does not look for what became due in between.
      for (let searches = 0; searches < 2 && !queue.dropped && mayBeDue(queue, now); searches++) {
        await countAsItStands(showDue(memory, queue));
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(SEARCHES_AT_ONCE, due.length) }, worker));
}

/** Where nothing can be written any more, or rows are damaged, a queue's counts are those that are known. */
async function countAsItStands(shown: Promise<void>): Promise<void> {
  try {
    await shown;
  } catch (error) {
    const expected = error instanceof Refusal || error instanceof StoreCorrupt || error instanceof UnreadableBytes;
    if (!expected) throw error;
  }
}

/** Instants are compared before names: that costs next to nothing, and most queues have nothing due. */
function* dueQueues(memory: Memory, { group, matches }: QueueFilter): Generator<Queue> {
  const now = memory.clock.now();
  for (const queue of memory.hiding) {
    if (!mayBeDue(queue, now) || (group !== undefined && queue.ledger.name.group !== group)) continue;
    if (matches === undefined || matches(queue.fullName)) yield queue;
  }
}

/** Queues exist while they hold tasks (the paper, 2). */
function isWithin({ ledger }: Queue, filter: QueueFilter): boolean {
  return (
    ledger.size > 0 &&
    within(ledger.available, filter.minAvailable, filter.maxAvailable) &&
    within(ledger.leased, filter.minLeased, filter.maxLeased) &&
    within(ledger.delayed, filter.minDelayed, filter.maxDelayed)
  );
}

const within = (value: number, min: number | undefined, max: number | undefined): boolean =>
  (min === undefined || value >= min) && (max === undefined || value <= max);

function statsOf({ ledger, rates }: Queue, now: Instant): QueueStats {
  return {
    queue: ledger.name,
    available: ledger.available,
    leased: ledger.leased,
    delayed: ledger.delayed,
    completed: ledger.completed,
    enqueueRate: rates?.enqueueRate(now) ?? 0,
    leaseRate: rates?.leaseRate(now) ?? 0,
    completeRate: rates?.completeRate(now) ?? 0,
    meanLeaseMs: rates?.meanLeaseMs ?? 0,
    oldestAgeMs: ledger.oldest === undefined ? 0 : Math.max(0, now - ledger.oldest),
  };
}

const NO_STATS = {
  available: 0,
  leased: 0,
  delayed: 0,
  completed: 0,
  enqueueRate: 0,
  leaseRate: 0,
  completeRate: 0,
  meanLeaseMs: 0,
  oldestAgeMs: 0,
};

class Totals implements QueueTotals {
  queues = 0;
  available = 0;
  leased = 0;
  delayed = 0;
  completed = 0;

  add(stats: QueueStats): void {
    this.queues++;
    this.available += stats.available;
    this.leased += stats.leased;
    this.delayed += stats.delayed;
    this.completed += stats.completed;
  }
}
