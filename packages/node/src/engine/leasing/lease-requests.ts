import { NOTHING_CHANGED } from '@taskmaster/proto';
import {
  type CallSignal,
  type Instant,
  type LeaseCommand,
  type LeasedTask,
  type PartitionId,
  Refusal,
} from '@taskmaster/server/domain';
import type { CancelTimer } from '@taskmaster/server/ports';
import type { AnswerRoom } from '../admission.ts';
import type { EngineState } from '../engine-state.ts';
import { mayBeDue, showDue } from '../operations/expire.ts';
import { prefetchSize, refill } from '../queues/cache/refill.ts';
import type { Queue } from '../queues/queue.ts';
import { Deadlines } from './deadlines.ts';
import { deliver, grant, isToBeRead, type LeasedPick, REFILLS_AT_ONCE, select } from './grant-leases.ts';
import { LeaseWaiter } from './lease-waiter.ts';
import { WaitLines } from './wait-lines.ts';

const cancelled = (): Refusal => new Refusal('CANCELLED', 'the call was cancelled', { metadata: NOTHING_CHANGED });

type Attempt = 'served' | 'blocked' | 'empty';

/** A request gets the tasks in memory after this many refills, because the cache may be too small for all it asks for. */
const MAX_REFILLS = 4;
const REBUILD_GAP_MS = 1000;
/** Shortest time between two searches for due tasks of one queue. */
const EXPIRY_GAP_MS = 10;
/**
 * A request waits for the search for tasks that have been due for longer than this. It does not wait for others, because tasks
 * of a busy queue may become due all the time.
 */
const DUE_GRACE_MS = 100;
const NO_PARTITIONS: ReadonlySet<PartitionId> = new Set();

/**
 * LeaseTasks: serves lease requests, with and without a wait, first come, first served for each queue. A request blocks the
 * requests behind it only while it is first in line and waits for the store.
 */
export class LeaseRequests {
  readonly #lines = new WaitLines<LeaseWaiter>();
  readonly #deadlines: Deadlines<LeaseWaiter>;
  /** By queue: the timer that looks for due tasks. Only for queues that have hidden tasks and waiting requests. */
  readonly #dueTimers = new Map<string, { readonly at: Instant; readonly cancel: CancelTimer }>();
  /**
   * By queue: the lines that are blocked until a read of this queue ends. They may be lines of other queues, because a waiter
   * stands in the lines of all its queues.
   */
  readonly #heldUp = new Map<Queue, Set<string>>();
  /** Lines that are blocked until there is room for an answer. Each has a place in the line for room. */
  readonly #withoutRoom = new Set<string>();
  /** True if there was no room for an answer while a line was served. */
  #roomEnded = false;
  /** When all waiters were last served after memory was rebuilt. */
  #servedAllAt = Number.NEGATIVE_INFINITY;
  #cancelServeAll: CancelTimer = () => {};
  readonly #delivering = new Set<Promise<unknown>>();
  #memory: EngineState;

  constructor(memory: EngineState) {
    this.#memory = memory;
    this.#deadlines = new Deadlines(memory.clock, (waiter) => this.#waitIsOver(waiter));
    this.#listen(memory);
  }

  get waiters(): number {
    return this.#lines.size;
  }

