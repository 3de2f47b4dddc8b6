import type { StandardSchemaV1 } from '@standard-schema/spec';
import {
  type Dequeue,
  EnqueueMode,
  EnqueueResult,
  limits,
  type Publication,
  parseQueueName,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
  type EnqueueOutcome as WireOutcome,
} from '@taskmaster/proto';
import { emptyRequest } from '../calls/update-request.ts';
import { LEASE, type Lease, type Leased } from '../leases/lease.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { checkResult } from '../values/codec.ts';
import { type Duration, leaseDurationMs } from '../values/duration.ts';
import { InvalidRequestError, type TaskMasterError } from '../values/errors.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { UpdateOptions } from '../values/options.ts';
import { updateNames } from '../values/options.ts';
import { type Pid, type PidLike, pidBytes, pidText } from '../values/pid.ts';
import { INSPECT, shownAs } from '../values/shown.ts';
import { taskErrorOf } from '../values/task-error.ts';
import { nameFields, type TaskName } from '../values/task-name.ts';
import type { ClientContext } from './context.ts';
import {
  canonicalName,
  FORMAT,
  hiding,
  NewTask,
  newTask,
  type QueueRef,
  queueRef,
  type TaskOptions,
  taskNames,
} from './new-task.ts';
import { newSignal, type SignalOptions } from './signals.ts';
import { RESULTS, type ResultOptions, resultNames, wireResult } from './task-result.ts';

/** What an enqueue did. */
export interface EnqueueOutcome {
  /** PID of the task, given or assigned. */
  readonly pid: Pid;
  /** The text of the PID, as the command line shows and takes it. For logs, and in JSON in place of the PID. */
  readonly id: string;
  /**
   * `collapsed`: the PID was in the queue, and its task is unchanged. `replaced`: the existing task has the new data. `rerun`: a
   * worker has the existing task, which runs once more afterwards.
   */
  readonly result: 'created' | 'collapsed' | 'replaced' | 'rerun' | 'kept-out' | 'dropped';
  /**
   * Whether a worker has leased the existing task. The worker does not know of this enqueue, and when it completes the task, the
   * enqueue is gone too, unless the result is `rerun`. False: the task waits for its next lease.
   */
  readonly leased: boolean;
}

/** A task that was published into a queue. */
export interface PublishedTask extends EnqueueOutcome {
  /** `group#name`. */
  readonly queue: string;
}

/** What a release did. */
export interface ReleaseOutcome {
  /** When the task becomes available, by the node's clock. Undefined: now, or it is in its dead-letter queue. */
  readonly hiddenUntil: Date | undefined;
  /** Name of the dead-letter queue, if this was the last attempt. */
  readonly deadLetterQueue: string | undefined;
}

export interface RenewOptions {
  /**
   * How far the work is, in any form, at most 256 bytes of UTF-8. `peek` and `get` show it, and the next attempt gets it.
   * Default: it does not change. Empty: none.
   */
  readonly progress?: string | undefined;
  /**
   * Bytes with which the next attempt continues, at most 16 KiB. Default: they do not change. Empty: none.
   */
  readonly checkpoint?: Uint8Array | undefined;
  /**
   * How many tasks the program works on together from now on, this one included; see `LeaseOptions.starts`. Default: it does not
   * say.
   */
  readonly begun?: number | undefined;
}

export interface ReleaseOptions {
  /** How long the task is hidden. Default: as its retry policy says; not at all without a policy or with `refundAttempt`. */
  readonly delay?: Duration | undefined;
  /** Until when the task is hidden, by the node's clock, instead of `delay`. A past date means now. */
  readonly runAt?: Date | undefined;
  /** Whether the attempt does not count, because the work did not begin. Default false. */
  readonly refundAttempt?: boolean | undefined;
  /**
   * Whether the attempt does not count because the worker stops. The task counts these interruptions; after 100 of them further
   * ones count as failed attempts. Implies `refundAttempt`. Default false.
   */
  readonly interrupted?: boolean | undefined;
  /** Why the attempt failed: an error, or text. The task keeps the message and, of its latest failure, the stack. */
  readonly error?: unknown;
  /** Whether this was the last attempt: the task goes to its dead-letter queue, whatever its retry policy says. Default false. */
  readonly deadLetter?: boolean | undefined;
}

