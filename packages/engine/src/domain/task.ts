import { limits } from '@taskmaster/proto';
import type { Instant, LeaseToken, Pid } from './ids.ts';

/** The default dead-letter queue has the name of the queue with this suffix. */
export const DEAD_LETTER_SUFFIX = '.dead';

/** The rules for failed attempts. An attempt fails if its lease expires or is released. */
export interface RetryPolicy {
  /** Number of attempts before the task goes to the dead-letter queue. 0: no limit. */
  readonly maxAttempts: number;
  /** Backoff after the first failed attempt, in ms. It doubles with each attempt. 0: none. */
  readonly backoffInitialMs: number;
  /** Upper limit of the backoff, in ms. */
  readonly backoffMaxMs: number;
  /** Name within the group of the task. Empty: that of the queue's settings, or the default; see `DEAD_LETTER_SUFFIX`. */
  readonly deadLetterQueue: string;
}

/**
 * The policy of tasks that have none, in queues whose settings have none. A task that always fails must end some day, and one
 * whose service is down for some hours must not.
 */
export const DEFAULT_RETRY: RetryPolicy = {
  maxAttempts: limits.defaultMaxAttempts,
  backoffInitialMs: limits.defaultBackoffInitialMs,
  backoffMaxMs: limits.defaultBackoffMaxMs,
  deadLetterQueue: '',
};

/** The worker that has leased a task. */
export interface Lease {
  /** `host:port`, as seen by the node. */
  readonly workerAddress: string;
  readonly worker: string;
  readonly since: Instant;
  /**
   * 0: the worker has begun the task, so the attempt has failed if the lease expires. Otherwise one of several tasks may be to
   * blame: the call of the handler that has or will have this task has up to so many tasks.
   */
  readonly suspects: number;
}

/** A lease, a delay and a backoff all hide a task until an instant. A lease also names its worker. */
export type Visibility =
  | { readonly kind: 'available' }
  | { readonly kind: 'hidden'; readonly until: Instant; readonly lease: Lease | undefined };

export const AVAILABLE: Visibility = { kind: 'available' };

/** A parked task without a timeout is hidden until then. It has no entry in the index of due times. */
export const NEVER = Number.MAX_SAFE_INTEGER as Instant;
/** Before every instant of a clock. */
export const LONG_AGO = 0 as Instant;

/** A failed attempt. */
export interface Failure {
  readonly at: Instant;
  readonly attempt: number;
  /** Label of the worker. */
  readonly worker: string;
  /** What the worker says, or that the time limit was exceeded. Undefined: the lease expired. */
  readonly error: TaskError | undefined;
}

export interface TaskError {
  readonly message: string;
  /** Kept only in the latest failure. */
  readonly details: string;
}

/**
 * What a task is given when it is enqueued and keeps as it is, with the names that the protocol has for it. The enqueue, the
 * state and the history of a task share one object, and tasks that are given nothing have none.
 */
export interface TaskGiven {
  /** How long one attempt may take, in ms. 0: as the queue's settings say. */
  readonly timeLimitMs: number;
  /** What limits and fair turns of keys count it by. Empty: nothing. */
  readonly limitKey: string;
  /** What a worker must be able to run. Undefined or empty: nothing. */
  readonly kind?: string | undefined;
}

export const NOTHING_GIVEN: TaskGiven = { timeLimitMs: 0, limitKey: '', kind: undefined };

/** What is given in a message. Undefined: nothing. */
export const givenIn = ({ timeLimitMs, limitKey, kind }: TaskGiven): TaskGiven | undefined =>
  timeLimitMs === 0 && limitKey === '' && !kind ? undefined : { timeLimitMs, limitKey, kind: kind || undefined };

/** What happens to a task that has waited too long for its signals. */
export type AfterTimeout = 'run' | 'dead-letter' | 'cancel';

/**
 * What a task waits for, beside its time. It is parked, which is hidden without a lease, as long as it waits for any of it.
 * What is left of the wait stays with the task, because its box of signals goes with it.
 */
export interface TaskWaits {
  /** How many signals must still come. 0: it waits for none. */
  readonly signals: number;
  /** True: a task with its order key is before it. */
  readonly order: boolean;
  /** What happens when it has waited for signals until then. Undefined: it waits for as long as it takes. */
  readonly timeout: WaitTimeout | undefined;
  /** Whether its box keeps what its children have left. */
  readonly collect: boolean;
  /** True: it has a box with the signals that came; see `signal-box.ts`. */
  readonly box: boolean;
}

