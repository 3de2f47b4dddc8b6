import { status } from '@grpc/grpc-js';
import { type EndedTask, limits, parseQueueName, TaskOutcome } from '@taskmaster/proto';
import type { RetryingCalls } from '../calls/retrying-calls.ts';
import { awaitedSizeBound } from '../transport/request-size.ts';
import { type CancelTimer, sleep, type Timing } from '../transport/timing.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { LeaseLostError, type TaskMasterError, TaskNotFoundError } from '../values/errors.ts';
import { pidText } from '../values/pid.ts';
import type { Lease } from './lease.ts';

/** Tasks are watched from this age on, in ms, so that those that end sooner cost nothing. */
const AFTER_MS = 400;
/** Time between looks for tasks of this age, in ms. Together they are less than a second. */
const LOOK_MS = 500;
/** Length of one request. */
const POLL_MS = 60_000;
const RETRY_MS = 1_000;
/** Most bytes of one request, or of its only task. */
const POLL_BYTES = limits.requestBytes / 2;
/** Time between an answer and the next request. */
const PAUSE_MS = 100;

interface Watched {
  readonly lease: Lease;
  readonly since: number;
  /** Undefined: its task has not run for long. */
  poll: Poll | undefined;
}

/** A request for tasks of one group, again and again. */
interface Poll {
  readonly group: string;
  readonly leases: Set<Lease>;
  /** Upper bound of the size of the request. */
  bytes: number;
  asking: AbortController;
}

/**
 * Tells the leases of running tasks at once when the node says that a task was cancelled, or that the lease is lost. Renewals say
 * it, too, but later. One request for each group waits for its tasks; a group with more than 1,000, or
 * with long PIDs, has several.
 */
export class CancelWatch {
  readonly #calls: RetryingCalls;
  readonly #timing: Timing;
  readonly #watched = new Map<Lease, Watched>();
  readonly #polls = new Set<Poll>();
  #cancelTimer: CancelTimer | undefined;

  constructor(calls: RetryingCalls, timing: Timing) {
    this.#calls = calls;
    this.#timing = timing;
  }

  /** Watches the lease until it is disposed of. */
  watch(lease: Lease): Disposable {
    this.#watched.set(lease, { lease, since: this.#timing.now(), poll: undefined });
    this.#cancelTimer ??= this.#timing.after(LOOK_MS, () => this.#look());
    return { [Symbol.dispose]: () => this.#forget(lease) };
  }

  #forget(lease: Lease): void {
    const poll = this.#watched.get(lease)?.poll;
    this.#watched.delete(lease);
    if (poll !== undefined) this.#drop(poll, lease);
  }

  #drop(poll: Poll, lease: Lease): void {
    if (!poll.leases.delete(lease)) return;
    poll.bytes -= awaitedSizeBound(lease);
    if (poll.leases.size > 0) return;
    poll.asking.abort();
    this.#polls.delete(poll);
  }

  /** Adds the tasks that have become old enough to the requests. */
  #look(): void {
    this.#cancelTimer = undefined;
    if (this.#watched.size === 0) return;
    this.#cancelTimer = this.#timing.after(LOOK_MS, () => this.#look());
    const changed = new Set<Poll>();
    const old = this.#timing.now() - AFTER_MS;
    for (const watched of this.#watched.values()) {
      if (watched.poll !== undefined || watched.since > old) continue;
      watched.poll = this.#pollWithRoom(watched.lease);
      watched.poll.leases.add(watched.lease);
      watched.poll.bytes += awaitedSizeBound(watched.lease);
      changed.add(watched.poll);
    }
    for (const poll of changed) {
      poll.asking.abort();
      poll.asking = new AbortController();
      void this.#poll(poll, poll.asking.signal);
    }
  }

  #pollWithRoom(lease: Lease): Poll {
    const { group } = parseQueueName(lease.queue);
    const bytes = awaitedSizeBound(lease);
    for (const poll of this.#polls) {
      const hasRoom = poll.leases.size < limits.awaitedTasks && poll.bytes + bytes <= POLL_BYTES;
      if (poll.group === group && hasRoom) return poll;
    }
    const poll = { group, leases: new Set<Lease>(), bytes: 0, asking: new AbortController() };
    this.#polls.add(poll);
    return poll;
  }

  /** Never rejects. Ends when it is aborted, or the node refuses to wait. */
  async #poll(poll: Poll, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const asked = [...poll.leases];
      try {
        for (const ended of await this.#ask(asked, signal)) {
          const lease = asked[ended.task];
          if (lease === undefined || signal.aborted) continue;
          this.#drop(poll, lease);
          tell(lease, ended);
        }
        // Every completion of a watched task ends a request, and the next one is about all others again.
        await sleep(this.#timing, PAUSE_MS, signal).catch(() => {}); // If it was aborted, the loop ends.
      } catch (thrown) {
        if (signal.aborted || !isWorthRepeating(asTaskMasterError(thrown))) return;
        await sleep(this.#timing, RETRY_MS, signal).catch(() => {}); // If it was aborted, the loop ends.
      }
    }
  }

  #ask(leases: readonly Lease[], signal: AbortSignal): Promise<readonly EndedTask[]> {
    const tasks = leases.map(({ queue, pid, token }) => ({ queue, pid, leaseToken: token }));
    return this.#calls.waitForTasks({ tasks, waitMs: POLL_MS }, { signal });
  }
}

/** A node that does not answer may do so later. One that refuses to wait will do so again. */
const isWorthRepeating = ({ code, retryable }: TaskMasterError): boolean =>
  retryable || code === status.DEADLINE_EXCEEDED;

function tell(lease: Lease, { outcome, cancelReason }: EndedTask): void {
  const { queue, pid } = lease;
  const metadata = { queue };
  const task = `task ${pidText(pid)} of ${queue}`;
  if (outcome === TaskOutcome.TASK_OUTCOME_CANCEL_REQUESTED) {
    lease.cancel(cancelReason);
  } else if (outcome === TaskOutcome.TASK_OUTCOME_LEASE_LOST) {
    const reason = 'LEASE_LOST';
    lease.lose(new LeaseLostError(`the lease on ${task} is not current any more`, { reason, metadata }));
  } else {
    // Its own completion, too, ends a task. The lease ignores this if it is being completed.
    const reason = 'TASK_NOT_FOUND';
    lease.lose(new TaskNotFoundError(`${task} is not in the queue any more`, { reason, metadata }));
  }
}