  /**
   * Continues with rebuilt memory; requests keep waiting. All are served again at most once in `REBUILD_GAP_MS`: on a full
   * disk the first lease may fail again and cause the next rebuild.
   */
  adopt(memory: EngineState): void {
    const { failed } = this.#memory;
    this.#memory = memory;
    this.#listen(memory);
    this.#clearTimers();
    this.#heldUp.clear();
    this.#cancelServeAll();
    const { clock } = memory;
    const at = Math.max(clock.now(), this.#servedAllAt + REBUILD_GAP_MS) as Instant;
    if (at === clock.now()) {
      this.#serveAll();
      return;
    }
    for (const waiter of this.#lines.all()) waiter.unserved = failed;
    this.#cancelServeAll = clock.at(at, () => this.#serveAll());
  }

  #serveAll(): void {
    this.#servedAllAt = this.#memory.clock.now();
    for (const waiter of this.#lines.all()) {
      waiter.unserved = undefined;
      for (const name of waiter.lines) {
        this.#serve(name);
        this.#armDueTimer(name);
      }
    }
  }

  lease(command: LeaseCommand, signal: CallSignal | undefined): Promise<LeasedTask[]> {
    const { clock, config } = this.#memory;
    const { waitMs } = command;
    if (waitMs > 0 && this.#lines.size >= config.maxWaiters) {
      throw new Refusal('TOO_MANY_WAITERS', `${config.maxWaiters} lease requests are waiting already`, {
        retryDelayMs: 1000,
        metadata: { limit: String(config.maxWaiters) },
      });
    }
    const waiter = new LeaseWaiter(command, this.#partitionsOf(command), signal, clock.now());
    if (signal?.aborted) {
      waiter.fail(cancelled());
      return waiter.answered;
    }
    if (this.#attemptAhead(waiter) === 'served' || waiter.isAnswered) return waiter.answered;

    waiter.leave = this.#leave;
    this.#lines.join(waiter);
    const blocked = new Set<LeaseWaiter>();
    for (const name of waiter.lines) this.#serve(name, blocked);
    if (waiter.impatient || !this.#lines.isWaiting(waiter)) return waiter.answered;
    waiter.onAbort = () => waiter.fail(cancelled());
    signal?.addEventListener('abort', waiter.onAbort);
    waiter.deadline = (waiter.arrivedAt + waitMs) as Instant;
    this.#deadlines.add(waiter);
    for (const name of waiter.lines) this.#armDueTimer(name);
    return waiter.answered;
  }

  /** A request that has not looked for tasks yet does so, and its look may have to wait for the store. */
  #waitIsOver(waiter: LeaseWaiter): void {
    if (waiter.unserved !== undefined) {
      waiter.fail(waiter.unserved);
    } else if (waiter.hasLooked) {
      waiter.answer(this.#nothing());
    } else {
      waiter.isLate = true;
      this.#lines.becameImpatient(waiter);
      this.#attemptAhead(waiter);
    }
  }

  readonly #leave = (waiter: LeaseWaiter): void => {
    this.#lines.leave(waiter);
    this.#deadlines.remove(waiter);
    if (waiter.onAbort) waiter.signal?.removeEventListener('abort', waiter.onAbort);
  };

  /** Answers all waiters: with an empty list, or with the error. */
  dismiss(error?: Refusal): void {
    this.#clearTimers();
    this.#cancelServeAll();
    for (const waiter of this.#lines.all()) {
      if (error) waiter.fail(error);
      else waiter.answer([]);
    }
  }

  /** Refuses the requests that wait for queues of a partition that this node has given up. */
  abandon(id: PartitionId): void {
    for (const waiter of this.#lines.all()) {
      if (waiter.partitions.has(id)) waiter.fail(this.#memory.holdings.notHolder(id));
    }
  }

  /** Resolves when the payloads of the tasks that are leased now have been read. */
  async delivered(): Promise<void> {
    await Promise.allSettled(this.#delivering);
  }

  #deliver(granted: readonly LeasedPick[], room: AnswerRoom): Promise<LeasedTask[]> {
    const delivering = deliver(this.#memory, granted, room);
    // `delivered()` has to wait for reads only.
    if (!granted.some(isToBeRead)) return delivering;
    const over = (): void => void this.#delivering.delete(delivering);
    this.#delivering.add(delivering);
    delivering.then(over, over);
    return delivering;
  }

  #partitionsOf({ queues }: LeaseCommand): ReadonlySet<PartitionId> {
    if (this.#memory.holdings.everything) return NO_PARTITIONS;
    return new Set(queues.map(({ group }) => this.#memory.partitionOf(group)));
  }

  /** True if a partition of the waiter does not allow commits yet. The waiter is served again when it does. */
  #isGated(waiter: LeaseWaiter): boolean {
    if (waiter.gated) return true;
    for (const id of waiter.partitions) {
      const gate = this.#memory.holdings.gate(id);
      if (!gate) continue;
      waiter.gated = true;
      gate.then(
        () => {
          waiter.gated = false;
          for (const name of waiter.lines) this.#serve(name);
        },
        (error: unknown) => {
          waiter.fail(error);
          for (const name of waiter.lines) this.#serve(name);
        },
      );
      return true;
    }
    return false;
  }

  #listen(memory: EngineState): void {
    const current = (): boolean => this.#memory === memory;
    memory.listener = {
      available: ({ fullName }) => {
        if (current() && this.#lines.has(fullName)) this.#serve(fullName);
      },
      hidden: ({ fullName }) => {
        if (current() && this.#lines.has(fullName)) this.#armDueTimer(fullName);
      },
      read: (queue, error) => {
        if (current()) this.#goOn(queue, error);
      },
    };
  }

  /** Blocks the waiter's lines until the reads of these queues end. */
  #holdUp(waiter: LeaseWaiter, queues: readonly Queue[]): 'blocked' {
    for (const queue of queues) {
      const names = this.#heldUp.get(queue) ?? new Set();
      for (const name of waiter.lines) names.add(name);
      this.#heldUp.set(queue, names);
    }
    return 'blocked';
  }

  /** Continues after a read of the queue, which any operation may have started. */
  #goOn(queue: Queue, error: unknown): void {
    const names = this.#heldUp.get(queue);
    this.#heldUp.delete(queue);
    // After a failed write, requests that may wait do so until memory is rebuilt.
    for (const waiter of error === undefined ? [] : this.#lines.line(queue.fullName)) {
      if (waiter.impatient || !this.#memory.failed) waiter.fail(error);
    }
    const blocked = new Set<LeaseWaiter>();
    for (const name of names ?? []) this.#serve(name, blocked);
    this.#armDueTimer(queue.fullName);
  }

  /** Blocks the waiter's lines until there is room for its answer. */
  #waitForRoom(waiter: LeaseWaiter): 'blocked' {
    this.#roomEnded = true;
    for (const name of waiter.lines) {
      if (!this.#withoutRoom.has(name)) this.#standInLineForRoom(name);
    }
    return 'blocked';
  }

  #standInLineForRoom(name: string): void {
    this.#withoutRoom.add(name);
    this.#memory.admission.standInLine(() => {
      this.#roomEnded = false;
      const served = this.#serve(name);
      if (this.#roomEnded && !served) return false;
      this.#withoutRoom.delete(name);
      // Go to the end of the line for room after a served request: many other lines may wait there.
      if (this.#roomEnded) this.#standInLineForRoom(name);
      return true;
    });
  }

  /**
   * Walks a line from its front until a request must wait for the store or for room, or no tasks are left. Returns true if a
   * request got tasks. `blocked` collects requests found blocked in this turn, so that a request in 1,000 lines is not tried
   * 1,000 times.
   */
  #serve(name: string, blocked?: Set<LeaseWaiter>): boolean {
    let served = false;
    const unblocked = new Set<string>();
    for (const waiter of this.#lines.line(name)) {
      if (blocked?.has(waiter)) break;
      const queue = this.#queueNamed(waiter, name);
      const nothing = !queue || (queue.ledger.available === 0 && !mayBeDue(queue, this.#memory.clock.now()));
      if (nothing && !this.#lines.hasImpatient(name)) break;
      const attempt = this.#attempt(waiter);
      if (attempt === 'blocked') {
        blocked?.add(waiter);
        break;
      }
      if (attempt === 'served') {
        served = true;
        for (const other of waiter.lines) unblocked.add(other);
      } else if (waiter.impatient) {
        waiter.answer(this.#nothing());
      }
    }
    unblocked.delete(name);
    for (const other of unblocked) if (this.#lines.has(other)) this.#serve(other);
    return served;
  }

  #queueNamed(waiter: LeaseWaiter, name: string): Queue | undefined {
    const queueName = waiter.queueOf(name);
    return queueName && this.#memory.table.get(queueName);
  }

  #queuesOf(waiter: LeaseWaiter): Queue[] {
    const queues: Queue[] = [];
    for (const name of waiter.queues) {
      const queue = this.#memory.table.get(name);
      if (queue) queues.push(queue);
    }
    return queues;
  }

  /**
   * Serves a new request at once, without a place in line, if that overtakes no other request. Requests in a line that is not
   * blocked have already seen the available tasks and could not use them.
   */
  #attemptAhead(waiter: LeaseWaiter): Attempt {
    const reading = this.#queuesOf(waiter).some(({ refilling, expiring }) => refilling || expiring);
    if (reading && waiter.lines.some((name) => this.#lines.has(name))) return 'blocked';
    for (const names of [...this.#heldUp.values(), this.#withoutRoom]) {
      if (waiter.lines.some((name) => names.has(name) && this.#lines.has(name))) return 'blocked';
    }
    const attempt = this.#attempt(waiter);
    if (attempt !== 'empty' || !waiter.impatient) return attempt;
    waiter.answer(this.#nothing());
    return 'served';
  }

  /** An empty answer. It waits until the change that took the last task is durable, so that it stays true after a crash. */
  async #nothing(): Promise<LeasedTask[]> {
    await this.#memory.durable();
    return [];
  }

  #attempt(waiter: LeaseWaiter): Attempt {
    const memory = this.#memory;
    if (memory.failed) {
      // Requests that may wait do so until memory is rebuilt.
      if (waiter.impatient) waiter.fail(memory.failed);
      return 'blocked';
    }
    if (this.#isGated(waiter)) return 'blocked';
    waiter.unserved = undefined;
    const { command } = waiter;
    const queues = this.#queuesOf(waiter);
    const now = memory.clock.now();
    const expiring = queues.filter((queue) => mayBeDue(queue, now));
    const sources = waiter.queues.flatMap((name) => memory.lastAttempts.into(name, now));
    for (const queue of [...expiring, ...sources]) this.#startExpiry(queue);
    // Dead letters must arrive first: they may replace tasks of these queues.
    if (sources.length > 0) return this.#holdUp(waiter, sources);
    const late = expiring.findLast((queue) => queue.ledger.dueFloor <= waiter.arrivedAt - DUE_GRACE_MS);
    // Searches end in about the order in which they start.
    if (late !== undefined) return this.#holdUp(waiter, [late]);
    // A request for more bytes than one answer may hold gets fewer tasks; the caller asks again for the rest.
    const selection = select(queues, command, Math.min(command.maxBytes, memory.admission.maxAnswerBytes));
    const mayRefill = waiter.refills < MAX_REFILLS + queues.length / REFILLS_AT_ONCE;
    if (selection.kind === 'refill' && (mayRefill || selection.picks.length === 0)) {
      const [first] = selection.refills;
      // Count only refills that start now: this attempt may find one already running.
      if (!first.queue.refilling) waiter.refills++;
      for (const { queue, wanted } of selection.refills) this.#startRefill(queue, wanted);
      // Reads end in about the order in which they start, so a request that waits for the last one is tried once for all.
      // But only the first queue is sure to be in memory when its own read ends, so later attempts wait for the first.
      const isMany = waiter.refills <= queues.length / REFILLS_AT_ONCE;
      const awaited = (isMany ? selection.refills.at(-1) : undefined) ?? first;
      return this.#holdUp(waiter, [awaited.queue]);
    }
    if (selection.picks.length === 0) {
      if (expiring.length > 0) return this.#holdUp(waiter, expiring);
      waiter.hasLooked = true;
      return 'empty';
    }
    const room = memory.admission.tryAnswer(selection.bytes);
    if (!room) return this.#waitForRoom(waiter);
    try {
      const granted = grant(memory, selection.picks, command);
      waiter.answer(this.#deliver(granted, room));
    } catch (error) {
      room[Symbol.dispose]();
      waiter.fail(error);
    }
    for (const queue of queues) this.#prefetch(queue);
    return 'served';
  }

  /**
   * Starts a refill of a busy queue when memory has fewer ready tasks than one refill reads. A lower threshold is too late:
   * at 60,000 leases/s workers reach the end of the head before the read ends.
   */
  #prefetch(queue: Queue): void {
    const { cache } = queue;
    if (!cache || cache.firstMissing === undefined || queue.refilling) return;
    if (cache.readyCount < prefetchSize(this.#memory, queue, 0)) this.#startRefill(queue, 0);
  }

  /** At its end it calls the listener's `read`. */
  #startRefill(queue: Queue, wanted: number): void {
    if (!queue.refilling) refill(this.#memory, queue, wanted).catch(() => {});
  }

  /** At its end it calls the listener's `read`. */
  #startExpiry(queue: Queue): void {
    if (!queue.expiring) showDue(this.#memory, queue).catch(() => {});
  }

  /** Looks for due tasks when the next hidden task of the queue is due, if requests wait for the queue. */
  #armDueTimer(name: string): void {
    const [first] = this.#lines.line(name);
    const queue = first && this.#queueNamed(first, name);
    if (!queue || queue.ledger.hidden === 0) return;
    const { clock } = this.#memory;
    const at = Math.max(queue.ledger.dueFloor, clock.now() + EXPIRY_GAP_MS) as Instant;
    const armed = this.#dueTimers.get(name);
    if (armed && armed.at <= at) return;
    armed?.cancel();
    const cancel = clock.at(at, () => {
      this.#dueTimers.delete(name);
      if (!this.#lines.has(name)) return;
      if (mayBeDue(queue, clock.now()) && !queue.dropped) this.#startExpiry(queue);
      else this.#armDueTimer(name);
    });
    this.#dueTimers.set(name, { at, cancel });
  }

  #clearTimers(): void {
    for (const { cancel } of this.#dueTimers.values()) cancel();
    this.#dueTimers.clear();
  }
}