const renewNames: OptionNames<RenewOptions> = { progress: true, checkpoint: true, begun: true };
export const releaseNames: OptionNames<ReleaseOptions> = {
  delay: true,
  runAt: true,
  refundAttempt: true,
  interrupted: true,
  error: true,
  deadLetter: true,
};

/**
 * A leased task, named by plain values: for a task that another process has leased. A `LeasedTask` can be used in its place.
 */
export interface LeaseRef {
  readonly queue: string | QueueRef;
  readonly pid: PidLike;
  /** The token of the lease, which must be current. Without it any lease will do. */
  readonly leaseToken?: number | undefined;
}

/**
 * What a signal did. `signalled`: the task has got it. `kept`: there is no such task yet, so it is kept for 24 hours.
 * `collapsed`: nothing, because it came before, or the task does not wait for signals.
 */
export type SignalResult = 'signalled' | 'kept' | 'collapsed';

/** Outcome of an update. Lists are in the order in which the items were added. */
export interface UpdateOutcome {
  readonly enqueued: readonly EnqueueOutcome[];
  /** For each task that was published, the queues that got it, by their names. */
  readonly published: readonly (readonly PublishedTask[])[];
  /** What became of each signal. */
  readonly signals: readonly SignalResult[];
  /** Ends of the renewed leases, by the node's clock. */
  readonly renewed: readonly Date[];
  readonly released: readonly ReleaseOutcome[];
}

const results: Readonly<Record<number, EnqueueOutcome['result']>> = {
  [EnqueueResult.ENQUEUE_RESULT_CREATED]: 'created',
  [EnqueueResult.ENQUEUE_RESULT_COLLAPSED]: 'collapsed',
  [EnqueueResult.ENQUEUE_RESULT_REPLACED]: 'replaced',
  [EnqueueResult.ENQUEUE_RESULT_RERUN]: 'rerun',
  [EnqueueResult.ENQUEUE_RESULT_KEPT_OUT]: 'kept-out',
  [EnqueueResult.ENQUEUE_RESULT_DROPPED]: 'dropped',
};

/**
 * An atomic change: all its items are applied, or none. All queues must be of one group. Enqueues are applied last, so an update
 * may complete a task and enqueue a new task with the same PID.
 *
 *     await client.update().complete(task).enqueue(invoices, { order: 17 }).commit();
 *
 * A task that another process has leased is named by queue, PID and lease token:
 *
 *     await client.update().complete({ queue: 'shop#mail', pid: 'order-17', leaseToken: 3 }).commit();
 */
export class Update {
  readonly #context: ClientContext;
  readonly #enqueues: NewTask[] = [];
  readonly #request: UpdateTasksRequest = emptyRequest();
  readonly #completed: Lease[] = [];
  readonly #renewed: { readonly lease: Lease; readonly leaseDurationMs: number; readonly hasBegun: boolean }[] = [];
  readonly #released: Lease[] = [];
  /** Results whose schemas validate asynchronously. */
  #checking: Promise<unknown>[] = NOTHING;
  readonly #isChecked: boolean;
  #committed = false;

  /**
   * Internal: use `client.update()`.
   * @param isChecked the caller has checked the options of its calls, which may be those of several calls together.
   */
  constructor(context: ClientContext, isChecked = false) {
    this.#context = context;
    this.#isChecked = isChecked;
  }

  /** Enqueues a task: data for a queue (JSON if the queue is given by name), or the result of `queue.task(...)`. */
  enqueue(task: NewTask): this;
  enqueue<T, In>(queue: QueueRef<T, In>, data: NoInfer<In>, options?: TaskOptions): this;
  enqueue(queue: string, data: unknown, options?: TaskOptions): this;
  enqueue(queue: NewTask | string | QueueRef, data?: unknown, options?: TaskOptions): this {
    this.#assertKnown('enqueue', options, taskNames);
    this.#enqueues.push(queue instanceof NewTask ? queue : newTask(queueRef(queue), data, options));
    return this;
  }

