import { createHistogram } from 'node:perf_hooks';
import { bytesCodec, connect, isTaskMasterError, type Queue, type TaskMasterClient } from '@taskmaster/client';
import type { PacedResult } from '../measurement.ts';
import type { Job } from './jobs.ts';
import { routingOf } from './operations.ts';
import { payload } from './payload.ts';
import { LoadMeter } from './run-loop.ts';
import { LEASE_MS } from './stub-calls.ts';

type JobOf<Kind extends Job['kind']> = Extract<Job, { readonly kind: Kind }>;

/** Limit of the rounds in progress, so that a server that does not answer cannot fill this process's memory. */
const MOST_ROUNDS = 20_000;

/**
 * Load at a fixed rate. Rounds begin when they are due, even if earlier ones are not answered yet. So a pause of the server
 * appears in the latency of every call that is due during it.
 */
export class PacedLoad {
  #stop: (() => void) | undefined;

  stop(): void {
    this.#stop?.();
  }

  async run({ endpoint, via, queues: names, batch, tasksPerS, ms }: JobOf<'paced'>): Promise<PacedResult> {
    let repeated = 0;
    const onRetry = (): void => void repeated++;
    await using client = await connect({ endpoints: endpoint, routing: routingOf(via), onCallRetried: onRetry });
    const queues = names.map((name) => client.queue(name, { codec: bytesCodec }));
    const calls = new Calls();
    const meter = new LoadMeter();
    const rounds = new Set<Promise<void>>();
    const begin = (queue: Queue<Uint8Array>, due: number): void => {
      const round = oneRound(client, queue, batch, calls, due)
        .then((tasks) => meter.record(tasks))
        .finally(() => rounds.delete(round));
      rounds.add(round);
    };
    const stopped = new Promise<void>((resolve) => {
      this.#stop = resolve;
    });
    const pace = new Pace((batch * 1000) / tasksPerS, (number, due) => {
      const queue = queues[number % queues.length];
      if (queue !== undefined && rounds.size < MOST_ROUNDS) begin(queue, due);
    });
    const timer = setTimeout(() => this.#stop?.(), ms);
    await stopped;
    clearTimeout(timer);
    pace.stop();
    await Promise.all(rounds);
    return { ...meter.result(), ...calls.figures(), repeated };
  }
}

/** Enqueues, leases and completes tasks. Resolves with the number of completed tasks. */
async function oneRound(
  client: TaskMasterClient,
  queue: Queue<Uint8Array>,
  batch: number,
  calls: Calls,
  due: number,
): Promise<number> {
  const tasks = Array.from({ length: batch }, () => ({ data: payload() }));
  await calls.time(due, () => queue.enqueueMany(tasks));
  const leased =
    (await calls.time(performance.now(), () => queue.lease({ max: batch, leaseDuration: LEASE_MS }))) ?? [];
  if (leased.length === 0) return 0;
  const update = client.update();
  for (const task of leased) update.complete(task);
  const completed = await calls.time(performance.now(), () => update.commit());
  return completed === undefined ? 0 : leased.length;
}

/** The calls with their latencies and failures. */
class Calls {
  readonly #latencies = createHistogram();
  #failed = 0;
  readonly #reasons: Record<string, number> = {};

  /** Makes a call and measures its latency. Resolves with undefined if it failed. */
  async time<Reply>(began: number, call: () => Promise<Reply>): Promise<Reply | undefined> {
    try {
      return await call();
    } catch (error) {
      if (!isTaskMasterError(error)) throw error;
      this.#failed++;
      this.#reasons[error.reason] = (this.#reasons[error.reason] ?? 0) + 1;
      return undefined;
    } finally {
      this.#latencies.record(Math.max(1, Math.round((performance.now() - began) * 1e6)));
    }
  }

  figures(): Pick<PacedResult, 'calls' | 'failed' | 'reasons' | 'p50Ms' | 'p99Ms' | 'maxMs'> {
    const latencies = this.#latencies;
    return {
      calls: latencies.count,
      failed: this.#failed,
      reasons: this.#reasons,
      p50Ms: latencies.percentile(50) / 1e6,
      p99Ms: latencies.percentile(99) / 1e6,
      maxMs: latencies.max / 1e6,
    };
  }
}

/** Calls back at a fixed rate. Callbacks that a busy event loop has delayed follow at once. */
class Pace {
  readonly #intervalMs: number;
  readonly #tick: (number: number, due: number) => void;
  readonly #began = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #number = 0;

  constructor(intervalMs: number, tick: (number: number, due: number) => void) {
    this.#intervalMs = intervalMs;
    this.#tick = tick;
    this.#go();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #go(): void {
    for (;;) {
      const due = this.#began + this.#number * this.#intervalMs;
      const left = due - performance.now();
      if (left > 0) {
        this.#timer = setTimeout(() => this.#go(), left);
        return;
      }
      this.#tick(this.#number++, due);
    }
  }
}
