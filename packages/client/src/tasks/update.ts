import {
  EnqueueResult,
  limits,
  parseQueueName,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
} from '@taskmaster/proto';
import { emptyRequest } from '../calls/update-request.ts';
import { LEASE, type Lease, type Leased } from '../leases/lease.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { type Duration, durationMs, leaseMs } from '../values/duration.ts';
import { InvalidRequestError, type TaskMasterError } from '../values/errors.ts';
import type { UpdateOptions } from '../values/options.ts';
import { type Pid, type PidLike, pidBytes } from '../values/pid.ts';
import type { ClientContext } from './context.ts';
import { canonicalName, NewTask, newTask, type QueueRef, queueRef, type TaskOptions } from './new-task.ts';

/** What an enqueue did. */
export interface EnqueueOutcome {
  /** The task's PID, as given or as assigned. */
  readonly pid: Pid;
  /** `collapsed`: a task of that PID was there and stays as it is. `replaced`: it has the new data now. */
  readonly result: 'created' | 'collapsed' | 'replaced';
  /**
   * Of `collapsed` and `replaced`: a worker has the task now. It does not know of this enqueue, and when it completes the
   * task that is gone too. False: the task waits for its next lease.
   */
  readonly leased: boolean;
}

/** What a release did. */
export interface ReleaseOutcome {
  /** When the task becomes available, by the node's clock; undefined: it is available, or was dead-lettered. */
  readonly hiddenUntil: Date | undefined;
  /** The queue the task went to because this was its last attempt. */
  readonly deadLetterQueue: string | undefined;
}

export interface ReleaseOptions {
  /** Keeps the task hidden for so long. Default: as its retry policy says, at once without one or with `refundAttempt`. */
  readonly delay?: Duration | undefined;
  /** The attempt does not count: the task was not worked on. Default false. */
  readonly refundAttempt?: boolean | undefined;
}

/**
 * A leased task by what can be written down of it: for work that ends in another process than the one that leased it.
 * A `LeasedTask` is one as well.
 */
export interface LeaseRef {
  readonly queue: string | QueueRef;
  readonly pid: PidLike;
  /** The lease must be this one. Without it, whatever lease the task has. */
  readonly leaseToken?: number | undefined;
}

/** What a committed update did; lists are in the order in which its items were added. */
export interface UpdateOutcome {
  readonly enqueued: readonly EnqueueOutcome[];
  /** Ends of the renewed leases, by the node's clock. */
  readonly renewed: readonly Date[];
  readonly released: readonly ReleaseOutcome[];
}

const results: Readonly<Record<number, EnqueueOutcome['result']>> = {
  [EnqueueResult.ENQUEUE_RESULT_CREATED]: 'created',
  [EnqueueResult.ENQUEUE_RESULT_COLLAPSED]: 'collapsed',
  [EnqueueResult.ENQUEUE_RESULT_REPLACED]: 'replaced',
};

/**
 * One atomic change: everything added to it happens, or nothing does. All queues must be of one group. Enqueues take
 * effect last, so a task may be completed and enqueued anew under the same PID.
 *
 *     await client.update().complete(task).enqueue(invoices, { order: 17 }).commit();
 *
 * A task may be named by queue, PID and lease token, where the one who leased it is not at hand:
 *
 *     await client.update().complete({ queue: 'shop#mail', pid: 'order-17', leaseToken: 3 }).commit();
 */
export class Update {
  readonly #context: ClientContext;
  readonly #enqueues: NewTask[] = [];
  readonly #request: UpdateTasksRequest = emptyRequest();
  readonly #completed: Lease[] = [];
  readonly #renewed: { readonly lease: Lease; readonly leaseMs: number }[] = [];
  readonly #released: Lease[] = [];
  #committed = false;

  /** Not for callers: `client.update()` makes one. */
  constructor(context: ClientContext) {
    this.#context = context;
  }

  /** Adds a task; given a queue's name instead of a queue, as JSON. Also takes what `queue.task(...)` made. */
  enqueue(task: NewTask): this;
  enqueue<T, In>(queue: QueueRef<T, In>, data: NoInfer<In>, options?: TaskOptions): this;
  enqueue(queue: string, data: unknown, options?: TaskOptions): this;
  enqueue(queue: NewTask | string | QueueRef, data?: unknown, options?: TaskOptions): this {
    this.#enqueues.push(queue instanceof NewTask ? queue : newTask(queueRef(queue), data, options));
    return this;
  }

  /** Removes a leased task because it is done. */
  complete(task: Leased | LeaseRef): this {
    if (LEASE in task) this.#completed.push(task[LEASE]);
    this.#request.dequeue.push(itemOf(task));
    return this;
  }

  /** Removes a task whether or not anybody has leased it; with a `leaseToken`, only while that lease is current. */
  dequeue(queue: string | QueueRef, pid: PidLike, options: { readonly leaseToken?: number } = {}): this {
    return this.complete({ queue, pid, leaseToken: options.leaseToken });
  }

