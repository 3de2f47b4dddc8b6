import type { Instant } from './ids.ts';

/** How a task has ended, which is when it has left its queue; or why the wait of its worker has ended. */
export interface TaskEnd {
  /**
   * `unknown`: it is not in its queue, and has left no record. `cancel-requested` and `lease-lost`: it is in its queue, but the
   * worker that waits should stop.
   */
  readonly outcome:
    | 'completed'
    | 'dead-lettered'
    | 'removed'
    | 'cancelled'
    | 'unknown'
    | 'cancel-requested'
    | 'lease-lost';
  /** Undefined: it is not known. */
  readonly at: Instant | undefined;
  readonly attempts: number;
  /** Only of a completed task. Undefined: it has left none. */
  readonly result: Uint8Array | undefined;
  /** Message of the error of the last attempt of a dead letter. Undefined: there is none, or its lease expired. */
  readonly error: string | undefined;
  /** Why it was cancelled. Undefined: it was not. */
  readonly cancelReason: string | undefined;
}

export const UNKNOWN_END: TaskEnd = {
  outcome: 'unknown',
  at: undefined,
  attempts: 0,
  result: undefined,
  error: undefined,
  cancelReason: undefined,
};
