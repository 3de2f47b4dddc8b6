import { EventKind, formatQueueName } from '@taskmaster/proto';
import type { TaskChange } from '../domain/atom.ts';
import type { GroupEvent } from '../domain/events.ts';
import { dataOf } from '../domain/headers.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { decodePause } from '../domain/queue-pauses.ts';
import type { Lease, TaskState } from '../domain/task.ts';
import type { PlannedAtom, PlannedChange } from '../planned-atom.ts';
import type { Queue } from '../queues/queue.ts';
import type { ReachedLimit } from '../records/limit-table.ts';
import { patternOfPid } from '../records/pattern-records.ts';
import { pauseRecords } from '../records/record-store.ts';
import { AtomEnds } from '../waits/ends-in.ts';

/** The parts of an event that some kinds have. */
type Details = Partial<Omit<GroupEvent, 'at' | 'queue'>>;
/** What a change of a task says. Undefined: no event, or another change of the atom says it. */
type Said = (Details & Pick<GroupEvent, 'kind'>) | undefined;

const NO_PID = '' as Pid;

/**
 * What an atom does in groups that have readers, by group. Call it before the atom is committed. `tellsData`: the text of
 * `enqueued` is the beginning of the data.
 */
export function eventsIn(
  plan: PlannedAtom,
  isRead: (group: string) => boolean,
  tellsData = false,
): Map<string, GroupEvent[]> {
  const found = new Map<string, GroupEvent[]>();
  const ends = new AtomEnds(plan);
  const listOf = (group: string): GroupEvent[] => {
    const known = found.get(group);
    if (known !== undefined) return known;
    const events: GroupEvent[] = [];
    found.set(group, events);
    return events;
  };
  for (const planned of plan.changes) {
    const { queue, change } = planned;
    const { group } = queue.ledger.name;
    if (!isRead(group)) continue;
    if (queue.isReserved) {
      const said = saidByRecord(queue, change);
      if (said !== undefined) listOf(group).push({ ...eventOf(plan, queue, NO_PID, said), queue: said.queue });
      continue;
    }
    const displaced = displacedBy(planned, ends);
    // Before the one that takes its place.
    if (displaced !== undefined) listOf(group).unshift(eventOf(plan, queue, change.pid, displaced));
    const said = saidBy(planned, ends, tellsData);
    if (said !== undefined) listOf(group).push(eventOf(plan, queue, change.pid, said));
  }
  for (const { queue, reap } of plan.dropped ?? []) {
    const { group } = queue.ledger.name;
    // An empty queue that ends has no tasks.
    if (!reap || !isRead(group)) continue;
    const said = { kind: EventKind.EVENT_KIND_QUEUE_DELETED, tasks: queue.ledger.size };
    listOf(group).push(eventOf(plan, queue, NO_PID, said));
  }
  return found;
}

const eventOf = ({ at }: PlannedAtom, queue: Queue, pid: Pid, said: NonNullable<Said>): GroupEvent => ({
  kind: said.kind,
  at,
  queue: queue.fullName,
  pid,
  key: said.key ?? '',
  attempts: said.attempts ?? 0,
  worker: said.worker ?? '',
  text: said.text ?? '',
  to: said.to,
  tasks: said.tasks ?? 0,
});

/** A limit, or its key, allows no further lease. */
export const limitReached = ({ limit, key = '' }: ReachedLimit, at: Instant): GroupEvent => ({
  kind: EventKind.EVENT_KIND_LIMIT_REACHED,
  at,
  queue: formatQueueName({ group: limit.record.group, name: limit.pattern }),
  pid: NO_PID,
  key: '',
  attempts: 0,
  worker: '',
  text: key,
  to: undefined,
  tasks: 0,
});

function saidBy(planned: PlannedChange, ends: AtomEnds, tellsData: boolean): Said {
  const { change } = planned;
  switch (change.kind) {
    case 'enqueue':
      // A dead letter arrives with the event of its end, and any task that moves with that of its former place.
      if (planned.hasMoved || change.after.history?.origin !== undefined) return undefined;
      return {
        kind: EventKind.EVENT_KIND_ENQUEUED,
        ...ofTask(change.after),
        text: tellsData ? beginningOf(change) : '',
      };
    case 'change':
      return saidByChange(planned, change);
    case 'dequeue':
      return saidByEnd(planned, change, ends);
    default:
      return change satisfies never;
  }
}

/** Bytes of the data that an event tells. */
const TOLD_BYTES = 200;

/** The beginning of the data of a new task. Empty: it is no text. */
function beginningOf({ data, after: { headerBytes } }: Extract<TaskChange, { readonly kind: 'enqueue' }>): string {
  if (data === undefined) return '';
  try {
    // As of a stream, so that a character may be cut.
    const beginning = dataOf({ data, headerBytes }).subarray(0, TOLD_BYTES);
    return new TextDecoder('utf-8', { fatal: true }).decode(beginning, { stream: true });
  } catch {
    return '';
  }
}

