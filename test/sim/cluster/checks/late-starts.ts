import type { CallOf, EnqueueCall, HistoryEvent } from '@taskmaster/cli/testing/history';
import type { HolderChanges } from './holder-changes.ts';

/** The clocks of nodes approach the system clock by at most a thousandth. */
const CLOCK_RATE = 1.001;
/** A hand-off adds the travel time of its offer to all instants. */
const MOVES_MS = 6_000;

type LeaseEvent = HistoryEvent<CallOf<'lease'>>;

/** A lease of a task that no reply had before. */
export interface FirstLease {
  readonly queue: string;
  readonly data: string;
  readonly at: number;
}

/** An enqueue of a task that must start by an instant, which is at most `by` if its group does not move. */
interface Start {
  readonly item: EnqueueCall;
  readonly event: HistoryEvent;
  readonly by: number;
}

/**
 * (l) A task that must start by an instant is not leased for the first time from then on.
 *
 * @param found tasks that were leased for the first time at the end.
 */
export function lateStarts(
  events: readonly HistoryEvent[],
  found: readonly FirstLease[],
  holders: HolderChanges,
): string[] {
  const starts = new Map(events.flatMap(startsOf).map((start) => [start.item.data, start]));
  const leases = events.filter((event): event is LeaseEvent => event.call.kind === 'lease');
  const isLate = ({ queue, data, at }: FirstLease, before: number): boolean => {
    const start = starts.get(data);
    if (start === undefined || queue !== start.item.queue) return false;
    const latest = start.by + (holders.isMoved(queue, start.event.calledAt, at) ? MOVES_MS : 0);
    return at > latest && !mayHaveStarted(start, leases, latest, before);
  };
  const told = leases.flatMap((event) => {
    const tasks = event.outcome.kind === 'leased' ? event.outcome.tasks.filter(({ attempt }) => attempt === 1) : [];
    const late = tasks.filter((task) => isLate({ ...task, at: event.calledAt }, event.calledSeq));
    return late.map(({ data }) => `(l) #${event.id} leased ${data}, which had to start before`);
  });
  const left = found.filter((lease) => isLate(lease, Number.POSITIVE_INFINITY));
  return [
    ...told,
    ...left.map(({ data, queue }) => `(l) ${data} of ${queue} was leased at the end, too late to start`),
  ];
}

function startsOf(event: HistoryEvent): Start[] {
  const { call, outcome, endedAt } = event;
  if (call.kind !== 'update' || outcome.kind !== 'updated') return [];
  return call.enqueue.flatMap((item) =>
    item.startWithinMs === undefined ? [] : [{ item, event, by: endedAt + item.startWithinMs * CLOCK_RATE + 1 }],
  );
}

/**
 * Whether a lease before this place of the history may have had the task in time, although its reply does not show it: it was
 * lost, or the task was given back. A router asks several nodes for a request about several groups, and gives back what is too
 * much, or comes too late.
 */
function mayHaveStarted(
  { item, event }: Start,
  leases: readonly LeaseEvent[],
  latest: number,
  before: number,
): boolean {
  return leases.some(({ call, outcome, calledSeq, calledAt, endedSeq }) => {
    const isBefore = calledSeq < before && endedSeq > event.calledSeq && calledAt <= latest;
    if (!isBefore || !call.queues.includes(item.queue)) return false;
    if (outcome.kind !== 'leased') return true;
    const isOfOneGroup = new Set(call.queues.map((queue) => queue.split('#')[0])).size === 1;
    const mayGiveBack = !isOfOneGroup && (call.waitMs > 0 || outcome.tasks.length >= call.maxTasks);
    return mayGiveBack || outcome.tasks.some(({ data }) => data === item.data);
  });
}
