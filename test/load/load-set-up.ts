import { type RunOutcome, type RunSettings, runInstance, smallRun } from '@taskmaster/cli/testing';
import { clientOver } from '@taskmaster/client';
import { sleep } from '@taskmaster/client/internal';
import type { TransportCallOptions } from '@taskmaster/client/transport';
import {
  type LeaseTasksResponse,
  type Method,
  methods,
  type QueueTotals,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
} from '@taskmaster/proto';
import { transportSetUp, VirtualTiming } from '../client/support/client-set-up.ts';
import { FaultyTransport } from '../client/support/faulty-transport.ts';

/** A transport that takes time, as a load needs: a closed loop would not end if none passed. */
export class SlowTransport extends FaultyTransport {
  latencyMs = 5;
  /** Changes an update before it is applied. */
  readonly changing: ((request: UpdateTasksRequest) => UpdateTasksRequest)[] = [];
  /** Called when an update was applied and is not yet answered. */
  readonly updated: ((request: UpdateTasksRequest, reply: UpdateTasksResponse) => Promise<void>)[] = [];
  readonly leased: ((reply: LeaseTasksResponse) => void | Promise<void>)[] = [];
  readonly #timing: VirtualTiming;

  constructor(engine: ReturnType<typeof transportSetUp>['engine'], timing: VirtualTiming) {
    super({ engine: engine.direct, timing, onCall: timing.onCall });
    this.#timing = timing;
  }

  override async unary<Q extends object, R>(
    method: Method<Q, R>,
    request: Q,
    options?: TransportCallOptions,
  ): Promise<R> {
    switch (method.key) {
      case 'updateTasks': {
        await sleep(this.#timing, this.latencyMs);
        const update = request as unknown as UpdateTasksRequest;
        const changed = this.changing.reduce((before, change) => change(before), update);
        const reply = await super.unary(methods.updateTasks, changed, options);
        for (const hook of this.updated) await hook(update, reply);
        return reply as R;
      }
      case 'leaseTasks': {
        await sleep(this.#timing, this.latencyMs);
        const reply = await super.unary(method, request, options);
        for (const hook of this.leased) await hook(reply as LeaseTasksResponse);
        return reply;
      }
      default:
        return super.unary(method, request, options);
    }
  }

  /** Each client of the load closes it, and the engine goes on. */
  override async close(): Promise<void> {}
}

export interface LoadSetUp {
  readonly timing: VirtualTiming;
  readonly transport: SlowTransport;
  readonly interrupt: AbortController;
  /** PIDs of a queue as text, in order. */
  pids(queue: string): Promise<string[]>;
  totals(): Promise<QueueTotals | undefined>;
  /** Changes tasks behind the back of the load. */
  change(request: Partial<UpdateTasksRequest>): Promise<unknown>;
  resetLeases(queue: string): Promise<unknown>;
  /** Starts an instance on virtual time. The test advances it. */
  start(settings?: Partial<RunSettings>, onStart?: () => void): Promise<RunOutcome>;
  /** Runs an instance to its end. */
  run(settings?: Partial<RunSettings>): Promise<RunOutcome>;
}

/** Instances of a load over an engine in memory. */
export function loadSetUp(): LoadSetUp {
  const timing = new VirtualTiming();
  const { engine } = transportSetUp(timing);
  const transport = new SlowTransport(engine, timing);
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
  const empty = { enqueue: [], dequeue: [], renew: [], release: [], requestId: Buffer.alloc(0), parts: [] };
  return {
    timing,
    transport,
    interrupt,
    pids: engine.pids,
    totals: async () =>
      (await (await engine.direct).unary(methods.getQueueStats, { queues: [], filter: undefined })).totals,
    change: async (request) => (await engine.direct).unary(methods.updateTasks, { ...empty, ...request }),
    resetLeases: async (queue) => (await engine.direct).unary(methods.resetLeases, { queue }),
    start,
    run: (settings) => toEnd(timing, start(settings)),
  };
}

/** Advances the time until the work has settled. */
export async function toEnd<T>(timing: VirtualTiming, work: Promise<T>): Promise<T> {
  let isSettled = false;
  const settling = work.finally(() => {
    isSettled = true;
  });
  settling.catch(() => {});
  while (!isSettled) await timing.advance(10);
  return settling;
}
