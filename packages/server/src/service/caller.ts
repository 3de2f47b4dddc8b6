import type { CallSignal } from '../domain/call-signal.ts';

/** Whoever made a call. */
export interface Caller {
  /** `host:port`. */
  readonly address: string;
  /** Whether nobody waits for the answer any more. */
  readonly gone: boolean;
  /** Aborted once `gone`. */
  readonly signal: CallSignal | undefined;
  /**
   * To be called before it waits for tasks. Throws a `Refusal` where too many calls that came the same way do. Undefined:
   * as many may as like.
   */
  beginWaiting?(): void;
}
