import { clientOver } from '@taskmaster/client';
import { sleep, type Timing } from '@taskmaster/client/internal';
import { FakeTransport, ManualTiming } from '@taskmaster/client/testing';
import type { TransportCallOptions } from '@taskmaster/client/transport';
import type { LeaseTasksResponse, UpdateTasksRequest, UpdateTasksResponse } from '@taskmaster/proto';
import type { RunOutcome, RunSettings } from '../load/run/run-instance.ts';
import { runInstance } from '../load/run/run-instance.ts';
import { DEFAULT_MIX } from '../load/workload/operations.ts';
import type { Workload } from '../load/workload/settings.ts';

/** A transport that takes time, as a load needs: a closed loop would not end if none passed. */
export class SlowTransport extends FakeTransport {
  latencyMs = 5;
  /** Changes an update before it is applied. */
  readonly changing: ((request: UpdateTasksRequest) => UpdateTasksRequest)[] = [];
  /** Called when an update was applied and is not yet answered. */
  readonly updated: ((request: UpdateTasksRequest, reply: UpdateTasksResponse) => void)[] = [];
  readonly leased: ((reply: LeaseTasksResponse) => void)[] = [];
  readonly #timing: Timing;

  constructor(timing: Timing) {
    super(timing);
    this.#timing = timing;
  }

  override async updateTasks(
    request: UpdateTasksRequest,
    options?: TransportCallOptions,
  ): Promise<UpdateTasksResponse> {
    await sleep(this.#timing, this.latencyMs);
    const changed = this.changing.reduce((before, change) => change(before), request);
    const reply = await super.updateTasks(changed, options);
    for (const hook of this.updated) hook(request, reply);
    return reply;
  }

  /** Each client of the load closes it, and the engine goes on. */
  override async close(): Promise<void> {}

  override async leaseTasks(
    request: Parameters<FakeTransport['leaseTasks']>[0],
    options?: TransportCallOptions,
  ): Promise<LeaseTasksResponse> {
    await sleep(this.#timing, this.latencyMs);
    const reply = await super.leaseTasks(request, options);
    for (const hook of this.leased) hook(reply);
    return reply;
  }
}

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

export interface LoadSetUp {
  readonly timing: ManualTiming;
  readonly transport: SlowTransport;
  readonly interrupt: AbortController;
  /** Starts an instance on virtual time. The test advances it. */
  start(settings?: Partial<RunSettings>, onStart?: () => void): Promise<RunOutcome>;
  /** Runs an instance to its end. */
  run(settings?: Partial<RunSettings>): Promise<RunOutcome>;
}

/** Instances of a load over a fake engine in this thread. */
export function loadSetUp(): LoadSetUp {
  const timing = new ManualTiming();
  const transport = new SlowTransport(timing);
  const interrupt = new AbortController();
  const start: LoadSetUp['start'] = (settings = {}, onStart = () => {}) =>
    runInstance(
      { ...smallRun, ...settings },
      {
        timing,
        runId: 'run1',
        signal: interrupt.signal,
        onStart,
        open: async ({ onRetry, retry }) =>
          clientOver(transport, { onCallRetried: onRetry, retry }, { timing, random: () => 0.5 }),
      },
    );
  return { timing, transport, interrupt, start, run: (settings) => toEnd(timing, start(settings)) };
}

/** Advances the time until the work has settled. */
export async function toEnd<T>(timing: ManualTiming, work: Promise<T>): Promise<T> {
  let isSettled = false;
  const settling = work.finally(() => {
    isSettled = true;
  });
  settling.catch(() => {});
  while (!isSettled) await timing.advance(10);
  return settling;
}
