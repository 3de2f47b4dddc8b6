/**
 * Tells that the caller no longer waits for an answer: an AbortSignal, or a smaller object. Ten thousand calls may wait, and
 * a controller with its signal and a listener takes half a KB.
 */
export interface CallSignal {
  readonly aborted: boolean;
  /** Why, where it says so. */
  readonly reason?: unknown;
  /** Calls back once. Not where it is aborted already. */
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}