interface WaitTimeout {
  readonly at: Instant;
  readonly action: AfterTimeout;
  /** Set: it does not wait any more, because a child has failed. Why. */
  readonly reason: string | undefined;
}

/** What the end of a child does to its parent if the child was not completed. */
export type OnFailure = 'fail' | 'continue' | 'retry';

/** A task that waits for this one. */
export interface TaskParent {
  /** Name within the group. */
  readonly queue: string;
  /** Empty: it is named by its key. */
  readonly pid: Pid;
  readonly key: string | undefined;
  readonly onFailure: OnFailure;
}

/** How a task is connected with others. */
export interface TaskLinks {
  /** The tasks that wait for it. */
  readonly parents: readonly TaskParent[];
  /** Tasks of a queue with the same order key run one after the other. */
  readonly orderKey: string | undefined;
  /** The tasks with its order key that were enqueued just before and after it. Undefined: there is none, or it has ended. */
  readonly before: Pid | undefined;
  readonly after: Pid | undefined;
}

export const NO_PARENTS: readonly TaskParent[] = [];
export const NO_LINKS: TaskLinks = { parents: NO_PARENTS, orderKey: undefined, before: undefined, after: undefined };

/** What some tasks have: what they keep of their past, a key, and what they were given. */
export interface TaskHistory {
  /** Identity within the queue, apart from the PID. */
  readonly key: string | undefined;
  readonly given: TaskGiven | undefined;
  /** Set until its first lease: it does not run if that has not begun by then. */
  readonly startBy: Instant | undefined;
  readonly waits: TaskWaits | undefined;
  readonly links: TaskLinks | undefined;
  /** The last ones, the latest last. */
  readonly failures: readonly Failure[];
  /** Where the task was before it came to this dead-letter queue. */
  readonly origin: TaskOrigin | undefined;
  /** True: it was enqueued again since its latest lease began, so it must run again when it is completed by that lease. */
  readonly rerun: boolean;
  /** What a worker has reported last. */
  readonly progress: Progress | undefined;
  /** With what the next attempt continues, as a worker has said last. */
  readonly checkpoint: Uint8Array | undefined;
  /** How many of its attempts did not count because they were interrupted. */
  readonly interruptions: number;
  /**
   * Above 0: its lease has expired, so it may have killed a worker. The next one tells that it begins the task before it does, in
   * a call with at most so many tasks.
   */
  readonly suspicion: number;
  /** Set: it was cancelled while it was leased, so it is removed when its attempt ends. */
  readonly cancelled: { readonly at: Instant; readonly reason: string } | undefined;
}

/** The place of a dead letter before its last attempt failed. */
interface TaskOrigin {
  readonly queue: string;
  readonly retry: RetryPolicy | undefined;
  /** Its PID there, and when its last attempt ended. Undefined: an earlier build wrote the row, and the PID is the same. */
  readonly died: { readonly pid: Pid; readonly at: Instant } | undefined;
}

export const NO_HISTORY: TaskHistory = {
  key: undefined,
  given: undefined,
  startBy: undefined,
  waits: undefined,
  links: undefined,
  failures: [],
  origin: undefined,
  rerun: false,
  progress: undefined,
  checkpoint: undefined,
  interruptions: 0,
  suspicion: 0,
  cancelled: undefined,
};

/**
 * What rows and counters depend on, of the history of an earlier state. Undefined: nothing. A log entry has only this of the
 * states before its changes.
 */
export function countedHistory(history: TaskHistory | undefined): TaskHistory | undefined {
  if (history === undefined) return undefined;
  const { given, startBy, waits } = history;
  const orderKey = lastOf(history);
  if (startBy === undefined && waits === undefined && orderKey === undefined && !isApart(given)) return undefined;
  const links = orderKey === undefined ? undefined : { ...NO_LINKS, orderKey };
  return { ...NO_HISTORY, given: givenLane(given), startBy, waits, links };
}

/**
 * The order key with which the task is the last one in its queue. Undefined: it has none, or another task is behind it. A dead
 * letter is in no order.
 */
export function lastOf(history: TaskHistory | undefined): string | undefined {
  const links = history?.links;
  return links === undefined || links.after !== undefined || history?.origin !== undefined ? undefined : links.orderKey;
}

/** What tells the lane of a task, of what is given. Undefined: it is in none. */
const givenLane = (given: TaskGiven | undefined): TaskGiven | undefined =>
  isApart(given) ? { ...NOTHING_GIVEN, limitKey: given.limitKey, kind: given.kind } : undefined;

export interface Progress {
  readonly at: Instant;
  readonly text: string;
}

