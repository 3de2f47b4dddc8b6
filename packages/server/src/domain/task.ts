import type { Instant, LeaseToken } from './ids.ts';

/** A queue's dead-letter queue is called as the queue, with this behind it, unless its tasks name another. */
export const DEAD_LETTER_SUFFIX = '.dead';

/** What happens when an attempt fails: the task's lease expires or is released. */
export interface RetryPolicy {
  /** Leases before the task goes to the dead-letter queue; 0: no limit. */
  readonly maxAttempts: number;
  /** Backoff after the first failed attempt, in ms; doubles with each; 0: none. */
  readonly backoffInitialMs: number;
  /** In ms. */
  readonly backoffMaxMs: number;
  /** Name within the task's own group; empty: the queue's name followed by `.dead`. */
  readonly deadLetterQueue: string;
}

/** Who has a task. */
export interface Lease {
  /** `host:port`, as the node sees it. */
  readonly workerAddress: string;
  readonly worker: string;
  readonly since: Instant;
}

/** Lease, delay and backoff are one thing: hidden until an instant. A lease also names its holder. */
export type Visibility =
  | { readonly kind: 'available' }
  | { readonly kind: 'hidden'; readonly until: Instant; readonly lease: Lease | undefined };

export const AVAILABLE: Visibility = { kind: 'available' };

/** Everything about a task but its payload. Never changed in place: every change makes a new one. */
export interface TaskState {
  readonly enqueuedAt: Instant;
  /** The end of its latest delay or backoff; when it was enqueued, if it has had none. */
  readonly dueAt: Instant;
  /** Length of the payload. */
  readonly dataBytes: number;
  /** How many times it has been leased. */
  readonly attempts: number;
  /** Of the latest lease; 0: never leased. */
  readonly token: LeaseToken;
  readonly retry: RetryPolicy | undefined;
  readonly visibility: Visibility;
}

/** Whether it is leased and the lease has not ended, whoever has noticed the end. */
export const isLeasedAt = ({ visibility }: TaskState, now: Instant): boolean =>
  visibility.kind === 'hidden' && visibility.lease !== undefined && visibility.until > now;

/** Since when somebody could have had it, or has it; undefined while it is delayed. */
export const dueSince = (state: TaskState): Instant | undefined =>
  state.visibility.kind === 'hidden' && state.visibility.lease === undefined ? undefined : state.dueAt;

export const isLeased = (state: TaskState): boolean =>
  state.visibility.kind === 'hidden' && state.visibility.lease !== undefined;
