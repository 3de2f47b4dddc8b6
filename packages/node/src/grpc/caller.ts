/** Whoever made a call. */
export interface Caller {
  /** `host:port`. */
  readonly address: string;
  /** Whether nobody waits for the answer any more. */
  readonly gone: boolean;
  /** Aborted once `gone`. Made when asked for, which only calls that wait do. */
  readonly signal: AbortSignal | undefined;
}
