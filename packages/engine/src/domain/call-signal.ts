/**
 * Aborts when the caller no longer waits for the answer. It is an AbortSignal or a smaller object: ten thousand calls may wait,
 * and an AbortController with a listener takes half a KB (bench row B15).
 */
export interface CallSignal {
  readonly aborted: boolean;
  /** The reason of the abort, if there is one. */
  readonly reason?: unknown;
  /** Calls the listener once, on the abort. Never calls it if the signal is aborted already. */
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}