  /**
   * Signals a task that waits, named by its PID or as `{ key }`. A signal for a task that is not there yet is kept for 24 hours.
   * @throws InvalidDataError if its data cannot be encoded.
   */
  signal(queue: string | QueueRef, task: TaskName, options?: SignalOptions): this {
    this.#enqueues.push(newSignal(queue, task, options));
    return this;
  }

  /**
   * Removes a leased task because it is done. It may leave a result.
   * @throws InvalidDataError if the result cannot be encoded, or does not fit the queue's schema of results. One that validates
   * asynchronously refuses it in `commit`.
   */
  complete(task: Leased | LeaseRef, options: ResultOptions = {}): this {
    this.#assertKnown('complete', options, resultNames);
    if ('result' in options) this.#checkResult(task, options.result);
    const { queue, pid, leaseToken } = itemOf(task);
    const item: Dequeue = { queue, pid, leaseToken, requeue: false };
    this.#request.dequeue.push('result' in options ? { ...item, ...wireResult(options) } : item);
    if (LEASE in task) this.#completed.push(task[LEASE]);
    return this;
  }

  /**
   * Puts a task of a dead-letter queue back into the queue it came from, as a waiting task with no attempts. It keeps its data,
   * its failures, and the retry policy that it had there. The update is refused with `NOT_DEAD_LETTERED` if the task came from
   * no other queue, and with `TaskExistsError` if its PID is there again. With a `leaseToken` it is put back only while that
   * lease is current.
   */
  requeue(queue: string | QueueRef, pid: PidLike, options: { readonly leaseToken?: number } = {}): this {
    this.#request.dequeue.push({ ...itemOf({ queue, pid, leaseToken: options.leaseToken }), requeue: true });
    return this;
  }

  /**
   * Cancels a task, named by its PID or as `{ key }`. One that waits is removed. A leased one is removed when its attempt ends,
   * unless its worker completes it; the signal of the worker's task is aborted within about a second. `reason`: at most 256
   * bytes.
   */
  cancel(queue: string | QueueRef, task: TaskName, reason = ''): this {
    this.#request.dequeue.push({ ...namedItem(queue, task), requeue: false, cancelReason: reason });
    return this;
  }

  /**
   * Removes a task, named by its PID or as `{ key }`, also if a worker has leased it. With a `leaseToken` only while that lease
   * is current.
   */
  dequeue(queue: string | QueueRef, task: TaskName, { leaseToken = 0 }: { readonly leaseToken?: number } = {}): this {
    this.#request.dequeue.push({ ...namedItem(queue, task), leaseToken, requeue: false });
    return this;
  }

  /**
   * Extends the lease of a task, counted from the moment when the update is applied. Default: for as long as the lease lasted so
   * far. For a task that is only named: as the queue's settings say, or 30 s.
   */
  renew(task: Leased | LeaseRef, leaseDuration?: Duration, options: RenewOptions = {}): this {
    this.#assertKnown('renew', options, renewNames);
    const { progress, checkpoint, begun } = options;
    if (begun !== undefined) tasksFrom(1, begun, 'begun');
    // It could not be encoded, and is sent together with the updates of others.
    if (checkpoint !== undefined && !(checkpoint instanceof Uint8Array))
      throw new TypeError('checkpoint: must be bytes');
    const lease = LEASE in task ? task[LEASE] : undefined;
    const ms = leaseDuration === undefined ? lease?.leaseDurationMs : leaseDurationMs(leaseDuration, 'leaseDuration');
    if (lease !== undefined && ms !== undefined)
      this.#renewed.push({ lease, leaseDurationMs: ms, hasBegun: begun !== undefined });
    this.#request.renew.push({ ...itemOf(task), leaseDurationMs: ms ?? 0, progress, checkpoint, begun });
    return this;
  }

