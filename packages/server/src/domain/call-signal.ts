/**
 * Tells that nobody waits for an answer any more: an AbortSignal, or something smaller. Of those that wait there may be ten
 * thousand, and a controller, its signal and a listener are half a KB.
 */
export interface CallSignal {
  readonly aborted: boolean;
  /** Why, where it says so. */
  readonly reason?: unknown;
  /** Calls back once. Not where it is aborted already. */
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}
