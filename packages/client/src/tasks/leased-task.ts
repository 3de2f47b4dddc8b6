import type { StandardSchemaV1 } from '@standard-schema/spec';
import { limits, type TaskSignal, type LeasedTask as WireTask } from '@taskmaster/proto';
import { LEASE, type Lease } from '../leases/lease.ts';
import type { Decoded } from '../values/codec.ts';
import type { Duration } from '../values/duration.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { UpdateOptions } from '../values/options.ts';
import { updateNames } from '../values/options.ts';
import { type Pid, pidText } from '../values/pid.ts';
import { INSPECT, shownAs } from '../values/shown.ts';
import type { ClientContext } from './context.ts';
import { type LoggedTask, loggedTask } from './logged-task.ts';
import type { NewTask, TaskHeaders } from './new-task.ts';
import { type ReadSignalsOptions, type ReceivedSignal, readSignals, receivedSignals } from './signals.ts';
import type { ResultOptions } from './task-result.ts';
import { RESULTS, resultNames } from './task-result.ts';
import { type ReleaseOptions, type ReleaseOutcome, releaseNames, Update, type UpdateOutcome } from './update.ts';

/** Internal: the key of a method of leased tasks. */
export const WATCH = Symbol('watch');

export interface CompleteOptions extends UpdateOptions, ResultOptions {
  /** Tasks of the same group that are added together with the completion, or not at all. */
  readonly enqueue?: readonly NewTask[] | undefined;
}

const completeNames: OptionNames<CompleteOptions> = { ...updateNames, ...resultNames, enqueue: true };
const releaseAndUpdateNames: OptionNames<ReleaseOptions & UpdateOptions> = { ...releaseNames, ...updateNames };

/**
 * A task and the lease of this worker. When the lease ends, `signal` is aborted, and other workers may get the task. The node
 * refuses requests of a worker whose lease is not current.
 */
export class LeasedTask<T> {
  /** `group#name`. */
  readonly queue: string;
  readonly pid: Pid;
  /** Its identity apart from the PID, if it was enqueued with one. */
  readonly key: string | undefined;
  /** What a worker must be able to run. Undefined: it has no kind. */
  readonly kind: string | undefined;
  /** What limits and fair turns of keys count it by. Undefined: nothing. */
  readonly limitKey: string | undefined;
  /** Tasks of the queue with the same order key run one after the other. Undefined: it has none. */
  readonly orderKey: string | undefined;
  /** The payload. A view into a received message: copy it to keep it for long. */
  readonly bytes: Uint8Array;
  /** The headers that came with the data. */
  readonly headers: TaskHeaders;
  /** Number of the attempt, from 1. Attempts that did not count, such as interrupted ones, are left out. */
  readonly attempt: number;
  /** Attempts that its retry policy allows before the task goes to its dead-letter queue. Undefined: no limit. */
  readonly maxAttempts: number | undefined;
  /** How long this attempt may take, in ms: at its end `signal` is aborted. Undefined: there is no limit. */
  readonly timeLimitMs: number | undefined;
  /** What an earlier attempt has reported last, so that this one can continue there. */
  readonly previousProgress: string | undefined;
  /** The bytes that an earlier attempt has left last with `checkpoint`. A view into a received message, like `bytes`. */
  readonly previousCheckpoint: Uint8Array | undefined;
  /** Grows with every lease of the task. A store that the work writes to can use it as a fencing token. */
  readonly leaseToken: number;
  /** Internal. */
  readonly [LEASE]: Lease;
  /** Internal. */
  readonly [RESULTS]: StandardSchemaV1 | undefined;
  readonly #context: ClientContext;
  readonly #decoded: () => Decoded<T>;
  readonly #enqueuedUnixMs: number;
  /** Undefined: the node must be asked. */
  readonly #signals: readonly TaskSignal[] | undefined;

  /** Internal: use `queue.lease()`. */
  constructor(
    context: ClientContext,
    task: WireTask,
    lease: Lease,
    decoded: () => Decoded<T>,
    results: StandardSchemaV1 | undefined,
  ) {
    this.queue = task.queue;
    this.pid = task.pid;
    this.key = task.key === '' ? undefined : task.key;
    this.kind = task.kind;
    this.limitKey = task.limitKey;
    this.orderKey = task.orderKey;
    this.bytes = task.data;
    this.headers = task.headers;
    this.attempt = task.attempt;
    this.maxAttempts = task.maxAttempts === 0 ? undefined : (task.maxAttempts ?? limits.defaultMaxAttempts);
    this.timeLimitMs = task.timeLimitMs || undefined;
    this.previousProgress = task.progress === '' ? undefined : task.progress;
    this.previousCheckpoint = task.checkpoint;
    this.leaseToken = task.leaseToken;
    this[LEASE] = lease;
    this[RESULTS] = results;
    this.#context = context;
    this.#decoded = decoded;
    this.#enqueuedUnixMs = task.enqueuedUnixMs;
    this.#signals = task.signals?.leftOut === false ? task.signals.signals : undefined;
  }

  /** Internal: the task learns at once that it was cancelled, until this is disposed of. */
  [WATCH](): Disposable {
    return this.#context.cancellations.watch(this[LEASE]);
  }

  /** The text of the PID, as the command line writes and reads it. `pidFromText` makes the PID of it. */
  get id(): string {
    return pidText(this.pid);
  }

  /** For `JSON.stringify`, and so for loggers. The data may be secret or large, and is left out. */
  toJSON(): LoggedTask {
    return loggedTask(this);
  }

