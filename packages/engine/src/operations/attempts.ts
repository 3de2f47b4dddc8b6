import { limits, type QueueName } from '@taskmaster/proto';
import type { EnqueueItem } from '../domain/commands.ts';
import { defaultDeadLetters } from '../domain/dead-letter-queues.ts';
import type { Instant, LeaseToken } from '../domain/ids.ts';
import type { QueueSettings } from '../domain/queue-settings.ts';
import {
  AVAILABLE,
  endsBy,
  type Failure,
  hasSuspects,
  NO_HISTORY,
  type RetryPolicy,
  type TaskError,
  type TaskHistory,
  type TaskState,
  type Visibility,
} from '../domain/task.ts';
import type { Random } from '../ports/random.ts';

/** The token of a task that no lease can complete. */
export const NO_TOKEN = 0 as LeaseToken;

type NewTask = Pick<EnqueueItem, 'data' | 'headerBytes' | 'retry'> &
  Partial<Pick<EnqueueItem, 'key' | 'given' | 'start' | 'links'>>;

/** Whether a new task has nothing to keep. */
const isPlain = ({ key, given, start, links }: NewTask): boolean =>
  key === undefined && given === undefined && start === undefined && links === undefined;

/** A new task, hidden until the instant if that is not past. */
export function newState(item: NewTask, now: Instant, dueAt: Instant): TaskState {
  const { data, headerBytes, retry } = item;
  return {
    enqueuedAt: now,
    dueAt,
    dataBytes: data.byteLength,
    headerBytes,
    attempts: 0,
    token: NO_TOKEN,
    retry,
    visibility: hiddenUntil(dueAt, now),
    history: isPlain(item) ? undefined : atStart({ ...item, startBy: item.start && startByOf(item.start, now) }),
  };
}

/** The state of a record of the group: a task in a reserved queue, hidden until an instant if one is given. */
export const recordState = (data: Uint8Array, now: Instant, until: Instant = now): TaskState =>
  newState({ data, headerBytes: 0, retry: undefined }, now, until);

/**
 * A task whose attempt failed: it goes to the dead-letter queue, goes because it was cancelled, or stays for a retry. Or the
 * attempt was interrupted and does not count.
 */
export interface AfterAttempt {
  readonly kind: 'dead' | 'cancelled' | 'retry' | 'interrupted';
  readonly state: TaskState;
}

/** How an attempt failed. */
export interface FailedAttempt {
  readonly endedAt: Instant;
  /** From the worker. It replaces the backoff. */
  readonly delayMs: number | undefined;
  /** From the worker. Undefined: it says nothing, or the lease expired. */
  readonly error: TaskError | undefined;
  readonly isExpired: boolean;
  /** True: the attempt was the last one, whatever the policy says. */
  readonly deadLetter: boolean;
}

/** The dead-letter queue of a task. Without the task's state: that of tasks whose policy names none. */
export function deadLetterQueueOf(queue: QueueName, settings: QueueSettings, state: TaskState | undefined): QueueName {
  const given = state?.retry?.deadLetterQueue || settings.retry.deadLetterQueue;
  return { group: queue.group, name: given && given !== queue.name ? given : defaultDeadLetters(queue.name) };
}

/** Number of attempts that a task may have. 0: no limit. A dead letter without a policy of its own has none. */
export const maxAttemptsOf = ({ retry, history }: TaskState, settings: QueueSettings): number =>
  retry === undefined && history?.origin !== undefined ? 0 : (retry ?? settings.retry).maxAttempts;

/**
 * True if the task does not run again after a failure of this attempt. A task that was enqueued again meanwhile has no last
 * attempt: its next one is for the later enqueue.
 */
function isLastAttempt(state: TaskState, settings: QueueSettings): boolean {
  const max = maxAttemptsOf(state, settings);
  const isLast = (max > 0 && state.attempts >= max) || state.history?.cancelled !== undefined;
  return isLast && !isToRunAgain(state);
}

/** True if the task leaves its queue when its lease expires. */
export const endsWithLease = (state: TaskState, settings: QueueSettings): boolean =>
  isLastAttempt(state, settings) && !isBlameless(state, settings);

