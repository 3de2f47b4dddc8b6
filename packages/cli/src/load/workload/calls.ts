import {
  bytesCodec,
  isTaskMasterError,
  type LeasedTask,
  type TaskMasterClient,
  type UpdateOutcome,
} from '@taskmaster/client';
import type { Timing } from '@taskmaster/client/internal';
import { parseQueueName } from '@taskmaster/proto';
import type { CallKind } from '../measure/call-figures.ts';
import type { Meter } from '../measure/meter.ts';
import type { EnqueueCall, Outcome, UpdateCall } from '../verify/history.ts';
import type { TaskHistory } from '../verify/task-history.ts';
import type { Payloads } from './payloads.ts';

export interface CallsParts {
  readonly meter: Meter;
  readonly timing: Timing;
  readonly payloads: Payloads;
  /** Records the calls. Undefined: nothing is checked. */
  readonly history: TaskHistory | undefined;
}

/** A task to enqueue. */
export interface TaskToAdd {
  readonly queue: string;
  readonly bytes: number;
  /** Undefined: the node assigns it. */
  readonly pid: string | undefined;
  readonly delayMs: number;
}

/** One change of tasks of one group. */
export interface Change {
  readonly complete?: readonly LoadTask[];
  readonly renew?: readonly LoadTask[];
  readonly renewForMs?: number;
  readonly release?: readonly LoadTask[];
  readonly enqueue?: readonly TaskToAdd[];
}

export type LoadTask = LeasedTask<Uint8Array>;

/** Makes the calls of a load, with their figures and their history. A call that fails is counted, and does not reject. */
export class Calls {
  readonly #parts: CallsParts;
  #tasks = 0;

  constructor(parts: CallsParts) {
    this.#parts = parts;
  }

