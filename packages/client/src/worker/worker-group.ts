import type { LeasedTask } from '../tasks/leased-task.ts';
import type { StopOptions } from '../values/options.ts';
import type { Middleware } from './middleware.ts';
import type { Worker } from './worker.ts';
import type { RunOptions } from './worker-options.ts';

/**
 * Several workers as one: those of queues with a handler each (`client.workers()`), or those of several clients
 * (`SpreadQueue.worker()`). A client that is down does not stop the others.
 */
export class WorkerGroup<T, Given = LeasedTask<T>> implements AsyncDisposable {
  /** The workers, in the order of their handlers, for example to change the `concurrency` of one. */
  readonly workers: readonly Worker<T, Given>[];

  /** Internal: use `client.workers()` or `SpreadQueue.worker()`. */
  constructor(workers: readonly Worker<T, Given>[]) {
    this.workers = workers;
  }

  /** Number of tasks that are handled now. */
  get active(): number {
    return this.workers.reduce((sum, { active }) => sum + active, 0);
  }

  /** Whether all of them are paused. */
  get isPaused(): boolean {
    return this.workers.every(({ isPaused }) => isPaused);
  }

  /** Adds middleware to all workers. See `Worker.use`. */
  use(middleware: Middleware<Given>): this {
    for (const worker of this.workers) worker.use(middleware);
    return this;
  }

  /** Starts to lease and handle tasks. @throws TypeError as `Worker.start`. */
  start(): void {
    for (const worker of this.workers) worker.start();
  }

  /** Runs until the signal is aborted, `stop()` is called, or one of the workers fails. See `Worker.run`. */
  async run(options: RunOptions = {}): Promise<void> {
    try {
      await Promise.all(this.workers.map((worker) => worker.run(options)));
    } finally {
      await this.stop({ timeout: options.stopTimeout });
    }
  }

  /** Pauses all workers. See `Worker.pause`. */
  async pause(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.pause()));
  }

  resume(): void {
    for (const worker of this.workers) worker.resume();
  }

  /** Resolves when all workers were idle one after the other, and none has begun a task since. See `Worker.untilIdle`. */
  async untilIdle(): Promise<void> {
    let before: number;
    do {
      before = this.#begun;
      for (const worker of this.workers) await worker.untilIdle();
    } while (this.#begun !== before);
  }

  /** Stops all workers. See `Worker.stop`. */
  async stop(options: StopOptions = {}): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.stop(options)));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  get #begun(): number {
    return this.workers.reduce((sum, { begun }) => sum + begun, 0);
  }
}
