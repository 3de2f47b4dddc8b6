import { status } from '@grpc/grpc-js';
import { type EndedTask, limits, parseQueueName, TaskOutcome } from '@taskmaster/proto';
import type { RetryingCalls } from '../calls/retrying-calls.ts';
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
/** Time between an answer and the next request. */
const PAUSE_MS = 100;

interface Watched {
  readonly lease: Lease;
  readonly since: number;
  isPolled: boolean;
}

/** The tasks of one group that are watched, and the request for them. */
interface GroupWatch {
  readonly leases: Set<Lease>;
  poll: AbortController;
}

/**
 * Tells the leases of running tasks at once when the node says that a task was cancelled, or that the lease is lost. Renewals say
 * it, too, but later. One request for each group waits for all its tasks, up to 1,000.
 */
export class CancelWatch {
  readonly #calls: RetryingCalls;
  readonly #timing: Timing;
  readonly #watched = new Map<Lease, Watched>();
  readonly #groups = new Map<string, GroupWatch>();
  #cancelTimer: CancelTimer | undefined;

  constructor(calls: RetryingCalls, timing: Timing) {
    this.#calls = calls;
    this.#timing = timing;
  }

  /** Watches the lease until it is disposed of. */
  watch(lease: Lease): Disposable {
    this.#watched.set(lease, { lease, since: this.#timing.now(), isPolled: false });
    this.#cancelTimer ??= this.#timing.after(LOOK_MS, () => this.#look());
    return { [Symbol.dispose]: () => this.#forget(lease) };
  }

  #forget(lease: Lease): void {
    const watched = this.#watched.get(lease);
    this.#watched.delete(lease);
    if (watched?.isPolled) this.#drop(lease);
  }

  #drop(lease: Lease): void {
    const { group } = parseQueueName(lease.queue);
    const watch = this.#groups.get(group);
    if (!watch?.leases.delete(lease) || watch.leases.size > 0) return;
    watch.poll.abort();
    this.#groups.delete(group);
  }

  /** Adds the tasks that have become old enough to the requests. */
  #look(): void {
    this.#cancelTimer = undefined;
    if (this.#watched.size === 0) return;
    this.#cancelTimer = this.#timing.after(LOOK_MS, () => this.#look());
    const changed = new Map<string, GroupWatch>();
    const old = this.#timing.now() - AFTER_MS;
    for (const watched of this.#watched.values()) {
      if (watched.isPolled || watched.since > old) continue;
      watched.isPolled = true;
      const { group } = parseQueueName(watched.lease.queue);
      const watch = this.#groups.get(group) ?? { leases: new Set(), poll: new AbortController() };
      watch.leases.add(watched.lease);
      this.#groups.set(group, watch);
      changed.set(group, watch);
    }
    for (const watch of changed.values()) {
      watch.poll.abort();
      watch.poll = new AbortController();
      void this.#poll(watch, watch.poll.signal);
    }
  }

  /** Never rejects. Ends when it is aborted, or the node refuses to wait. */
  async #poll(watch: GroupWatch, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const asked = [...watch.leases].slice(0, limits.awaitedTasks);
      try {
        for (const ended of await this.#ask(asked, signal)) {
          const lease = asked[ended.task];
          if (lease === undefined || signal.aborted) continue;
          this.#drop(lease);
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

  async #ask(leases: readonly Lease[], signal: AbortSignal): Promise<readonly EndedTask[]> {
    const tasks = leases.map(({ queue, pid, token }) => ({ queue, pid, leaseToken: token }));
    const { ended } = await this.#calls.run(
      'waitForTasks',
      'read',
      { signal },
      (attempt) => this.#calls.transport.waitForTasks({ tasks, waitMs: POLL_MS }, attempt),
      POLL_MS,
    );
    return ended;
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
