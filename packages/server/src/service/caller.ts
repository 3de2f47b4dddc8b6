import type { CallerAccess } from '../access/caller-access.ts';
import type { CallSignal } from '../domain/call-signal.ts';

/** The client that made a call. */
export interface Caller {
  /** `host:port`. */
  readonly address: string;
  /** Who the caller is, and what it may do. Ask it after a request is read and before it has any effect. */
  readonly access: CallerAccess;
  /** True if the caller no longer waits for the answer. */
  readonly gone: boolean;
  /** Aborted once `gone`. */
  readonly signal: CallSignal | undefined;
  /**
   * Call this before the call waits for tasks. Throws a `Refusal` if too many calls of the same connection or stream
   * already wait. Undefined: no limit. `recheck`: throws a `Refusal` if the caller has lost a right that the wait needs; then
   * the wait ends.
   */
  beginWaiting?(recheck?: () => void): void;
}
