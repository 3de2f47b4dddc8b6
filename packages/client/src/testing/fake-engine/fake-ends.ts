import {
  type AwaitedTask,
  type EndedTask,
  TaskOutcome,
  type WaitForTasksRequest,
  type WaitForTasksResponse,
} from '@taskmaster/proto';
import type { Timing } from '../../transport/timing.ts';
import { makeError } from '../../values/errors.ts';
import type { FakeTask } from './fake-task.ts';

type End = Omit<EndedTask, 'task'>;
type Find = (queue: string, pid: Uint8Array) => FakeTask | undefined;

interface Waiter {
  readonly request: WaitForTasksRequest;
  readonly answer: (reply: WaitForTasksResponse) => void;
}

/** How tasks of the fake engine have ended, and the waits for that. What tasks leave is kept for ever. */
export class FakeEnds {
  readonly #timing: Timing;
  readonly #find: Find;
  readonly #left = new Map<string, End>();
  readonly #waiters = new Set<Waiter>();

  /** `find`: the task of a queue. */
  constructor(timing: Timing, find: Find) {
    this.#timing = timing;
    this.#find = find;
  }

  /** The requests that wait. */
  get requests(): readonly WaitForTasksRequest[] {
    return [...this.#waiters].map(({ request }) => request);
  }

  /** Number of requests that wait. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /** Call this after the task has left its queue. */
  note(queue: string, pid: Uint8Array, outcome: TaskOutcome, rest: Partial<End> = {}): void {
    const endedUnixMs = Math.round(this.#timing.now());
    const end: End = { ...UNKNOWN, outcome, endedUnixMs, ...rest };
    const key = keyOf(queue, pid);
    if (end.result === undefined && outcome !== TaskOutcome.TASK_OUTCOME_CANCELLED) this.#left.delete(key);
    else this.#left.set(key, end);
    this.#tell(key, () => end);
  }

  /** Call this after the task was cancelled or leased. */
  changed(queue: string, task: FakeTask): void {
    this.#tell(keyOf(queue, task.pid), ({ leaseToken }) => endOfLease(task, leaseToken));
  }

  #tell(key: string, endFor: (task: AwaitedTask) => End | undefined): void {
    for (const { request, answer } of [...this.#waiters]) {
      const ended = request.tasks.flatMap((awaited, task) => {
        const end = keyOf(awaited.queue, awaited.pid) === key ? endFor(awaited) : undefined;
        return end === undefined ? [] : [{ ...end, task }];
      });
      if (ended.length > 0) answer({ ended });
    }
  }

  wait(request: WaitForTasksRequest, signal?: AbortSignal): Promise<WaitForTasksResponse> {
    const ended = request.tasks.flatMap(({ queue, pid, leaseToken }, task) => {
      const there = this.#find(queue, pid);
      const end = there ? endOfLease(there, leaseToken) : (this.#left.get(keyOf(queue, pid)) ?? UNKNOWN);
      return end === undefined ? [] : [{ ...end, task }];
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

function endOfLease({ token, cancelled, attempts }: FakeTask, leaseToken = 0): End | undefined {
  if (leaseToken === 0 || (token === leaseToken && cancelled === undefined)) return undefined;
  const isLost = token !== leaseToken;
  const outcome = isLost ? TaskOutcome.TASK_OUTCOME_LEASE_LOST : TaskOutcome.TASK_OUTCOME_CANCEL_REQUESTED;
  return { ...UNKNOWN, outcome, attempts, cancelReason: isLost ? '' : (cancelled?.reason ?? '') };
}

const UNKNOWN: End = {
  outcome: TaskOutcome.TASK_OUTCOME_UNKNOWN,
  result: undefined,
  endedUnixMs: 0,
  attempts: 0,
  error: undefined,
  cancelReason: '',
};

const keyOf = (queue: string, pid: Uint8Array): string => `${queue} ${Buffer.from(pid).toString('latin1')}`;
