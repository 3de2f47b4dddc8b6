import type { RetryingCalls } from '../calls/retrying-calls.ts';
import type { CancelWatch } from '../leases/cancel-watch.ts';
import type { LeaseKeeper } from '../leases/lease-keeper.ts';
import type { LoopWatch } from '../leases/loop-watch.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import type { Timing } from '../transport/timing.ts';
import type { ClientSettings, StopOptions } from '../values/options.ts';

/** Parts that the objects of one client share. */
export interface ClientContext {
  readonly calls: RetryingCalls;
  readonly settings: ClientSettings;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** Sends updates and leases, and records them. */
  readonly telemetry: Telemetry;
  readonly keeper: LeaseKeeper;
  readonly cancellations: CancelWatch;
  readonly loop: LoopWatch;
  /** Background work that the client finishes before it closes. */
  readonly background: Set<Promise<unknown>>;
  /** Running workers. The client stops them before it closes. */
  readonly workers: Set<{ stop(options: StopOptions): Promise<void> }>;
}

/** Internal: key of the context of a queue. */
export const CONTEXT = Symbol('taskmaster.context');