  /** Resolves with whether the change was acknowledged. */
  async change(client: TaskMasterClient, kind: CallKind, dueAt: number, change: Change): Promise<boolean> {
    const { meter, timing, history } = this.#parts;
    const { complete = [], renew = [], renewForMs = 0, release = [], enqueue = [] } = change;
    const numbers = enqueue.map(() => history?.nextTask() ?? ++this.#tasks);
    const update = client.update();
    for (const [index, { queue, bytes, pid, delayMs }] of enqueue.entries()) {
      const data = this.#parts.payloads.make(numbers[index] ?? 0, bytes);
      update.enqueue(client.queue(queue, { codec: bytesCodec }), data, { pid, delay: delayMs });
    }
    // By plain values: the node decides whether the lease is still valid.
    for (const { queue, pid, leaseToken } of complete) update.complete({ queue, pid, leaseToken });
    for (const { queue, pid, leaseToken } of renew) update.renew({ queue, pid, leaseToken }, renewForMs);
    for (const { queue, pid, leaseToken } of release) update.release({ queue, pid, leaseToken }, { delay: 0 });

    const calledAt = timing.now();
    const end = history?.begin(recorded(change, numbers), calledAt);
    const group = groupOf((complete[0] ?? renew[0] ?? release[0] ?? enqueue[0])?.queue ?? '');
    meter.began(group);
    try {
      const outcome = await update.commit();
      end?.(updated(outcome, calledAt + renewForMs), timing.now());
      meter.succeeded(kind, group, dueAt, complete.length + renew.length + release.length || enqueue.length);
      meter.tasksChanged(enqueue.length - complete.length);
      return true;
    } catch (error) {
      end?.(failed(error), timing.now());
      meter.failed(kind, group, reasonOf(error));
      return false;
    }
  }

  /** Resolves with the tasks. Undefined: the call has failed. */
  async lease(
    client: TaskMasterClient,
    dueAt: number,
    request: {
      readonly queue: string;
      readonly max: number;
      readonly leaseDurationMs: number;
      readonly waitMs: number;
    },
  ): Promise<readonly LoadTask[] | undefined> {
    const { meter, timing, history } = this.#parts;
    const { queue, max, leaseDurationMs, waitMs } = request;
    const calledAt = timing.now();
    const end = history?.begin(
      { kind: 'lease', queues: [queue], maxTasks: max, leaseDurationMs, maxPid: undefined, maxBytes: 0, waitMs },
      calledAt,
    );
    try {
      const options = { max, leaseDuration: leaseDurationMs, wait: waitMs };
      const tasks = await client.queue(queue, { codec: bytesCodec }).lease(options);
      const now = timing.now();
      const replies = tasks.flatMap((task) => this.#replyOf(task, calledAt + leaseDurationMs));
      end?.({ kind: 'leased', tasks: replies, dismissed: false }, now);
      meter.succeeded('lease', undefined, dueAt, tasks.length);
      return tasks;
    } catch (error) {
      end?.(failed(error), timing.now());
      meter.failed('lease', undefined, reasonOf(error));
      return undefined;
    }
  }

  /** Resolves with whether the read was answered. */
  async read(kind: 'peek' | 'stats', dueAt: number, read: () => Promise<number>): Promise<boolean> {
    const { meter } = this.#parts;
    try {
      meter.succeeded(kind, undefined, dueAt, await read());
      return true;
    } catch (error) {
      meter.failed(kind, undefined, reasonOf(error));
      return false;
    }
  }

  /** The task as it is recorded. Its lease lasts at least until this instant, because the node counts from a later one. */
  #replyOf(task: LoadTask, until: number) {
    const { history, payloads } = this.#parts;
    if (history === undefined) return [];
    const { queue, leaseToken: token, attempt } = task;
    const pid = textOf(task.pid);
    const number = payloads.read(task.bytes);
    if (number !== undefined) {
      return [{ queue, pid, data: String(number), token, until, attempt, enqueuedAt: task.enqueuedAt.getTime() }];
    }
    history.report(
      `a task of ${queue} was leased whose payload no call of this run has written: ${brief(task.bytes)} (PID ${pid})`,
    );
    return [];
  }
}

function recorded(change: Change, numbers: readonly number[]): UpdateCall {
  const { complete = [], renew = [], renewForMs = 0, release = [], enqueue = [] } = change;
  return {
    kind: 'update',
    enqueue: enqueue.map(
      ({ queue, pid, delayMs }, index): EnqueueCall => ({
        queue,
        pid,
        delayMs,
        mode: 'collapse',
        retry: undefined,
        data: String(numbers[index]),
      }),
    ),
    dequeue: complete.map(named),
    renew: renew.map((task) => ({ ...named(task), leaseDurationMs: renewForMs })),
    release: release.map((task) => ({ ...named(task), delayMs: 0, refund: false })),
    requestId: undefined,
  };
}

/** @param renewedUntil instant by this process's clock until which renewed leases last at least. */
function updated({ enqueued, renewed, released }: UpdateOutcome, renewedUntil: number): Outcome {
  return {
    kind: 'updated',
    enqueued: enqueued.map(({ pid, result }) => ({ pid: textOf(pid), result })),
    renewed: renewed.map(() => ({ until: renewedUntil })),
    released: released.map(({ hiddenUntil, deadLetterQueue }) => ({ until: hiddenUntil?.getTime(), deadLetterQueue })),
  };
}

/** The outcome of a call that failed. @throws errors that are no answers but bugs. */
function failed(error: unknown): Outcome {
  if (!isTaskMasterError(error)) throw error;
  return error.maybeApplied ? { kind: 'unknown' } : { kind: 'refused', reason: error.reason, items: [] };
}

function reasonOf(error: unknown): string {
  if (!isTaskMasterError(error)) throw error;
  return error.reason;
}

const textOf = (pid: Uint8Array): string => Buffer.from(pid).toString('latin1');

const named = ({ queue, pid, leaseToken }: LoadTask) => ({ queue, pid: textOf(pid), token: leaseToken });

const brief = (bytes: Uint8Array): string => JSON.stringify(Buffer.from(bytes.subarray(0, 60)).toString('latin1'));

/** The group of a queue. */
export function groupOf(queue: string): string {
  return parseQueueName(queue).group;
}