  /** For `console.log` while a program is written: with the data. */
  [INSPECT](): object {
    const { bytes: _bytes, pid: _pid, [LEASE]: _lease, [RESULTS]: _results, queue, headers, ...rest } = this;
    const decoded = this.#decoded();
    return shownAs('LeasedTask', {
      queue,
      id: this.id,
      data: decoded.ok ? decoded.value : decoded.error,
      headers: { ...headers },
      ...rest,
      enqueuedAt: this.enqueuedAt,
      leaseUntil: this.leaseUntil,
    });
  }

  /** The data. @throws InvalidDataError when the payload cannot be decoded or does not fit the queue's schema. */
  get data(): T {
    const decoded = this.#decoded();
    if (!decoded.ok) throw decoded.error;
    return decoded.value;
  }

  /** Time of the enqueue, by the node's clock. */
  get enqueuedAt(): Date {
    return new Date(this.#enqueuedUnixMs);
  }

  /** End of the lease, by this machine's clock. Never later than the end at the node, even if the clocks differ. */
  get leaseUntil(): Date {
    return new Date(Date.now() + this[LEASE].endsAt - this.#context.timing.now());
  }

  /**
   * Aborted when the lease is lost or has expired, with `TimeLimitError` when the attempt reaches its time limit, and with
   * `TaskCancelledError` when the task is cancelled. Its reason is the error.
   */
  get signal(): AbortSignal {
    return this[LEASE].signal;
  }

  /**
   * The signals that the task has got and that say something: the ends of its children, if it collects them, and signals with
   * data. Up to 64 KiB of them came with the lease; otherwise it asks the node.
   * @throws InvalidDataError if data cannot be decoded.
   */
  async signals<R = unknown>(options: ReadSignalsOptions<R> = {}): Promise<readonly ReceivedSignal<R>[]> {
    if (this.#signals === undefined) return readSignals(this.#context, this.queue, this.pid, options);
    return receivedSignals(this.#signals, options);
  }

  /**
   * Removes the task because it is done, leaves its result, and enqueues follow-up tasks, atomically.
   * @throws LeaseLostError, TaskNotFoundError: another worker has leased or completed the task, and nothing was enqueued.
   * InvalidDataError if the result does not fit the queue's schema of results. TypeError if the task was completed or released
   * before.
   */
  async complete(options: CompleteOptions = {}): Promise<UpdateOutcome> {
    assertKnown('complete', options, completeNames);
    const update = new Update(this.#context, true).complete(this, options);
    for (const task of options.enqueue ?? []) update.enqueue(task);
    return update.commit(options);
  }

  /**
   * Extends the lease, counted from now, but not beyond its time limit. Default: for as long as it lasted so far.
   * @throws LeaseLostError, LeaseExpiredError, TaskNotFoundError, NotLeasedError.
   */
  async renew(leaseDuration?: Duration, options: UpdateOptions = {}): Promise<void> {
    await new Update(this.#context).renew(this, leaseDuration).commit(options);
  }

  /**
   * Says how far the work is, in any form, at most 256 bytes of UTF-8, and renews the lease. `peek` and `get` show it, and the
   * next attempt gets it as `previousProgress`. Throws as `renew` does.
   */
  async reportProgress(progress: string, options: UpdateOptions = {}): Promise<void> {
    await new Update(this.#context).renew(this, undefined, { progress }).commit(options);
  }

  /**
   * Leaves bytes with which the next attempt continues, at most 16 KiB, and renews the lease. The next attempt gets them as
   * `previousCheckpoint`; so does a worker of the dead-letter queue, and the first attempt after a retry from there. They stay
   * until the next checkpoint, and go with the task. Empty bytes remove them. Throws as `renew` does.
   */
  async checkpoint(data: Uint8Array, options: UpdateOptions = {}): Promise<void> {
    await new Update(this.#context).renew(this, undefined, { checkpoint: data }).commit(options);
  }

  /**
   * Set if the task was leased with `starts` and does not count as begun: call `begin`. Above 0: its worker has died before, so
   * call it before the work begins, and work on at most so many tasks together, this one included.
   */
  get unbegun(): number | undefined {
    return this[LEASE].unbegun;
  }

  /** Says that the work begins, together with so many tasks, this one included. Renews the lease. Throws as `renew` does. */
  async begin(together = 1, options: UpdateOptions = {}): Promise<void> {
    await new Update(this.#context).renew(this, undefined, { begun: together }).commit(options);
  }

  /** Releases the task before its lease ends. @throws LeaseLostError, LeaseExpiredError, TaskNotFoundError, NotLeasedError. */
  async release(options: ReleaseOptions & UpdateOptions = {}): Promise<ReleaseOutcome> {
    assertKnown('release', options, releaseAndUpdateNames);
    const { released } = await new Update(this.#context, true).release(this, options).commit(options);
    return released[0] ?? { hiddenUntil: undefined, deadLetterQueue: undefined };
  }

  /** Releases the task until a time or for a duration, without counting the attempt. Throws as `release` does. */
  async snooze(until: Duration | Date, options: UpdateOptions = {}): Promise<ReleaseOutcome> {
    assertKnown('snooze', options, updateNames);
    const when = until instanceof Date ? { runAt: until } : { delay: until };
    return this.release({ ...options, ...when, refundAttempt: true });
  }

  /** Sends the task to its dead-letter queue at once. The task keeps the error. Throws as `release` does. */
  async deadLetter(error: unknown, options: UpdateOptions = {}): Promise<ReleaseOutcome> {
    assertKnown('deadLetter', options, updateNames);
    return this.release({ ...options, error, deadLetter: true });
  }

  /** Removes the task although it was not done. The same as completing it without follow-up tasks. */
  async discard(options: UpdateOptions = {}): Promise<void> {
    assertKnown('discard', options, updateNames);
    await this.complete(options);
  }
}