/**
 * Whether an attempt whose lease expires does not count, because the worker may not have begun it, or has begun it together with
 * others that may be to blame.
 */
function isBlameless(state: TaskState, settings: QueueSettings): boolean {
  if (!hasSuspects(state) || cancelReasonOf(state) !== undefined) return false;
  return overTime(state, settings) === undefined && tooManyInterruptions(state) === undefined;
}

/** In how large a call a task may begin after its lease has expired: in half of the one that it was or would have been in. */
function suspicionAfter({ visibility, history }: TaskState): number {
  const suspects = visibility.kind === 'hidden' ? (visibility.lease?.suspects ?? 0) : 0;
  const half = Math.max(1, Math.floor(suspects / 2));
  // A suspected task whose worker did not tell that it begins has not begun.
  return history === undefined || history.suspicion === 0 ? half : Math.min(half, history.suspicion);
}

/** Why the task was cancelled. Undefined: it was not, or it was enqueued again since. */
export const cancelReasonOf = (state: TaskState): string | undefined =>
  isToRunAgain(state) ? undefined : state.history?.cancelled?.reason;

/** Whether the task was enqueued again since its latest lease began. */
export const isToRunAgain = ({ history }: TaskState): boolean => history?.rerun === true;

/**
 * The task as a new one, after the run during which it was enqueued again. It loses its token: a repeated completion must not
 * complete it. A dead letter stays one: it has no key here, and still knows the way back.
 */
export const asNew = (state: TaskState, now: Instant): TaskState => ({
  ...state,
  enqueuedAt: now,
  dueAt: now,
  attempts: 0,
  token: NO_TOKEN,
  visibility: AVAILABLE,
  history: state.history && atStart(state.history),
});

/** What a task has from its start. */
const atStart = ({ key, given, startBy, waits, links, origin }: Partial<TaskHistory>): TaskHistory | undefined => {
  const isEmpty = key === undefined && given === undefined && startBy === undefined && origin === undefined;
  if (isEmpty && waits === undefined && links === undefined) return undefined;
  return { ...NO_HISTORY, key, given, startBy, waits, links, origin };
};

const startByOf = (start: NonNullable<EnqueueItem['start']>, now: Instant): Instant =>
  'by' in start ? start.by : ((now + start.withinMs) as Instant);

/** What a task keeps from its first lease on, or when it has missed its start. */
export const withoutStart = (history: TaskHistory | undefined): TaskHistory | undefined =>
  history?.startBy === undefined ? history : kept({ ...history, startBy: undefined });

/**
 * What follows when the first attempt of a task has not begun in time: the dead-letter queue that its policy names, if it names
 * one; otherwise it ends as a cancelled one. Or when it has waited too long: what its wait says.
 */
export function afterMissedStart(
  before: TaskState,
  settings: QueueSettings,
): { readonly kind: 'dead' | 'cancelled'; readonly state: TaskState; readonly at: Instant; readonly reason: string } {
  const due = endsBy(before) ?? before.enqueuedAt;
  const at = Math.max(due, before.enqueuedAt) as Instant;
  const timeout = before.history?.startBy === due ? undefined : before.history?.waits?.timeout;
  const what = timeout === undefined ? 'not started by' : 'waited for signals until';
  const reason = timeout?.reason ?? `${what} ${new Date(due).toISOString()}`;
  const named = before.retry?.deadLetterQueue || settings.retry.deadLetterQueue;
  const isDead = timeout === undefined ? named !== '' : timeout.action === 'dead-letter';
  const failure = { at, attempt: before.attempts, worker: '', error: { message: reason, details: '' } };
  const history = { ...(before.history ?? NO_HISTORY), startBy: undefined, failures: [failure] };
  return { kind: isDead ? 'dead' : 'cancelled', state: { ...before, history }, at, reason };
}

/** What a task keeps when it is enqueued again, or leased (`rerun` false). */
export const withRerun = (history: TaskHistory | undefined, rerun: boolean): TaskHistory | undefined =>
  kept({ ...(history ?? NO_HISTORY), rerun });