  /** Releases a leased task. */
  release(task: Leased | LeaseRef, options: ReleaseOptions = {}): this {
    this.#assertKnown('release', options, releaseNames);
    const { delayMs, runAtUnixMs } = hiding(options);
    if (LEASE in task) this.#released.push(task[LEASE]);
    this.#request.release.push({
      ...itemOf(task),
      delayMs: options.delay === undefined ? undefined : delayMs,
      runAtUnixMs,
      refundAttempt: (options.refundAttempt ?? false) || (options.interrupted ?? false),
      interrupted: options.interrupted ?? false,
      error: options.error === undefined ? undefined : taskErrorOf(options.error),
      deadLetter: options.deadLetter ?? false,
      waiting: false,
    });
    return this;
  }

  /**
   * Changes when a waiting task, available or delayed, becomes available: at a date by the node's clock, or after a duration from
   * the moment when the update is applied. The task is named by its PID or as `{ key }`. The update is refused with `TASK_LEASED`
   * if a worker has leased the task.
   */
  reschedule(queue: string | QueueRef, task: TaskName, when: Duration | Date): this {
    const { delayMs, runAtUnixMs } = hiding(when instanceof Date ? { runAt: when } : { delay: when });
    this.#request.release.push({
      ...namedItem(queue, task),
      delayMs: runAtUnixMs === 0 ? delayMs : undefined,
      runAtUnixMs,
      refundAttempt: false,
      error: undefined,
      deadLetter: false,
      interrupted: false,
      waiting: true,
    });
    return this;
  }

  /**
   * Sends the update. Resolves when it is on disk. An update is committed once; after an error make a new one.
   * @throws InvalidRequestError (MIXED_GROUPS, EMPTY_REQUEST) and InvalidDataError before the request is sent; LeaseLostError,
   * LeaseExpiredError, TaskNotFoundError, TaskExistsError, NotLeasedError with the refused `items`, and then nothing was changed;
   * TypeError if a task was completed or released before.
   */
  async commit(options: UpdateOptions = {}): Promise<UpdateOutcome> {
    this.#assertKnown('commit', options, updateNames);
    if (this.#committed) throw new TypeError('the update is already committed');
    this.#committed = true;
    const request = this.#request;
    this.#assertOneGroup();
    if (this.#checking.length > 0) await Promise.all(this.#checking);
    const settling = this.#beginSettling();
    try {
      for (const task of this.#enqueues) {
        const item = task.prepare();
        request.enqueue.push(item instanceof Promise ? await item : item);
      }
      const sentAt = this.#context.timing.now();
      const reply = await this.#context.telemetry.send(request, options, this.#completed, this.#released);
      for (const lease of this.#completed) lease.settle('completed');
      for (const lease of this.#released) lease.settle('released');
      for (const { lease, leaseDurationMs, hasBegun } of this.#renewed) {
        lease.renewed(sentAt, leaseDurationMs);
        if (hasBegun) lease.unbegun = undefined;
      }
      this.#tellCancelled(reply);
      return outcomeOf(request, reply);
    } catch (thrown) {
      for (const lease of settling) lease.stopSettling();
      // A TypeError is a mistake of the caller, found while the data was prepared.
      if (thrown instanceof TypeError) throw thrown;
      const error = asTaskMasterError(thrown);
      this.#loseRefused(error);
      throw error;
    }
  }

  #checkResult(task: Leased | LeaseRef, result: unknown): void {
    const schema = resultSchemaOf(task);
    const checked = schema === undefined ? undefined : checkResult(schema, result);
    if (!(checked instanceof Promise)) return;
    this.#checking = [...this.#checking, checked];
    // The update may never be committed.
    checked.catch(() => {});
  }

  #assertKnown(what: string, options: object | undefined, names: Readonly<Record<string, true>>): void {
    if (!this.#isChecked) assertKnown(what, options, names);
  }

  /** Renewals say which tasks were cancelled. */
  #tellCancelled({ renewed }: UpdateTasksResponse): void {
    for (const [index, { cancelReason }] of renewed.entries()) {
      const item = this.#request.renew[index];
      if (cancelReason === undefined || item === undefined) continue;
      for (const { lease } of this.#renewed) if (isLeaseOf(lease, item)) lease.cancel(cancelReason);
    }
  }

  /** Begins to settle all leases, or none of them. */
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
      leases.find((lease) => isLeaseOf(lease, item))?.lose(error);
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
          `all queues of an update must be of one group; this one has queues of '${group}' and of '${other}'`,
          { reason: 'MIXED_GROUPS', metadata: { groups: `${group},${other}` } },
        );
      }
    }
    if (count === 0) throw new InvalidRequestError('the update has no items', { reason: 'EMPTY_REQUEST' });
  }
}

