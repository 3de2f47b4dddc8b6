import type { LeaseFrom, LeaseSource, SeveralQueues } from '../../tasks/lease-source.ts';
import { sourceOf } from '../../tasks/lease-source.ts';
import type { QueueRef } from '../../tasks/new-task.ts';
import type { StopOptions } from '../../values/options.ts';
import type { Worker } from '../../worker/worker.ts';
import type { RunOptions } from '../../worker/worker-options.ts';

/**
 * Workers of several clients with one handler. `SpreadQueue.worker()` makes one. A client that is down does not stop the
 * others.
 */
export class SpreadWorker<T> implements AsyncDisposable {
  readonly #workers: readonly Worker<T>[];

  /** Internal: use `SpreadQueue.worker()`. */
  constructor(workers: readonly Worker<T>[]) {
    this.#workers = workers;
  }

  /** Number of tasks that are handled now. */
  get active(): number {
    return this.#workers.reduce((sum, { active }) => sum + active, 0);
  }

  /** Starts to lease and handle tasks. @throws TypeError if the worker was started before. */
  start(): void {
    for (const worker of this.#workers) worker.start();
  }

  /** Runs until the signal is aborted, `stop()` is called, or one of the workers fails. See `Worker.run`. */
  async run(options: RunOptions = {}): Promise<void> {
    try {
      await Promise.all(this.#workers.map((worker) => worker.run(options)));
    } finally {
      await this.stop({ timeout: options.stopTimeout });
    }
  }

  /** Stops all workers. See `Worker.stop`. */
  async stop(options: StopOptions = {}): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.stop(options)));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/** Leases from all queues, and from each one first in turn. */
export function inTurn<T>(queues: readonly (QueueRef<T> | SeveralQueues<T>)[]): LeaseSource<T> {
  if (queues.length === 1) return sourceOf(queues);
  let turn = 0;
  return async (most): Promise<LeaseFrom<T>> => {
    const first = turn++ % queues.length;
    const from = await sourceOf([...queues.slice(first), ...queues.slice(0, first)])(most);
    return { ...from, anyOrder: true };
  };
}