/** The state of a task, without its payload. Immutable: every change creates a new one. */
export interface TaskState {
  readonly enqueuedAt: Instant;
  /** End of the latest delay or backoff. If it had none: the instant of the enqueue. */
  readonly dueAt: Instant;
  /** Size of the stored payload, in bytes. */
  readonly dataBytes: number;
  /** How many of these bytes are headers; see `Payload`. */
  readonly headerBytes: number;
  /** Number of leases so far, without those whose attempt was taken back. */
  readonly attempts: number;
  /** Token of the latest lease. 0: never leased. */
  readonly token: LeaseToken;
  /** Undefined: the policy of the queue's settings. */
  readonly retry: RetryPolicy | undefined;
  readonly visibility: Visibility;
  /** Undefined: there is nothing to keep. */
  readonly history: TaskHistory | undefined;
}

/** Bytes of the history in the reply to a lease: of keys and kind, and of the progress and the checkpoint of earlier attempts. */
export function leasedHistoryBytes(history: TaskHistory | undefined): number {
  if (history === undefined) return 0;
  const { progress, key, given, links, checkpoint } = history;
  const kept = Buffer.byteLength(progress?.text ?? '') + Buffer.byteLength(key ?? '') + (checkpoint?.byteLength ?? 0);
  return kept + textBytes(given?.kind) + textBytes(given?.limitKey) + textBytes(links?.orderKey);
}

/** With the tag and the length. */
const textBytes = (text: string | undefined): number => (text ? Buffer.byteLength(text) + 4 : 0);

/** Whether the task has a lease that has not ended at `now`. */
export const isLeasedAt = ({ visibility }: TaskState, now: Instant): boolean =>
  visibility.kind === 'hidden' && visibility.lease !== undefined && visibility.until > now;

/** When something happens to the task by itself: a search shows it then, or ends it. Undefined: nothing does. */
export function dueOf({ visibility, history }: TaskState): Instant | undefined {
  const startBy = history?.startBy;
  if (visibility.kind === 'available') return startBy;
  if (startBy === undefined) return visibility.until === NEVER ? undefined : visibility.until;
  return Math.min(visibility.until, startBy) as Instant;
}

/** Whether the task waits for something other than its time. */
export const isParked = ({ history }: TaskState): boolean =>
  history?.waits !== undefined && (history.waits.signals > 0 || history.waits.order);

/**
 * When the task leaves its queue by itself, because its first attempt has not begun by then or it has waited too long. Undefined:
 * it does not.
 */
export function endsBy({ history }: TaskState): Instant | undefined {
  if (history === undefined) return undefined;
  const { startBy, waits } = history;
  const timeout = waits?.timeout;
  if (timeout === undefined || timeout.action === 'run') return startBy;
  return startBy !== undefined && startBy < timeout.at ? startBy : timeout.at;
}

/** Whether the time is over in which its first attempt could begin. */
export function isTooLate(state: TaskState, now: Instant): boolean {
  const at = endsBy(state);
  return at !== undefined && at <= now;
}

/** The instant from which a worker could lease the task. Undefined while it is delayed. */
export const dueSince = (state: TaskState): Instant | undefined =>
  state.visibility.kind === 'hidden' && state.visibility.lease === undefined ? undefined : state.dueAt;

/** Whether another task may be to blame if the lease of the task expires; see `Lease`. */
export const hasSuspects = ({ visibility }: TaskState): boolean =>
  visibility.kind === 'hidden' && visibility.lease !== undefined && visibility.lease.suspects > 0;

/** Undefined: it has none. */
export const limitKeyOf = ({ history }: TaskState): string | undefined => history?.given?.limitKey || undefined;

/** Undefined: it has none. */
export const kindOf = ({ history }: TaskState): string | undefined => history?.given?.kind || undefined;

/** What tasks with a limit key or a kind wait by. */
export type LaneName = Pick<TaskGiven, 'limitKey' | 'kind'>;

const isApart = (given: LaneName | undefined): given is LaneName & TaskGiven =>
  given !== undefined && (given.limitKey !== '' || !!given.kind);

/** The lane in which it waits while it is available. Undefined: it waits in the head of its queue. */
export function laneOf({ history }: TaskState): LaneName | undefined {
  const given = history?.given;
  return isApart(given) ? given : undefined;
}

/** Whether it is in the head of its queue: available tasks with a limit key or a kind wait apart, by both. */
export const isInHead = (state: TaskState): boolean =>
  state.visibility.kind === 'available' && laneOf(state) === undefined;

export const isLeased = (state: TaskState): boolean =>
  state.visibility.kind === 'hidden' && state.visibility.lease !== undefined;