const NOTHING: never[] = [];

function resultSchemaOf(task: Leased | LeaseRef): StandardSchemaV1 | undefined {
  if (RESULTS in task) return task[RESULTS] as StandardSchemaV1 | undefined;
  return 'queue' in task && typeof task.queue === 'object' ? task.queue[FORMAT].resultSchema : undefined;
}

const isLeaseOf = (lease: Lease, item: { readonly queue: string; readonly pid: Uint8Array }): boolean =>
  lease.queue === item.queue && Buffer.compare(lease.pid, item.pid) === 0;

/** A number of tasks of one request. @throws TypeError */
export function tasksFrom(least: number, tasks: number, what: string): number {
  if (Number.isInteger(tasks) && tasks >= least && tasks <= limits.leaseTasks) return tasks;
  throw new TypeError(`${what}: ${String(tasks)} is not a whole number from ${least} to ${limits.leaseTasks}`);
}

/** What an enqueue did, from the protocol. */
class Outcome implements EnqueueOutcome {
  readonly pid: Pid;
  readonly result: EnqueueOutcome['result'];
  readonly leased: boolean;

  constructor({ pid, result, leased }: Omit<WireOutcome, 'published'>) {
    // A copy, because the PID is a view that would keep the whole message in memory.
    this.pid = Buffer.from(pid);
    this.result = results[result] ?? 'created';
    this.leased = leased;
  }

  // Of the prototype: most programs never read it.
  get id(): string {
    return pidText(this.pid);
  }

  toJSON(): object {
    return { ...this, id: this.id, pid: undefined };
  }

  [INSPECT](): object {
    return shownAs('EnqueueOutcome', this.toJSON());
  }
}

/** The outcome of an enqueue from the protocol. */
export const enqueueOutcome = (outcome: Omit<WireOutcome, 'published'>): EnqueueOutcome => new Outcome(outcome);

/** The queues that got a task, from the protocol. */
export const publishedTasks = ({ tasks }: Publication): readonly PublishedTask[] =>
  tasks.map((task) => Object.assign(new Outcome(task), { queue: task.queue }));

const signalResults: Readonly<Record<number, SignalResult>> = {
  [EnqueueResult.ENQUEUE_RESULT_SIGNALLED]: 'signalled',
  [EnqueueResult.ENQUEUE_RESULT_SIGNAL_KEPT]: 'kept',
};

const NONE: readonly WireOutcome[] = [];

function outcomeOf({ enqueue }: UpdateTasksRequest, reply: UpdateTasksResponse): UpdateOutcome {
  const isSignal = (at: number): boolean => enqueue[at]?.mode === EnqueueMode.ENQUEUE_MODE_SIGNAL;
  const isTask = ({ published }: WireOutcome, at: number): boolean => published === undefined && !isSignal(at);
  const hasTasksOnly = reply.enqueued.every(isTask);
  const others = hasTasksOnly ? NONE : reply.enqueued;
  return {
    enqueued: (hasTasksOnly ? reply.enqueued : reply.enqueued.filter(isTask)).map(enqueueOutcome),
    signals: others.flatMap(({ result }, at) => (isSignal(at) ? (signalResults[result] ?? 'collapsed') : [])),
    published: others.flatMap(({ published }) => (published === undefined ? [] : [publishedTasks(published)])),
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

const namedItem = (queue: string | QueueRef, task: TaskName) => ({
  queue: nameOf(queue),
  leaseToken: 0,
  ...nameFields(task),
});

function nameOf(queue: string | QueueRef): string {
  return typeof queue === 'string' ? canonicalName(queue) : queue.name;
}
