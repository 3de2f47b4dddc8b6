import type { Reason } from '@taskmaster/proto';

/** Observes every answered call, for metrics. */
export interface CallObserver {
  /** `reason` is undefined when the call succeeded. A lease's waiting time is part of its duration. */
  callEnded(method: string, reason: Reason | undefined, durationMs: number): void;
}
