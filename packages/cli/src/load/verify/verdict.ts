/** A breach of the contract that a history shows. */
export interface Violation {
  readonly message: string;
  /** The calls that show it, one in a line. */
  readonly history: string;
}

/** What the check of a history has found. */
export interface Verdict {
  /** Tasks whose enqueues were recorded. */
  readonly tasks: number;
  /** Recorded calls, by what is known of them. */
  readonly calls: { readonly succeeded: number; readonly refused: number; readonly unknown: number };
  /** Tasks that were in the queues at the end. */
  readonly tasksLeft: number;
  /** Largest number of tasks that the history held at a time. Its memory is in proportion to them. */
  readonly mostTasksHeld: number;
  /** Number of violations. */
  readonly violations: number;
  /** The first of them. */
  readonly shown: readonly Violation[];
}

/** Violations that are kept with their history. */
export const MOST_SHOWN = 20;
