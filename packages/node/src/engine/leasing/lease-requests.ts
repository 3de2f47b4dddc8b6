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

/** With a cache too small to hold what one request asks for, it gets what there is after so many refills. */
const MAX_REFILLS = 4;
const REBUILD_GAP_MS = 1000;
/** Expiry is looked for at most so often for one queue. */
const EXPIRY_GAP_MS = 10;
const NO_PARTITIONS: ReadonlySet<PartitionId> = new Set();

/**
 * Serves lease requests, those that wait and those that do not: first come, first served for each queue. Who is first in
 * a line and needs the store holds up those behind; nobody else does.
 */
export class LeaseRequests {
  readonly #lines = new WaitLines<LeaseWaiter>();
  readonly #deadlines: Deadlines<LeaseWaiter>;
  /** Wake-ups for queues that somebody waits for and that have hidden tasks. */
  readonly #dueTimers = new Map<string, { readonly at: Instant; readonly cancel: CancelTimer }>();
  /** Lines that stand still until a read of a queue ends, other queues' lines too: a waiter stands in several. */
  readonly #heldUp = new Map<Queue, Set<string>>();
  /** Lines that stand still until there is room for an answer. Each has its place in the line for room. */
  readonly #withoutRoom = new Set<string>();
  /** Whether room ended while a line was served. */
  #roomEnded = false;
  /** When everybody who waits was served from memory that was built anew, the last time. */
  #servedAllAt = Number.NEGATIVE_INFINITY;
  #cancelServeAll: CancelTimer = () => {};
  readonly #delivering = new Set<Promise<unknown>>();
  #memory: EngineState;

  constructor(memory: EngineState) {
    this.#memory = memory;
    this.#deadlines = new Deadlines(memory.clock, (waiter) => waiter.answer(this.#nothing()));
    this.#listen(memory);
  }

  get waiters(): number {
    return this.#lines.size;
  }

  /**
   * Goes on with memory that was built anew; those who wait go on waiting. They are served at most once in a while: where
   * there is no space at all, the first of them may be the one who finds the disk full again.
   */
  adopt(memory: EngineState): void {
    this.#memory = memory;
    this.#listen(memory);
    this.#clearTimers();
    this.#heldUp.clear();
    this.#cancelServeAll();
    const { clock } = memory;
    const at = Math.max(clock.now(), this.#servedAllAt + REBUILD_GAP_MS) as Instant;
    if (at === clock.now()) this.#serveAll();
    else this.#cancelServeAll = clock.at(at, () => this.#serveAll());
  }

  #serveAll(): void {
    this.#servedAllAt = this.#memory.clock.now();
    for (const waiter of this.#lines.all()) {
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
    const waiter = new LeaseWaiter(command, this.#partitionsOf(command), signal);
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
    waiter.deadline = (clock.now() + waitMs) as Instant;
    this.#deadlines.add(waiter);
    for (const name of waiter.lines) this.#armDueTimer(name);
    return waiter.answered;
  }

  readonly #leave = (waiter: LeaseWaiter): void => {
    this.#lines.leave(waiter);
    this.#deadlines.remove(waiter);
    if (waiter.onAbort) waiter.signal?.removeEventListener('abort', waiter.onAbort);
  };

  /** Answers everybody: with nothing, or with an error. */
  dismiss(error?: Refusal): void {
    this.#clearTimers();
    this.#cancelServeAll();
    for (const waiter of this.#lines.all()) {
      if (error) waiter.fail(error);
      else waiter.answer([]);
    }
  }

  /** Answers those who wait for queues of a partition that this node gave up. */
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
    // Only payloads that are still to be read can be missed.
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

  /** Whether the waiter has to wait for a partition; it is told when that is over. */
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

  /** Notes whom the read of these queues holds up: everybody in the waiter's lines. */
  #holdUp(waiter: LeaseWaiter, queues: readonly Queue[]): 'blocked' {
    for (const queue of queues) {
      const names = this.#heldUp.get(queue) ?? new Set();
      for (const name of waiter.lines) names.add(name);
      this.#heldUp.set(queue, names);
    }
    return 'blocked';
  }

