import type { Instant } from '../domain/ids.ts';
import type { EngineState } from '../engine-state.ts';
import { dueUnder, mayBeDue, showDue } from '../operations/expire.ts';
import type { CancelTimer } from '../ports/clock.ts';
import type { Queue } from '../queues/queue.ts';
import type { QueuesLimit } from '../records/limit-table.ts';

/** Shortest time between two searches for due tasks of one queue. */
const EXPIRY_GAP_MS = 10;
/** Time between two searches for queues that match patterns and have due tasks. */
const SWEEP_GAP_MS = 100;
/** How many of these queues are searched at once. */
const SWEPT_AT_ONCE = 32;
/** A queue whose search has failed is not searched for patterns and limits for this time. */
const SWEEP_FAILED_GAP_MS = 1000;
const NONE: readonly never[] = [];

/** The requests that wait, as far as searches depend on them. */
interface Awaited {
  /** The queue of a line in which requests wait. Undefined: none wait, or there is no such queue. */
  queueOf(line: string): Queue | undefined;
  /** Whether requests wait for patterns. */
  hasPatterns(): boolean;
  /** Whether a queue matches a pattern. */
  isFollowed(queue: Queue): boolean;
}

/**
 * When queues are searched for due tasks for the sake of lease requests: a queue that requests name when its next hidden task is
 * due, and those that match patterns every `SWEEP_GAP_MS`. At its end a search calls the listener's `read`.
 */
export class DueWatch {
  readonly #awaited: Awaited;
  /** By line: the timer of its queue. Only for queues that have hidden tasks and waiting requests. */
  readonly #timers = new Map<string, { readonly at: Instant; readonly cancel: CancelTimer }>();
  /** Queues that match patterns and are searched. */
  readonly #sweeping = new Set<Queue>();
  readonly #failedAt = new WeakMap<Queue, Instant>();
  #sweptAt = Number.NEGATIVE_INFINITY;
  /** True if the last sweep had to leave out queues. */
  #isSweepCut = false;
  #cancelSweep: CancelTimer | undefined;
  #engineState: EngineState;

  constructor(engineState: EngineState, awaited: Awaited) {
    this.#engineState = engineState;
    this.#awaited = awaited;
  }

  /** Continues with rebuilt memory. */
  adopt(engineState: EngineState): void {
    this.#engineState = engineState;
    this.stop();
    this.#sweeping.clear();
  }

  /** Ends its timers. */
  stop(): void {
    this.#cancelSweep?.();
    this.#cancelSweep = undefined;
    for (const { cancel } of this.#timers.values()) cancel();
    this.#timers.clear();
  }

  /** Queues that match patterns and are searched now. */
  get sweeping(): Iterable<Queue> {
    return this.#sweeping;
  }

  /** Searches a queue now, unless a search of it runs already. */
  search(queue: Queue): void {
    if (!queue.expiring) showDue(this.#engineState, queue).catch(() => {});
  }

  /** Call it when a read of a queue has ended. `error`: why it failed. Undefined: it did not. */
  ended(queue: Queue, error: unknown): void {
    if (error !== undefined) this.#failedAt.set(queue, this.#engineState.clock.now());
    if (this.#sweeping.delete(queue) && this.#isSweepCut) this.#sweep();
  }

  /** Searches the queue of a line when its next hidden task is due, if requests wait for it. */
  watch(line: string): void {
    const queue = this.#awaited.queueOf(line);
    if (!queue?.ledger.hasDue) return;
    const { clock } = this.#engineState;
    const at = Math.max(queue.ledger.dueFloor, clock.now() + EXPIRY_GAP_MS) as Instant;
    const armed = this.#timers.get(line);
    if (armed && armed.at <= at) return;
    armed?.cancel();
    const cancel = clock.at(at, () => {
      this.#timers.delete(line);
      if (this.#awaited.queueOf(line) === undefined) return;
      if (mayBeDue(queue, clock.now()) && !queue.dropped) this.search(queue);
      else this.watch(line);
    });
    this.#timers.set(line, { at, cancel });
  }

  /** Searches queues that match patterns again and again, as long as requests wait for patterns. */
  watchPatterns(): void {
    const { clock } = this.#engineState;
    this.#cancelSweep ??= clock.at((clock.now() + SWEEP_GAP_MS) as Instant, () => {
      this.#cancelSweep = undefined;
      if (!this.#awaited.hasPatterns()) return;
      if (!this.#engineState.failed) this.#sweep();
      this.watchPatterns();
    });
  }

  /** Searches queues that match patterns, unless that was done a moment ago. */
  sweepPatterns(now: Instant): void {
    if (now - this.#sweptAt >= SWEEP_GAP_MS) this.#sweep();
  }

  /** Starts some of the searches at once, and the others when those end. */
  #sweep(): void {
    const { hiding, clock } = this.#engineState;
    const now = clock.now();
    this.#sweptAt = now;
    this.#isSweepCut = false;
    for (const queue of hiding) {
      if (!mayBeDue(queue, now) || !this.#awaited.isFollowed(queue)) continue;
      if (this.#hasJustFailed(queue, now)) continue;
      if (this.#sweeping.size >= SWEPT_AT_ONCE) {
        this.#isSweepCut = true;
        return;
      }
      this.#sweeping.add(queue);
      this.search(queue);
    }
  }

  /** True if its due tasks could not be shown. Requests for other queues do not ask again at once. */
  #hasJustFailed(queue: Queue, now: Instant): boolean {
    return now - (this.#failedAt.get(queue) ?? Number.NEGATIVE_INFINITY) < SWEEP_FAILED_GAP_MS;
  }

  /** Queues whose expired leases may take slots that a request for these queues could have: some of them, if there are many. */
  inTheWay(queues: readonly Queue[], maxTasks: number, now: Instant): readonly Queue[] {
    let limits: Set<QueuesLimit> | undefined;
    for (const queue of queues) {
      for (const limit of queue.limits ?? NONE) {
        if (!limit.mayHoldBack(maxTasks)) continue;
        limits ??= new Set();
        limits.add(limit);
      }
    }
    if (limits === undefined) return NONE;
    const found: Queue[] = [];
    for (const queue of dueUnder(limits, now)) {
      // A lease that cannot be read keeps its slot. Without the gap, a request that waits for the search would begin the next.
      if (this.#hasJustFailed(queue, now)) continue;
      found.push(queue);
      if (found.length === SWEPT_AT_ONCE) break;
    }
    return found;
  }
}
