import type { Instant } from './ids.ts';

/** How a task has ended, which is when it has left its queue. */
export interface TaskEnd {
  /** `unknown`: it is not in its queue, and has left no record. */
  readonly outcome: 'completed' | 'dead-lettered' | 'removed' | 'unknown';
  /** Undefined: it is not known. */
  readonly at: Instant | undefined;
  readonly attempts: number;
  /** Only of a completed task. Undefined: it has left none. */
  readonly result: Uint8Array | undefined;
  /** Message of the error of the last attempt of a dead letter. Undefined: the worker gave none, or its lease expired. */
  readonly error: string | undefined;
}

export const UNKNOWN_END: TaskEnd = {
  ...{ outcome: 'unknown', at: undefined, attempts: 0 },
  ...{ result: undefined, error: undefined },
};