  /** A read of the queue has ended, whoever began it. */
  #goOn(queue: Queue, error: unknown): void {
    const names = this.#heldUp.get(queue);
    this.#heldUp.delete(queue);
    // After a failed write those who can wait do so, for memory that is built anew.
    for (const waiter of error === undefined ? [] : this.#lines.line(queue.fullName)) {
      if (waiter.impatient || !this.#memory.failed) waiter.fail(error);
    }
    const blocked = new Set<LeaseWaiter>();
    for (const name of names ?? []) this.#serve(name, blocked);
    this.#armDueTimer(queue.fullName);
  }

  /** Its lines stand still until there is room for its answer. */
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
      // After every one that was served it is the others' turn: many may stand in this line.
      if (this.#roomEnded) this.#standInLineForRoom(name);
      return true;
    });
  }

  /**
   * Walks a line from its front until somebody must wait, for the store or for room, or nothing is left to give. Returns
   * whether anybody got something. `blocked` are those who were tried in this turn: who stands in a thousand lines is not
   * tried a thousand times.
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
   * Serves a newcomer without standing in line where nobody can be ahead of it: those who wait in a line that is not held
   * up by the store have seen what there is, and could not use it.
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

  /** The answer that there is nothing, once what took the last task is durable: after a crash it must still be true. */
  async #nothing(): Promise<LeasedTask[]> {
    await this.#memory.durable();
    return [];
  }

  #attempt(waiter: LeaseWaiter): Attempt {
    const memory = this.#memory;
    if (memory.failed) {
      // Those who can wait do, for memory that is built anew.
      if (waiter.impatient) waiter.fail(memory.failed);
      return 'blocked';
    }
    if (this.#isGated(waiter)) return 'blocked';
    const { command } = waiter;
    const queues = this.#queuesOf(waiter);
    const now = memory.clock.now();
    const expiring = queues.filter((queue) => mayBeDue(queue, now));
    const sources = waiter.queues.flatMap((name) => memory.lastAttempts.into(name, now));
    for (const queue of [...expiring, ...sources]) this.#startExpiry(queue);
    // The dead come first: they may take the place of what is there.
    if (sources.length > 0) return this.#holdUp(waiter, sources);
    // What the caller cannot get at once without filling the memory, it asks for again.
    const selection = select(queues, command, Math.min(command.maxBytes, memory.admission.maxAnswerBytes));
    const mayRefill = waiter.refills < MAX_REFILLS + queues.length / REFILLS_AT_ONCE;
    if (selection.kind === 'refill' && (mayRefill || selection.picks.length === 0)) {
      const [first] = selection.refills;
      // Only those that begin now: an attempt may come while one is under way.
      if (!first.queue.refilling) waiter.refills++;
      for (const { queue, wanted } of selection.refills) this.#startRefill(queue, wanted);
      // Reads end in about the order in which they begin: whoever waits for the last of many is tried once for all of them.
      // But only the first is sure to be in memory when its own read ends, so that is not for ever.
      const isMany = waiter.refills <= queues.length / REFILLS_AT_ONCE;
      const awaited = (isMany ? selection.refills.at(-1) : undefined) ?? first;
      return this.#holdUp(waiter, [awaited.queue]);
    }
    if (selection.picks.length === 0) return expiring.length > 0 ? this.#holdUp(waiter, expiring) : 'empty';
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
   * Keeps the head of a busy queue ahead of its workers: a refill begins when less than another one is left. With less in
   * hand than that, 60,000 leases/s reach the end of the head while the store is still being read.
   */
  #prefetch(queue: Queue): void {
    const { cache } = queue;
    if (!cache || cache.firstMissing === undefined || queue.refilling) return;
    if (cache.readyCount < prefetchSize(this.#memory, queue, 0)) this.#startRefill(queue, 0);
  }

  /** The listener hears of its end. */
  #startRefill(queue: Queue, wanted: number): void {
    if (!queue.refilling) refill(this.#memory, queue, wanted).catch(() => {});
  }

  /** The listener hears of its end. */
  #startExpiry(queue: Queue): void {
    if (!queue.expiring) showDue(this.#memory, queue).catch(() => {});
  }

  /** Looks again when the next hidden task of a queue shows, while somebody waits for it. */
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
