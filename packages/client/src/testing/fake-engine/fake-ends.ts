import { type EndedTask, TaskOutcome, type WaitForTasksRequest, type WaitForTasksResponse } from '@taskmaster/proto';
import type { Timing } from '../../transport/timing.ts';
import { makeError } from '../../values/errors.ts';

type End = Omit<EndedTask, 'task'>;

interface Waiter {
  readonly request: WaitForTasksRequest;
  readonly answer: (reply: WaitForTasksResponse) => void;
}

/** How tasks of the fake engine have ended, and the waits for that. Results are kept for ever. */
export class FakeEnds {
  readonly #timing: Timing;
  readonly #isThere: (queue: string, pid: Uint8Array) => boolean;
  readonly #results = new Map<string, End>();
  readonly #waiters = new Set<Waiter>();

  /** `isThere`: whether a queue has a task. */
  constructor(timing: Timing, isThere: (queue: string, pid: Uint8Array) => boolean) {
    this.#timing = timing;
    this.#isThere = isThere;
  }

  /** Number of requests that wait. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /** Call this after the task has left its queue. */
  note(queue: string, pid: Uint8Array, outcome: TaskOutcome, rest: Partial<End> = {}): void {
    const endedUnixMs = Math.round(this.#timing.now());
    const end: End = { outcome, result: undefined, endedUnixMs, attempts: 0, error: undefined, ...rest };
    const key = keyOf(queue, pid);
    if (end.result === undefined) this.#results.delete(key);
    else this.#results.set(key, end);
    for (const { request, answer } of [...this.#waiters]) {
      const task = request.tasks.findIndex((one) => keyOf(one.queue, one.pid) === key);
      if (task >= 0) answer({ ended: [{ ...end, task }] });
    }
  }

  wait(request: WaitForTasksRequest, signal?: AbortSignal): Promise<WaitForTasksResponse> {
    const ended = request.tasks.flatMap(({ queue, pid }, task) => {
      if (this.#isThere(queue, pid)) return [];
      const end = this.#results.get(keyOf(queue, pid)) ?? UNKNOWN;
      return [{ ...end, task }];
    });
    if (ended.length > 0 || request.waitMs === 0) return Promise.resolve({ ended });
    return new Promise((resolve, reject) => {
      const answer = (reply: WaitForTasksResponse): void => {
        leave();
        resolve(reply);
      };
      const waiter: Waiter = { request, answer };
      const cancelTimer = this.#timing.after(request.waitMs, () => answer({ ended: [] }));
      const leave = (): void => {
        cancelTimer();
        this.#waiters.delete(waiter);
      };
      this.#waiters.add(waiter);
      signal?.addEventListener('abort', () => {
        leave();
        reject(makeError('given up', { reason: 'CANCELLED' }));
      });
    });
  }
}

const UNKNOWN: End = {
  ...{ outcome: TaskOutcome.TASK_OUTCOME_UNKNOWN, result: undefined },
  ...{ endedUnixMs: 0, attempts: 0, error: undefined },
};

const keyOf = (queue: string, pid: Uint8Array): string => `${queue} ${Buffer.from(pid).toString('latin1')}`;
