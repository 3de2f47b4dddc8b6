import type { QueueName } from '@taskmaster/proto';
import { batchOf } from '../domain/batches.ts';
import type { Instant, LeaseToken, PartitionId, Pid, QueueId } from '../domain/ids.ts';
import { UpdateRefusal } from '../domain/refusal.ts';
import { AVAILABLE, type RetryPolicy, type TaskState, type Visibility } from '../domain/task.ts';
import { QueueLedger } from '../log/queue-ledger.ts';
import { planBatch, type UpdateView } from '../operations/plan-update.ts';
import { Queue } from '../queues/queue.ts';
import { type ItemSpec, type UpdateSpec, updateCommand } from './engine-harness.ts';

const NOW = 1_000_000 as Instant;
const MAIL = { group: '', name: 'mail' };
/** The payload of every task in the view. */
export const DATA = Buffer.from('data');

const newQueue = (name: QueueName, id: number): Queue =>
  new Queue(1 as PartitionId, new QueueLedger(id as QueueId, name));

const lease = (until: number): Visibility => {
  const holder = { worker: 'w', workerAddress: '127.0.0.1:1', since: 0 as Instant, suspects: 0 };
  return { kind: 'hidden', until: until as Instant, lease: holder };
};
const retry: RetryPolicy = { maxAttempts: 2, backoffInitialMs: 100, backoffMaxMs: 1000, deadLetterQueue: '' };

const state = (token: number, visibility: Visibility, more: Partial<TaskState> = {}): TaskState => {
  const attempts = token === 0 ? 0 : 1;
  const never = { enqueuedAt: 5 as Instant, dueAt: 5 as Instant, dataBytes: DATA.length, headerBytes: 0 };
  const rest = { retry: undefined, visibility, history: undefined };
  return { ...never, attempts, token: token as LeaseToken, ...rest, ...more };
};

/** The tasks of one queue: one task for each condition that a rule distinguishes. */
const conditions: Readonly<Record<string, TaskState>> = {
  fresh: state(0, AVAILABLE),
  delayed: state(0, { kind: 'hidden', until: (NOW + 10) as Instant, lease: undefined }),
  leased: state(7, lease(NOW + 10)),
  /** Its lease has ended, but no search has found that yet. */
  overdue: state(7, lease(NOW)),
  /** Its lease has ended and it is available again. */
  expired: state(7, AVAILABLE),
  first: state(7, lease(NOW + 10), { retry }),
  last: state(7, lease(NOW + 10), { retry, attempts: 2 }),
  /** The lease of its last attempt has ended, but no search has found that yet. */
  died: state(7, lease(NOW), { retry, attempts: 2 }),
};

interface PlanViewOptions {
  readonly payloads?: boolean;
  readonly canShowDue?: boolean;
}

export function planView({ payloads = true, canShowDue = true }: PlanViewOptions = {}): UpdateView {
  const mail = newQueue(MAIL, 1);
  mail.ledger.largestPid = 'overdue' as Pid;
  return {
    now: NOW,
    random: { next: () => 0.5 },
    queue: ({ name }) => (name === 'mail' ? mail : undefined),
    draftQueue: (name, drafts) => newQueue(name, 100 + drafts),
    known: (queue, pid) => {
      if (pid === 'unread') return { kind: 'unknown' };
      const known = queue === mail ? conditions[pid] : undefined;
      return known ? { kind: 'task', task: { state: known, data: undefined } } : { kind: 'absent' };
    },
    lastInOrder: () => ({ last: undefined }),
    canShowDue: () => canShowDue,
    payload: () => (payloads ? DATA : undefined),
  };
}

/** The plan of an update alone. */
export function plan(spec: UpdateSpec, view = planView()) {
  const made = planBatch(batchOf([updateCommand(spec)], undefined), view, () => undefined);
  if (made.kind !== 'planned') return made;
  const { outcome, draft } = made;
  const refusal = outcome.refusals.get(0);
  if (refusal instanceof UpdateRefusal) return { kind: 'refused' as const, items: refusal.items };
  const { changes, created } = draft;
  return { kind: made.kind, outcome, changes, created };
}

/** The result of a plan as text: one line for each refused item or change. */
export function told(spec: UpdateSpec, view = planView()): string[] {
  const made = plan(spec, view);
  if (made.kind === 'needs') return made.needs.map((need) => `needs ${'pid' in need ? need.pid : need.orderKey}`);
  if (made.kind === 'due') return [...made.queues].map(({ fullName }) => `due ${fullName}`);
  if (made.kind === 'refused') return made.items.map(({ index, reason }) => `${index} ${reason}`);
  return made.changes.map(({ queue, change }) => {
    const what = `${change.kind} ${queue.fullName}/${change.pid}`;
    if (change.kind === 'dequeue') return change.completed ? what : `${what} as dead`;
    const { visibility } = change.after;
    if (visibility.kind === 'available') return `${what} available`;
    return `${what} ${visibility.lease ? 'leased' : 'hidden'} for ${visibility.until - NOW}`;
  });
}

/** An item that names a task of the queue `mail`. */
export const of = (pid: string, token?: number): ItemSpec & { readonly pid: string } => ({ queue: 'mail', pid, token });
