import type { Caller } from '../calls/caller.ts';
import type { UpdateJoiner } from '../calls/update-joiner.ts';
import type { LeaseKeeper } from '../leases/lease-keeper.ts';
import type { LoopWatch } from '../leases/loop-watch.ts';
import type { Timing } from '../transport/timing.ts';
import type { ClientSettings, StopOptions } from '../values/options.ts';

/** What the parts of one client share. */
export interface ClientContext {
  readonly caller: Caller;
  readonly settings: ClientSettings;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** Carries updates out. */
  readonly updates: UpdateJoiner;
  readonly keeper: LeaseKeeper;
  readonly loop: LoopWatch;
  /** Work that nobody awaits, but that the client finishes before it closes. */
  readonly background: Set<Promise<unknown>>;
  /** Workers that run; stopped before the client closes. */
  readonly workers: Set<{ stop(options: StopOptions): Promise<void> }>;
}