/** What a task keeps when a worker reports progress. Empty: none. */
export const withProgress = (history: TaskHistory | undefined, text: string, at: Instant): TaskHistory | undefined =>
  kept({ ...(history ?? NO_HISTORY), progress: text === '' ? undefined : { at, text } });

/** What a task keeps when a worker leaves a checkpoint. Empty: none. */
export const withCheckpoint = (history: TaskHistory | undefined, bytes: Uint8Array): TaskHistory | undefined =>
  // A copy, because the bytes may be a view of a request of up to 4 MiB.
  kept({ ...(history ?? NO_HISTORY), checkpoint: bytes.byteLength === 0 ? undefined : Uint8Array.from(bytes) });

/** What a leased task keeps when it is cancelled: of several reasons the first one. It does not run again. */
export function withCancellation(history: TaskHistory | undefined, reason: string, at: Instant): TaskHistory {
  const isAnew = history?.cancelled === undefined || history.rerun;
  const cancelled = isAnew ? { at, reason } : history.cancelled;
  return { ...(history ?? NO_HISTORY), rerun: false, cancelled };
}

/** What a task keeps that was cancelled, and then enqueued again. */
export const withoutCancellation = (history: TaskHistory | undefined): TaskHistory | undefined =>
  history?.cancelled === undefined ? history : kept({ ...history, cancelled: undefined });

/** What a task keeps when it goes back from its dead-letter queue. */
export const withoutOrigin = (history: TaskHistory): TaskHistory | undefined =>
  kept({ ...history, origin: undefined, rerun: false, cancelled: undefined, interruptions: 0 });

/** Undefined if the history says nothing. */
function kept(history: TaskHistory): TaskHistory | undefined {
  const {
    key,
    given,
    startBy,
    waits,
    links,
    failures,
    origin,
    rerun,
    progress,
    checkpoint,
    interruptions,
    suspicion,
    cancelled,
  } = history;
  const isUntried = failures.length === 0 && interruptions + suspicion === 0 && !progress && !checkpoint;
  const isNew = origin === undefined && !rerun && isUntried && !cancelled;
  const isPlain = key === undefined && given === undefined && startBy === undefined && !waits && !links;
  return isNew && isPlain ? undefined : history;
}

/**
 * Decides what follows a failed attempt: the dead-letter queue, a retry after the backoff, counted from its end, or the end of a
 * cancelled task.
 */
export function afterFailedAttempt(
  before: TaskState,
  settings: QueueSettings,
  attempt: FailedAttempt,
  now: Instant,
  random: Random,
): AfterAttempt {
  if (attempt.isExpired && isBlameless(before, settings)) return { kind: 'interrupted', state: suspect(before) };
  const error = attempt.isExpired ? overTime(before, settings) : attempt.error;
  const state = withFailure(before, { ...attempt, error });
  const isAgain = isToRunAgain(state);
  if (cancelReasonOf(state) !== undefined) return { kind: 'cancelled', state };
  if (!isAgain && (attempt.deadLetter || isLastAttempt(state, settings))) return { kind: 'dead', state };
  const wait = attempt.delayMs ?? backoffMs(state.retry ?? settings.retry, state.attempts, random);
  const next = isAgain ? { ...state, attempts: 0, history: withoutCancellation(state.history) } : state;
  return { kind: 'retry', state: afterWait(next, attempt.endedAt, wait, now) };
}

/** Why an interrupted attempt counts as failed. Undefined: it does not count. */
export function tooManyInterruptions({ history }: TaskState): TaskError | undefined {
  const most = limits.interruptions;
  if (history === undefined || history.interruptions < most) return undefined;
  return { message: `interrupted more than ${most} times`, details: '' };
}

/**
 * The task without its attempt, which does not count: the work did not begin, or it was interrupted. If it was enqueued again
 * meanwhile, its attempts count anew.
 */
export function withoutAttempt(state: TaskState, isInterrupted: boolean): TaskState {
  const attempts = isToRunAgain(state) ? 0 : Math.max(0, state.attempts - 1);
  const history = withoutCancellation(state.history);
  if (!isInterrupted) return { ...state, attempts, history };
  const interruptions = (history?.interruptions ?? 0) + 1;
  return { ...state, attempts, history: { ...(history ?? NO_HISTORY), interruptions } };
}