  /** Makes a task's lease last so long from when the update is applied; 30 s by default. */
  renew(task: Leased | LeaseRef, lease: Duration = limits.defaultLeaseMs): this {
    const ms = leaseMs(lease, 'lease');
    if (LEASE in task) this.#renewed.push({ lease: task[LEASE], leaseMs: ms });
    this.#request.renew.push({ ...itemOf(task), leaseDurationMs: ms });
    return this;
  }

  /** Gives a leased task back. */
  release(task: Leased | LeaseRef, options: ReleaseOptions = {}): this {
    const delayMs = options.delay === undefined ? undefined : durationMs(options.delay, 'delay');
    if (LEASE in task) this.#released.push(task[LEASE]);
    this.#request.release.push({ ...itemOf(task), delayMs, refundAttempt: options.refundAttempt ?? false });
    return this;
  }

  /**
   * Sends the update; resolves when it is on disk. An update is committed once; after an error make a new one.
   * @throws InvalidRequestError (MIXED_GROUPS, EMPTY_REQUEST) and InvalidDataError before anything is sent; LeaseLostError, LeaseExpiredError,
   * TaskNotFoundError, TaskExistsError, NotLeasedError with the `items` at fault, and then nothing was changed; TypeError when a task was
   * completed or released before.
   */
  async commit(options: UpdateOptions = {}): Promise<UpdateOutcome> {
    if (this.#committed) throw new TypeError('the update was committed already');
    this.#committed = true;
    const request = this.#request;
    this.#assertOneGroup();
    const settling = this.#beginSettling();
    try {
      for (const task of this.#enqueues) {
        const item = task.prepare();
        request.enqueue.push(item instanceof Promise ? await item : item);
      }
      const sentAt = this.#context.timing.now();
      const reply = await this.#context.updates.send(request, options);
      for (const lease of this.#completed) lease.settle('completed');
      for (const lease of this.#released) lease.settle('released');
      for (const { lease, leaseMs } of this.#renewed) lease.renewed(sentAt, leaseMs);
      return outcomeOf(reply);
    } catch (thrown) {
      for (const lease of settling) lease.stopSettling();
      // What a caller's own code threw while the data was prepared is not an answer of the node.
      if (thrown instanceof TypeError) throw thrown;
      const error = asTaskMasterError(thrown);
      this.#loseRefused(error);
      throw error;
    }
  }

  /** Either all leases begin to settle or none does. */
  #beginSettling(): readonly Lease[] {
    const begun: Lease[] = [];
    try {
      for (const { lease } of this.#renewed) lease.assertHeld();
      for (const lease of [...this.#completed, ...this.#released]) {
        lease.beginSettling();
        begun.push(lease);
      }
      return begun;
    } catch (error) {
      for (const lease of begun) lease.stopSettling();
      throw error;
    }
  }

  #loseRefused(error: TaskMasterError): void {
    for (const item of error.items) {
      if (item.reason !== 'LEASE_LOST' && item.reason !== 'TASK_NOT_FOUND') continue;
      const leases = [...this.#completed, ...this.#released, ...this.#renewed.map(({ lease }) => lease)];
      leases.find((lease) => lease.queue === item.queue && Buffer.compare(lease.pid, item.pid) === 0)?.lose(error);
    }
  }

  #assertOneGroup(): void {
    const { dequeue, renew, release } = this.#request;
    let group: string | undefined;
    let count = 0;
    for (const items of [this.#enqueues, dequeue, renew, release]) {
      for (const { queue } of items) {
        count++;
        const other = parseQueueName(queue).group;
        group ??= other;
        if (group === other) continue;
        throw new InvalidRequestError(
          `an update is atomic within one group; this one names queues of '${group}' and of '${other}'`,
          { reason: 'MIXED_GROUPS', metadata: { groups: `${group},${other}` } },
        );
      }
    }
    if (count === 0) throw new InvalidRequestError('the update has no items', { reason: 'EMPTY_REQUEST' });
  }
}

export function enqueueOutcome({ pid, result, leased }: UpdateTasksResponse['enqueued'][number]): EnqueueOutcome {
  // A copy: the PID is a view that would keep the whole message, answers to other calls included, in memory.
  return { pid: Buffer.from(pid), result: results[result] ?? 'created', leased };
}

function outcomeOf(reply: UpdateTasksResponse): UpdateOutcome {
  return {
    enqueued: reply.enqueued.map(enqueueOutcome),
    renewed: reply.renewed.map(({ leaseUntilUnixMs }) => new Date(leaseUntilUnixMs)),
    released: reply.released.map(({ hiddenUntilUnixMs, deadLetterQueue }) => ({
      hiddenUntil: hiddenUntilUnixMs === 0 ? undefined : new Date(hiddenUntilUnixMs),
      deadLetterQueue: deadLetterQueue === '' ? undefined : deadLetterQueue,
    })),
  };
}

function itemOf(task: Leased | LeaseRef): { queue: string; pid: Pid; leaseToken: number } {
  if (LEASE in task) {
    const { queue, pid, token } = task[LEASE];
    return { queue, pid, leaseToken: token };
  }
  const { queue, pid, leaseToken = 0 } = task;
  return { queue: nameOf(queue), pid: pidBytes(pid), leaseToken };
}

function nameOf(queue: string | QueueRef): string {
  return typeof queue === 'string' ? canonicalName(queue) : queue.name;
}
