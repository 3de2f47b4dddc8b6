import type { LeasedTask as WireTask } from '@taskmaster/proto';
import { LEASE, type Lease } from '../leases/lease.ts';
import type { Decoded } from '../values/codec.ts';
import type { Duration } from '../values/duration.ts';
import type { UpdateOptions } from '../values/options.ts';
import type { Pid } from '../values/pid.ts';
import type { ClientContext } from './context.ts';
import type { NewTask } from './new-task.ts';
import { type ReleaseOptions, type ReleaseOutcome, Update, type UpdateOutcome } from './update.ts';

export interface CompleteOptions extends UpdateOptions {
  /** Tasks of the same group that come into being with the completion, or not at all: the next stage. */
  readonly enqueue?: readonly NewTask[] | undefined;
}

/**
 * A task and this worker's lease on it. Others may get the task once the lease has ended; `signal` tells, and the node
 * refuses what a worker without a current lease asks for.
 */
export class LeasedTask<T> {
  /** `group#name`. */
  readonly queue: string;
  readonly pid: Pid;
  /** The payload as it came. A view into a received message: copy what is kept for long. */
  readonly bytes: Uint8Array;
  /** How many times the task has been leased, this one included. */
  readonly attempt: number;
  /** Whether the task has a retry policy of its own: when it comes back after a release without `delay` is up to that. */
  readonly hasRetryPolicy: boolean;
  /** How many attempts that policy allows before the task goes to its dead-letter queue; undefined: any number. */
  readonly maxAttempts: number | undefined;
  /** Grows with every lease of the task: a fencing token, for stores that the work writes to. */
  readonly leaseToken: number;
  /** Not for callers of the library. */
  readonly [LEASE]: Lease;
  readonly #context: ClientContext;
  readonly #decoded: () => Decoded<T>;
  readonly #enqueuedUnixMs: number;

  /** Not for callers: `queue.lease()` makes them. */
  constructor(context: ClientContext, task: WireTask, lease: Lease, decoded: () => Decoded<T>) {
    this.queue = task.queue;
    this.pid = task.pid;
    this.bytes = task.data;
    this.attempt = task.attempt;
    this.hasRetryPolicy = task.hasRetryPolicy;
    this.maxAttempts = task.maxAttempts === 0 ? undefined : task.maxAttempts;
    this.leaseToken = task.leaseToken;
    this[LEASE] = lease;
    this.#context = context;
    this.#decoded = decoded;
    this.#enqueuedUnixMs = task.enqueuedUnixMs;
  }

  /** The data. @throws InvalidDataError when the payload cannot be decoded or does not fit the queue's schema. */
  get data(): T {
    const decoded = this.#decoded();
    if (!decoded.ok) throw decoded.error;
    return decoded.value;
  }

  /** When it was enqueued, by the node's clock. */
  get enqueuedAt(): Date {
    return new Date(this.#enqueuedUnixMs);
  }

  /** When the lease ends, by this machine's clock; never later than the node thinks, clocks that differ included. */
  get leaseUntil(): Date {
    return new Date(Date.now() + this[LEASE].endsAt - this.#context.timing.now());
  }

  /** Aborted when the lease is lost, or has run out without being renewed. Its reason is the error. */
  get signal(): AbortSignal {
    return this[LEASE].signal;
  }

  /**
   * Removes the task because it is done, and enqueues what comes next, atomically.
   * @throws LeaseLostError, TaskNotFoundError: somebody else has, or did, the task; nothing was enqueued. TypeError when the task was
   * completed or released before.
   */
  async complete(options: CompleteOptions = {}): Promise<UpdateOutcome> {
    const update = new Update(this.#context).complete(this);
    for (const task of options.enqueue ?? []) update.enqueue(task);
    return update.commit(options);
  }

  /** Makes the lease last so long from now. @throws LeaseLostError, LeaseExpiredError, TaskNotFoundError, NotLeasedError. */
  async renew(lease: Duration = this[LEASE].leaseMs, options: UpdateOptions = {}): Promise<void> {
    await new Update(this.#context).renew(this, lease).commit(options);
  }

  /** Gives the task back before its lease ends. @throws LeaseLostError, LeaseExpiredError, TaskNotFoundError, NotLeasedError. */
  async release(options: ReleaseOptions & UpdateOptions = {}): Promise<ReleaseOutcome> {
    const { released } = await new Update(this.#context).release(this, options).commit(options);
    return released[0] ?? { hiddenUntil: undefined, deadLetterQueue: undefined };
  }
}
