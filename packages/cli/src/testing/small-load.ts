import type { RunSettings } from '../load/run/run-instance.ts';
import { DEFAULT_MIX } from '../load/workload/operations.ts';
import type { Workload } from '../load/workload/settings.ts';

/** A small load of one instance for two seconds. */
export const smallWorkload: Workload = {
  group: 'load',
  groups: 2,
  queues: 2,
  durationMs: 2_000,
  pace: { kind: 'depth', depth: 4 },
  mix: DEFAULT_MIX,
  batch: 1,
  payloadMinBytes: 64,
  payloadMaxBytes: 200,
  skew: 0.5,
  pids: 'fifo',
  leaseDurationMs: 500,
  waitMs: 0,
  delayMs: 200,
  backlog: 20,
  seed: 7,
};

export const smallRun: RunSettings = {
  workload: smallWorkload,
  instance: { index: 0, count: 1 },
  connections: 2,
  force: false,
  keep: false,
  startWithinMs: 1_000,
  verify: { clockSlackMs: 0, mostTasksHeld: 10_000, withinMs: 10_000 },
};