function saidByEnd(
  planned: PlannedChange,
  change: Extract<TaskChange, { readonly kind: 'dequeue' }>,
  ends: AtomEnds,
): Said {
  const { queue, movedTo } = planned;
  const of = { ...ofTask(change.before), worker: leaseOf(change.before)?.worker ?? '' };
  if (movedTo !== undefined) return { kind: EventKind.EVENT_KIND_MOVED, ...of, to: placeOf(movedTo) };
  const { outcome, error = '', cancelReason = '' } = ends.of(change, planned);
  switch (outcome) {
    case 'completed':
      return { kind: EventKind.EVENT_KIND_COMPLETED, ...of };
    case 'cancelled':
      return { kind: EventKind.EVENT_KIND_CANCELLED, ...of, text: cancelReason };
    case 'dead-lettered': {
      const { group, name } = queue.ledger.name;
      const letter = ends.deadLetter(group, name, change.pid);
      const to = letter && placeOf(letter);
      return { kind: EventKind.EVENT_KIND_DEAD_LETTERED, ...of, text: error, to };
    }
    default:
      return { kind: EventKind.EVENT_KIND_REMOVED, ...of };
  }
}

function saidByChange(
  { failure }: PlannedChange,
  { before, after, data }: Extract<TaskChange, { readonly kind: 'change' }>,
): Said {
  // `displacedBy` says what ends for a dead letter whose place another one takes.
  if (isReplaced(before, after)) return undefined;
  const [held, holds] = [leaseOf(before), leaseOf(after)];
  const of = ofTask(after);
  if (failure === 'retry') {
    const last = after.history?.failures.at(-1);
    const text = last?.attempt === before.attempts ? (last.error?.message ?? '') : '';
    return { kind: EventKind.EVENT_KIND_FAILED, ...ofTask(before), worker: held?.worker ?? '', text };
  }
  if (holds !== undefined && after.token !== before.token) {
    return { kind: EventKind.EVENT_KIND_LEASED, ...of, worker: holds.worker };
  }
  if (held !== undefined && holds === undefined) {
    return { kind: EventKind.EVENT_KIND_RELEASED, ...ofTask(before), worker: held.worker };
  }
  const worker = holds?.worker ?? '';
  const { progress, cancelled, rerun = false, waits } = after.history ?? {};
  if (cancelled !== undefined && cancelled !== before.history?.cancelled) {
    return { kind: EventKind.EVENT_KIND_CANCEL_REQUESTED, ...of, worker, text: cancelled.reason };
  }
  if (progress !== undefined && progress !== before.history?.progress) {
    return { kind: EventKind.EVENT_KIND_PROGRESSED, ...of, worker, text: progress.text };
  }
  const isChanged = data !== undefined || after.dueAt !== before.dueAt || rerun !== (before.history?.rerun ?? false);
  // A signal has come, or the task before it in its order has ended.
  return isChanged || waits !== before.history?.waits
    ? { kind: EventKind.EVENT_KIND_CHANGED, ...of, worker }
    : undefined;
}

/** Whether a dead letter takes the place of another one. */
function isReplaced(before: TaskState, after: TaskState): boolean {
  const origin = after.history?.origin;
  return origin !== undefined && origin !== before.history?.origin;
}

/** What becomes of a dead letter whose place another one takes: where it goes, or that it is not leased any more. */
function displacedBy({ queue, change }: PlannedChange, ends: AtomEnds): Said {
  const origin = change.kind === 'change' ? change.before.history?.origin : undefined;
  if (change.kind !== 'change' || origin === undefined || origin === change.after.history?.origin) return undefined;
  const { group } = queue.ledger.name;
  const letter = ends.deadLetter(group, origin.queue, origin.died?.pid ?? change.pid);
  if (letter === undefined) return undefined;
  if (letter.pid === change.pid) {
    // The later one of the same task, whose end says that it is here.
    const held = isReplaced(change.before, change.after) ? leaseOf(change.before) : undefined;
    return held && { kind: EventKind.EVENT_KIND_RELEASED, ...ofTask(change.before), worker: held.worker };
  }
  // It died in this atom, and its end says its last place.
  if (letter.hasDied) return undefined;
  return { kind: EventKind.EVENT_KIND_MOVED, ...ofTask(change.before), to: placeOf(letter) };
}

/** Pauses are records, and their changes events. */
function saidByRecord(
  { ledger }: Queue,
  change: TaskChange,
): (NonNullable<Said> & Pick<GroupEvent, 'queue'>) | undefined {
  const { group } = ledger.name;
  if (!pauseRecords.has(ledger.name)) return undefined;
  const queue = formatQueueName({ group, name: patternOfPid(change.pid) });
  if (change.kind === 'dequeue') return { kind: EventKind.EVENT_KIND_RESUMED, queue };
  if (change.data === undefined) return undefined;
  const { reason: text, pausedBy: worker } = decodePause(change.data, undefined).message;
  return { kind: EventKind.EVENT_KIND_PAUSED, queue, text, worker };
}

const ofTask = ({ attempts, history }: TaskState): { readonly attempts: number; readonly key: string } => ({
  attempts,
  key: history?.key ?? '',
});

const placeOf = ({ queue, pid }: { readonly queue: Queue; readonly pid: Pid }): NonNullable<GroupEvent['to']> => ({
  queue: queue.fullName,
  pid,
});

const leaseOf = ({ visibility }: TaskState): Lease | undefined =>
  visibility.kind === 'hidden' ? visibility.lease : undefined;