/** The task after an attempt that another task may have ended. */
function suspect(before: TaskState): TaskState {
  const { history, ...state } = withoutAttempt(before, true);
  const suspicion = suspicionAfter(before);
  return { ...state, visibility: AVAILABLE, history: { ...(history ?? NO_HISTORY), suspicion } };
}

/**
 * Adds the failure to the history of the task. A release without an error leaves no trace. A release says that the worker lives,
 * so it ends a suspicion.
 */
function withFailure(state: TaskState, { endedAt, error, isExpired }: FailedAttempt): TaskState {
  if (error === undefined && !isExpired) return withoutSuspicion(state);
  const { visibility, attempts, history } = state;
  const worker = visibility.kind === 'hidden' ? (visibility.lease?.worker ?? '') : '';
  const earlier = history?.failures.slice(1 - limits.keptFailures).map(withoutDetails) ?? [];
  const failures = [...earlier, { at: endedAt, attempt: attempts, worker, error }];
  const suspicion = isExpired ? suspicionAfter(state) : 0;
  return { ...state, history: { ...(history ?? NO_HISTORY), failures, suspicion } };
}

const withoutSuspicion = (state: TaskState): TaskState =>
  state.history === undefined || state.history.suspicion === 0
    ? state
    : { ...state, history: kept({ ...state.history, suspicion: 0 }) };

const withoutDetails = (failure: Failure): Failure =>
  failure.error === undefined || failure.error.details === ''
    ? failure
    : { ...failure, error: { message: failure.error.message, details: '' } };

/**
 * Backoff with full jitter: a random time up to a bound that doubles with every attempt. Tasks that fail together are not
 * retried together.
 */
export function backoffMs(retry: RetryPolicy, attempts: number, random: Random): number {
  if (retry.backoffInitialMs === 0) return 0;
  const bound = Math.min(retry.backoffMaxMs, retry.backoffInitialMs * 2 ** Math.max(0, attempts - 1));
  return Math.ceil(random.next() * bound);
}

/** The task released at `from` and due `waitMs` later. With `waitMs` 0 it is available and its `dueAt` is unchanged. */
export function afterWait(state: TaskState, from: Instant, waitMs: number, now: Instant): TaskState {
  if (waitMs === 0) return { ...state, visibility: AVAILABLE };
  const dueAt = (from + waitMs) as Instant;
  return { ...state, dueAt, visibility: hiddenUntil(dueAt, now) };
}

/** Hidden without a lease until the instant; available if the instant is past. */
export const hiddenUntil = (until: Instant, now: Instant): Visibility =>
  until > now ? { kind: 'hidden', until, lease: undefined } : AVAILABLE;

/** How long one attempt may take, in ms. 0: there is no limit. That of a dead letter itself counts again when it is put back. */
export function timeLimitOf({ history }: TaskState, settings: QueueSettings): number {
  const own = history?.origin === undefined ? history?.given?.timeLimitMs : undefined;
  return own || settings.timeLimitMs;
}

/**
 * When a lease ends that began at `since` and is to last for `durationMs` from now on: at the time limit of its attempt, at the
 * latest. It does not get shorter than it was (`until`) because the settings have changed.
 */
export function leaseEnd(now: Instant, durationMs: number, limitMs: number, since: Instant, until: Instant): Instant {
  const end = now + durationMs;
  return (limitMs === 0 ? end : Math.min(end, Math.max(since + limitMs, until))) as Instant;
}

/** The error of an attempt whose lease has ended because of the time limit. Undefined: it has ended before. */
function overTime(state: TaskState, settings: QueueSettings): TaskError | undefined {
  const { visibility } = state;
  const limitMs = timeLimitOf(state, settings);
  if (limitMs === 0 || visibility.kind !== 'hidden' || visibility.lease === undefined) return undefined;
  if (visibility.until < visibility.lease.since + limitMs) return undefined;
  return { message: `the attempt exceeded its time limit of ${limitMs} ms`, details: '' };
}
