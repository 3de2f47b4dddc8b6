import type { CallSignal } from '../domain/call-signal.ts';

/** The client that made a call. */
export interface Caller {
  /** `host:port`. */
  readonly address: string;
  /** True if the caller no longer waits for the answer. */
  readonly gone: boolean;
  /** Aborted once `gone`. */
  readonly signal: CallSignal | undefined;
  /**
   * Call this before the call waits for tasks. Throws a `Refusal` if too many calls of the same connection or stream
   * already wait. Undefined: no limit.
   */
  beginWaiting?(): void;
}
