import { NOTHING_CHANGED, type QueueName } from '@taskmaster/proto';
import type { AnswerRoom } from '../admission.ts';
import type { CallSignal } from '../domain/call-signal.ts';
import type { LeaseCommand, LeasedTask, LeasePattern, MatchedQueue } from '../domain/commands.ts';
import type { Instant, PartitionId } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import type { EngineState } from '../engine-state.ts';
import { mayBeDue } from '../operations/expire.ts';
import type { CancelTimer } from '../ports/clock.ts';
import { prefetchSize, refill } from '../queues/cache/refill.ts';
import type { Queue } from '../queues/queue.ts';
import type { QueuesLimit } from '../records/limit-table.ts';
import { Deadlines } from './deadlines.ts';
import { DueWatch } from './due-watch.ts';
import { type Followed, FollowedPatterns } from './followed-patterns.ts';
import { deliver, grant, isToBeRead, type LeasedPick, REFILLS_AT_ONCE, select } from './grant-leases.ts';
import { LeaseWaiter, type WaiterPattern } from './lease-waiter.ts';
import { hasSignals } from './leased-signals.ts';
import { type Candidates, endTurns, PatternTurns } from './pattern-turns.ts';
import { LineWalk, WaitLines } from './wait-lines.ts';

const cancelled = (): Refusal => new Refusal('CANCELLED', 'the call was cancelled', { metadata: NOTHING_CHANGED });

type Attempt = 'served' | 'blocked' | 'empty';

/** A request gets the tasks in memory after this many refills, because the cache may be too small for all it asks for. */
const MAX_REFILLS = 4;
const NEVER = Number.MAX_SAFE_INTEGER as Instant;
const REBUILD_GAP_MS = 1000;
/**
 * A request waits for the search for tasks that have been due for longer than this. It does not wait for others, because tasks
 * of a busy queue may become due all the time.
 */
const DUE_GRACE_MS = 100;
const NONE: readonly never[] = [];
const NO_PARTITIONS: ReadonlySet<PartitionId> = new Set();
/** A limit with more queues that have tasks is slower to look through than all requests that wait. */
const FEW_QUEUES = 64;
const NO_NAMES: ReadonlySet<string> = new Set();

/**
 * LeaseTasks: serves lease requests, with and without a wait, first come, first served for each queue. A request blocks the
 * requests behind it only while it is first in line and waits for the store.
 */
export class LeaseRequests {
  readonly #lines = new WaitLines<LeaseWaiter>();
  readonly #deadlines: Deadlines<LeaseWaiter>;
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
  readonly #patterns: FollowedPatterns;
  readonly #turns: PatternTurns;
  readonly #due: DueWatch;
  /** When a limit gets a token for which requests may wait. */
  #refillAt = NEVER;
  #cancelRefill: CancelTimer = () => {};
  /** Partitions of matching queues that do not allow commits yet. */
  readonly #gatedPartitions = new Set<PartitionId>();
  #arrivals = 0;
  #engineState: EngineState;

  constructor(engineState: EngineState) {
    this.#engineState = engineState;
    this.#deadlines = new Deadlines(engineState.clock, (waiter) => this.#waitIsOver(waiter));
    this.#patterns = new FollowedPatterns(engineState, {
      matched: ({ key }) => void this.#serve(key),
      failed: ({ key }, error) => {
        for (const waiter of this.#lines.line(key)) waiter.fail(error);
      },
      available: (queue) => this.#available(queue),
    });
    this.#turns = new PatternTurns(engineState, this.#patterns);
    this.#due = new DueWatch(engineState, {
      queueOf: (name) => {
        const [first] = this.#lines.line(name);
        return first && this.#queueNamed(first, name);
      },
      hasPatterns: () => this.#patterns.hasWaiting((key) => this.#lines.has(key)),
      isFollowed: ({ fullName }) => this.#patterns.following(fullName) !== undefined,
    });
    engineState.holdings.onChange(() => this.#servePatterns());
    this.#listen(engineState);
  }

  get waiters(): number {
    return this.#lines.size;
  }

  /**
   * Continues with rebuilt memory; requests keep waiting. All are served again at most once in `REBUILD_GAP_MS`: on a full
   * disk the first lease may fail again and cause the next rebuild.
   */
  adopt(engineState: EngineState): void {
    const { failed } = this.#engineState;
    this.#engineState = engineState;
    this.#stopRefill();
    this.#listen(engineState);
    this.#heldUp.clear();
    this.#due.adopt(engineState);
    this.#turns.adopt(engineState);
    this.#patterns.adopt(engineState);
    this.#cancelServeAll();
    const { clock } = engineState;
    const at = Math.max(clock.now(), this.#servedAllAt + REBUILD_GAP_MS) as Instant;
    if (at === clock.now()) {
      this.#serveAll();
      return;
    }
    for (const waiter of this.#lines.all()) waiter.unserved = failed;
    this.#cancelServeAll = clock.at(at, () => this.#serveAll());
  }

  #serveAll(): void {
    this.#servedAllAt = this.#engineState.clock.now();
    for (const waiter of this.#lines.all()) {
      waiter.unserved = undefined;
      for (const name of waiter.lines) {
        this.#serve(name);
        this.#due.watch(name);
      }
      if (waiter.patterns.length > 0) this.#due.watchPatterns();
    }
  }

  lease(command: LeaseCommand, signal: CallSignal | undefined): Promise<LeasedTask[]> {
    const { clock, config } = this.#engineState;
    const { waitMs } = command;
    const now = clock.now();
    this.#engineState.endHolds(now);
    if (waitMs > 0 && this.#lines.size >= config.maxWaiters) {
      throw new Refusal('TOO_MANY_WAITERS', `${config.maxWaiters} lease requests are waiting already`, {
        retryDelayMs: 1000,
        metadata: { limit: String(config.maxWaiters) },
      });
    }
    if (signal?.aborted) return Promise.reject(cancelled());
    const partitions = this.#partitionsOf(command);
    const patterns = command.patterns && this.#follow(command.patterns);
    const waiter = new LeaseWaiter(command, partitions, signal, now, ++this.#arrivals, patterns);
    if (waiter.patterns.length > 0) waiter.leave = this.#leave;
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
    for (const name of waiter.lines) this.#due.watch(name);
    if (waiter.patterns.length > 0) this.#due.watchPatterns();
    return waiter.answered;
  }

  /** Queues with available tasks that match the patterns of a command and that it does not name. */
  queuesWithTasks(command: LeaseCommand, most: number): MatchedQueue[] {
    return this.#turns.queuesWithTasks(command, most);
  }

  #follow(asked: readonly LeasePattern[]): readonly WaiterPattern[] {
    const followed: WaiterPattern[] = [];
    try {
      for (const each of asked) {
        const { after, id, mayLease } = each;
        followed.push({ pattern: this.#patterns.follow(each), after, id, mayLease });
      }
    } catch (error) {
      for (const { pattern } of followed) this.#patterns.unfollow(pattern);
      throw error;
    }
    return followed;
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
    waiter.leave = undefined;
    for (const { pattern } of waiter.patterns) this.#patterns.unfollow(pattern);
    this.#lines.leave(waiter);
    this.#deadlines.remove(waiter);
    if (waiter.onAbort) waiter.signal?.removeEventListener('abort', waiter.onAbort);
  };

  /** Answers all waiters: with an empty list, or with the error. */
  dismiss(error?: Refusal): void {
    this.#stopRefill();
    this.#due.stop();
    this.#cancelServeAll();
    for (const waiter of this.#lines.all()) {
      if (error) waiter.fail(error);
      else waiter.answer([]);
    }
  }

  /** Refuses the requests that wait for queues of a partition that this node has given up. */
  abandon(id: PartitionId): void {
    for (const waiter of this.#lines.all()) {
      if (waiter.partitions.has(id)) waiter.fail(this.#engineState.holdings.notHolder(id));
    }
  }

  /** Resolves when the payloads of the tasks that are leased now have been read. */
  async delivered(): Promise<void> {
    await Promise.allSettled(this.#delivering);
  }

  /** `signalBytes`: see `deliver`. */
  #deliver(granted: readonly LeasedPick[], room: AnswerRoom, signalBytes: number | undefined): Promise<LeasedTask[]> {
    const delivering = deliver(this.#engineState, granted, room, signalBytes);
    // `delivered()` has to wait for reads only.
    if (!granted.some(isToBeRead) && (signalBytes === undefined || !granted.some(hasSignals))) return delivering;
    const over = (): void => void this.#delivering.delete(delivering);
    this.#delivering.add(delivering);
    delivering.then(over, over);
    return delivering;
  }

  /** Partitions of the groups that the command names. */
  #partitionsOf({ queues, patterns = [] }: LeaseCommand): ReadonlySet<PartitionId> {
    if (this.#engineState.holdings.everything) return NO_PARTITIONS;
    const partitions = new Set(queues.map(({ group }) => this.#engineState.partitionOf(group)));
    for (const { group } of patterns) if (group !== undefined) partitions.add(this.#engineState.partitionOf(group));
    return partitions;
  }

  /** True if a partition of the waiter does not allow commits yet. The waiter is served again when it does. */
  #isGated(waiter: LeaseWaiter): boolean {
    if (waiter.gated) return true;
    for (const id of waiter.partitions) {
      const gate = this.#engineState.holdings.gate(id);
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

  #listen(engineState: EngineState): void {
    const current = (): boolean => this.#engineState === engineState;
    engineState.listener = {
      added: (queue) => {
        if (current()) this.#patterns.added(queue);
      },
      removed: (queue) => {
        if (current()) this.#patterns.removed(queue);
      },
      freed: (limit) => {
        if (current()) this.#freed(limit);
      },
      refill: (at) => {
        if (current()) this.#armRefill(at);
      },
      available: (queue) => {
        if (current()) this.#available(queue);
      },
      opened: (queues) => {
        if (current()) this.#opened(queues);
      },
      hidden: ({ fullName }) => {
        if (current() && this.#lines.has(fullName)) this.#due.watch(fullName);
      },
      read: (queue, error) => {
        if (current()) this.#goOn(queue, error);
      },
    };
    // Limits that were used up before a start wait for their tokens, too.
    this.#armRefill(engineState.limits.refillsAt);
  }

  #available(queue: Queue): void {
    // The requests are served when it is resumed, and when its limits allow leases.
    if (queue.isHeld) return;
    const { fullName } = queue;
    let isAwaited = this.#lines.has(fullName);
    for (const { key } of this.#patterns.becameReady(queue)) isAwaited ||= this.#lines.has(key);
    if (isAwaited) this.#serve(fullName);
  }

  /** The lines of those who wait for a queue that offers tasks again, by its name or by a pattern. */
  #linesOf(queue: Queue): string[] {
    const { fullName } = queue;
    const names = this.#lines.has(fullName) ? [fullName] : [];
    for (const { key } of this.#patterns.becameReady(queue)) if (this.#lines.has(key)) names.push(key);
    return names;
  }

  /** The lines of those who wait for queues of a limit that offer tasks. */
  #linesUnder(limit: QueuesLimit): ReadonlySet<string> {
    const names = new Set<string>();
    for (const queue of limit.waiting) if (queue.isOffering) for (const name of this.#linesOf(queue)) names.add(name);
    return names;
  }

  /** The patterns for which requests wait and that match queues of a limit that offer tasks. */
  #patternsUnder(limit: QueuesLimit): ReadonlySet<string> {
    if (this.#patterns.isEmpty) return NO_NAMES;
    const awaited = new Set<string>();
    for (const { key, ready } of this.#patterns.of(limit.record.group)) {
      // The turns are those of the limit, in which a queue goes behind the others with each lease.
      const fewer = ready.size < limit.waiting.size ? ready : limit.waiting;
      for (const queue of fewer) if (queue.limits?.includes(limit)) ready.delete(queue);
      if (this.#lines.has(key)) awaited.add(key);
    }
    const names = new Set<string>();
    const queues = this.#turns.freed(limit);
    while (awaited.size > 0) {
      const next = queues.next();
      if (next.done) break;
      for (const name of next.value.isOffering ? this.#linesOf(next.value) : NONE) {
        names.add(name);
        awaited.delete(name);
      }
    }
    return names;
  }

  /** Serves those who wait for the queues of a limit, in order of arrival, until the limit is used up again. */
  #freed(limit: QueuesLimit): void {
    const isSmall = limit.waiting.size <= FEW_QUEUES;
    const names = isSmall ? this.#linesUnder(limit) : this.#patternsUnder(limit);
    const isUnder = (waiter: LeaseWaiter, name: string): boolean => {
      if (names.has(name)) return true;
      const queue = isSmall ? undefined : this.#queueNamed(waiter, name);
      return queue?.limits?.includes(limit) === true && queue.offers(waiter.command.kinds);
    };
    const waiters = isSmall ? this.#inLines(names) : this.#lines.inOrder();
    this.#serveInOrder(waiters, isUnder, () => limit.room > 0 && limit.waiting.size > 0);
  }

  /** Serves those who wait for these queues, in order of arrival. */
  #opened(queues: readonly Queue[]): void {
    const [first] = queues;
    if (queues.length === 1 && first !== undefined) {
      if (first.isOffering) this.#available(first);
      return;
    }
    const names = new Set<string>();
    for (const queue of queues) if (queue.isOffering) for (const name of this.#linesOf(queue)) names.add(name);
    if (names.size === 0) return;
    // The first requests may take what makes the queues offer tasks.
    const isUnder = (waiter: LeaseWaiter, name: string): boolean => {
      if (!names.has(name)) return false;
      const pattern = this.#patterns.get(name);
      return pattern === undefined
        ? this.#queueNamed(waiter, name)?.offers(waiter.command.kinds) === true
        : pattern.ready.size > 0;
    };
    let at = 0;
    const isAnyOffering = (): boolean => {
      while (at < queues.length && queues[at]?.isOffering !== true) at++;
      return at < queues.length;
    };
    this.#serveInOrder(this.#inLines(names), isUnder, isAnyOffering);
  }

  /** Those who stand in these lines, in order of arrival. */
  #inLines(names: ReadonlySet<string>): Iterable<LeaseWaiter> {
    return names.size > FEW_QUEUES ? this.#lines.inOrder() : this.#lines.walk(names);
  }

  /** Serves requests that stand in lines which `isUnder` names, while `goesOn`. */
  #serveInOrder(
    waiters: Iterable<LeaseWaiter>,
    isUnder: (waiter: LeaseWaiter, name: string) => boolean,
    goesOn: () => boolean,
  ): void {
    const tried = new Set<LeaseWaiter>();
    const blocked = new Set<string>();
    const unblocked = new Set<string>();
    for (const waiter of waiters) {
      if (!goesOn()) break;
      if (tried.has(waiter) || !waiter.lines.some((name) => !blocked.has(name) && isUnder(waiter, name))) continue;
      tried.add(waiter);
      const attempt = this.#attempt(waiter);
      if (attempt === 'served') for (const name of waiter.lines) unblocked.add(name);
      else if (attempt === 'empty' && waiter.impatient) waiter.answer(this.#nothing());
      else if (attempt === 'empty' && waiters instanceof LineWalk && this.#isForAllAlike(waiter)) waiters.skipGroup();
      // Others do not wait for the names of queues to be matched.
      else if (attempt === 'blocked' && !isMatching(waiter)) for (const name of waiter.lines) blocked.add(name);
    }
    for (const name of unblocked) if (!blocked.has(name) && this.#lines.has(name)) this.#serve(name);
  }

  /** Blocks the waiter's lines until the reads of these queues end. */
  #holdUp(waiter: LeaseWaiter, queues: readonly Queue[]): 'blocked' {
    for (const queue of queues) {
      const names = this.#heldUp.get(queue) ?? new Set();
      for (const name of waiter.lines) names.add(name);
      // Requests with patterns are tried in the line of the queue, too.
      if (waiter.patterns.length > 0) names.add(queue.fullName);
      this.#heldUp.set(queue, names);
    }
    return 'blocked';
  }

  /** Blocks the line of a queue, too, at whose front is a request with patterns that waits for the read of another queue. */
  #holdUpWith(waiter: LeaseWaiter, name: string): void {
    for (const names of this.#heldUp.values()) if (waiter.lines.some((line) => names.has(line))) names.add(name);
  }

  /** Continues after a read of the queue, which any operation may have started. */
  #goOn(queue: Queue, error: unknown): void {
    const names = this.#heldUp.get(queue);
    this.#heldUp.delete(queue);
    this.#due.ended(queue, error);
    if (error !== undefined) this.#leaveOut(queue, names, error);
    // After a failed write, requests that may wait do so until memory is rebuilt.
    const mayFail = (waiter: LeaseWaiter): boolean => waiter.impatient || !this.#engineState.failed;
    for (const waiter of error === undefined ? [] : this.#lines.line(queue.fullName)) {
      if (mayFail(waiter)) waiter.fail(error);
    }
    // It may be read for a request for another queue, with a limit of keys in common. That one would ask again at once.
    for (const name of error === undefined ? [] : (names ?? [])) {
      const [first] = this.#lines.line(name);
      if (first !== undefined && mayFail(first) && this.#lacksKeysOf(first, queue)) first.fail(error);
    }
    const blocked = new Set<LeaseWaiter>();
    for (const name of names ?? []) this.#serve(name, blocked);
    this.#due.watch(queue.fullName);
  }

  /** Whether a request may lease nothing before the tasks of another queue are known by key. */
  #lacksKeysOf(waiter: LeaseWaiter, queue: Queue): boolean {
    return this.#queuesOf(waiter).some(({ limits }) => limits?.some(({ keys }) => keys?.unknown.has(queue)) ?? false);
  }

  /** Patterns leave a queue out that cannot be read, until it gets a task. The first request that waits for it says so. */
  #leaveOut(queue: Queue, names: ReadonlySet<string> | undefined, error: unknown): void {
    for (const { ready, key } of this.#patterns.following(queue.fullName)?.patterns ?? []) {
      ready.delete(queue);
      const [first] = names?.has(key) ? this.#lines.line(key) : [];
      if (first !== undefined && (first.impatient || !this.#engineState.failed)) first.fail(error);
    }
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
    this.#engineState.admission.standInLine(() => {
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
    const followed = this.#patterns.isEmpty ? undefined : this.#patterns.following(name);
    const pattern = this.#patterns.isEmpty ? undefined : this.#patterns.get(name);
    const walk = this.#inLine(name, followed);
    for (const waiter of walk) {
      if (blocked?.has(waiter)) {
        if (followed !== undefined && waiter.patterns.length > 0) this.#holdUpWith(waiter, name);
        break;
      }
      const nothing = pattern
        ? !this.#turns.mayOffer(pattern)
        : this.#hasNothing(followed?.queue ?? this.#queueNamed(waiter, name));
      if (nothing && !this.#hasImpatient(name, followed)) break;
      let attempt = this.#attempt(waiter, followed);
      if (attempt === 'empty' && waiter.impatient && waiter.patterns.length > 0 && followed !== undefined) {
        // It was tried for one of its queues only, and leaves with the answer. This line does not wait for its other queues.
        attempt = this.#attempt(waiter);
        if (attempt === 'blocked') continue;
      }
      if (attempt === 'blocked') {
        // Others do not wait for the names of queues to be matched.
        if (isMatching(waiter)) continue;
        blocked?.add(waiter);
        break;
      }
      if (attempt === 'served') {
        served = true;
        for (const other of waiter.lines) unblocked.add(other);
      } else if (waiter.impatient) {
        waiter.answer(this.#nothing());
      } else if (waiter.command.maxPid !== undefined || this.#hasImpatient(name, followed)) {
        // Others may find tasks, or are answered.
      } else if (waiter.accepts !== undefined) {
        walk.skipGroup();
      } else if (pattern) {
        // The others find nothing, either.
        break;
      }
    }
    unblocked.delete(name);
    for (const other of unblocked) if (this.#lines.has(other)) this.#serve(other);
    return served;
  }

  #hasNothing(queue: Queue | undefined): boolean {
    if (queue === undefined || queue.pause !== undefined) return true;
    if (queue.isOffering) return false;
    const now = this.#engineState.clock.now();
    if (mayBeDue(queue, now)) return false;
    return this.#due.inTheWay([queue], Number.POSITIVE_INFINITY, now).length === 0;
  }

  /** Whether others in the same lines that accept the same find nothing either, and wait on. */
  #isForAllAlike({ accepts, command, lines }: LeaseWaiter): boolean {
    return (
      accepts !== undefined && command.maxPid === undefined && !lines.some((name) => this.#lines.hasImpatient(name))
    );
  }

  #hasImpatient(name: string, followed: Followed | undefined): boolean {
    if (this.#lines.hasImpatient(name)) return true;
    return followed?.patterns.some(({ key }) => this.#lines.hasImpatient(key)) ?? false;
  }

  /** Those who wait for a queue by its name or by a pattern, or those who wait for a pattern, in order of arrival. */
  #inLine(name: string, followed: Followed | undefined): LineWalk<LeaseWaiter> {
    if (followed === undefined) return this.#lines.walk([name]);
    const { group } = followed.queue.ledger.name;
    const patterns = followed.patterns.filter(({ mayLease }) => mayLease?.(group) !== false);
    return this.#lines.walk([name, ...patterns.map(({ key }) => key)]);
  }

  /** Serves the requests with patterns, because queues may be served now that were not before. */
  #servePatterns(): void {
    for (const key of this.#patterns.keys()) if (this.#lines.has(key)) this.#serve(key);
  }

  #queueNamed(waiter: LeaseWaiter, name: string): Queue | undefined {
    const queueName = waiter.queueOf(name);
    return queueName && this.#engineState.table.get(queueName);
  }

  #queuesOf({ queues: names }: LeaseWaiter): Queue[] {
    const { table } = this.#engineState;
    const [first] = names;
    const queue = first && table.get(first);
    // Most requests name one queue. An array that grows would get room for 17 (bench row B4).
    const queues = queue ? [queue] : [];
    for (let at = 1; at < names.length; at++) {
      const name = names[at];
      const other = name && table.get(name);
      if (other) queues.push(other);
    }
    return queues;
  }

  /**
   * Serves a new request at once, without a place in line, if that overtakes no other request. Requests in a line that is not
   * blocked have already seen the available tasks and could not use them.
   */
  #attemptAhead(waiter: LeaseWaiter): Attempt {
    // If its lines are empty, it overtakes no other request. Most lines are, and need no look-ups (bench row B4).
    if (waiter.lines.some((name) => this.#lines.has(name))) {
      const reading = this.#queuesOf(waiter).filter(({ refilling, expiring }) => refilling || expiring);
      // Nothing else may serve the lines when such a read ends: one that another operation has started holds up no line.
      if (reading.length > 0) return this.#holdUp(waiter, reading);
      for (const names of [...this.#heldUp.values(), this.#withoutRoom]) {
        if (waiter.lines.some((name) => names.has(name) && this.#lines.has(name))) return 'blocked';
      }
    }
    const attempt = this.#attempt(waiter);
    if (attempt !== 'empty' || !waiter.impatient) return attempt;
    waiter.answer(this.#nothing());
    return 'served';
  }

  /** An empty answer. It waits until the change that took the last task is durable, so that it stays true after a crash. */
  async #nothing(): Promise<LeasedTask[]> {
    await this.#engineState.durable();
    return [];
  }

  /** `only`: the one matching queue to try for the patterns. Undefined: all. */
  #attempt(waiter: LeaseWaiter, only?: Followed): Attempt {
    const engineState = this.#engineState;
    if (engineState.failed) {
      // Requests that may wait do so until memory is rebuilt.
      if (waiter.impatient) waiter.fail(engineState.failed);
      return 'blocked';
    }
    if (this.#isGated(waiter)) return 'blocked';
    waiter.unserved = undefined;
    const { command, patterns } = waiter;
    const now = engineState.clock.now();
    if (isMatching(waiter)) return 'blocked';
    if (patterns.length > 0) this.#due.sweepPatterns(now);
    const notYet: NotYet | undefined = patterns.length > 0 ? { blocked: [], isWithoutRoom: false } : undefined;
    const candidates = notYet && this.#candidates(waiter, only, notYet);
    const queues = candidates?.queues ?? this.#queuesOf(waiter);
    // Loops without closures and arrays in between: bench row B4.
    const expiring: Queue[] = [];
    for (const queue of queues) if (mayBeDue(queue, now)) expiring.push(queue);
    for (const queue of this.#due.inTheWay(queues, command.maxTasks, now))
      if (!expiring.includes(queue)) expiring.push(queue);
    const names = candidates === undefined ? waiter.queues : [...waiter.queues, ...candidates.ids.keys()];
    const sources: Queue[] = [];
    for (const name of names) for (const source of engineState.lastAttempts.into(name, now)) sources.push(source);
    for (const queue of expiring) this.#due.search(queue);
    for (const queue of sources) this.#due.search(queue);
    // Dead letters must arrive first: they may replace tasks of these queues.
    if (sources.length > 0) return this.#holdUp(waiter, sources);
    const late = expiring.findLast((queue) => queue.ledger.dueFloor <= waiter.arrivedAt - DUE_GRACE_MS);
    // Searches end in about the order in which they start.
    if (late !== undefined) return this.#holdUp(waiter, [late]);
    // A request for more bytes than one answer may hold gets fewer tasks; the caller asks again for the rest.
    const maxBytes = Math.min(command.maxBytes, engineState.admission.maxAnswerBytes);
    const selection = select(queues, command, maxBytes, now, candidates?.mostOf);
    const mayRefill = waiter.refills < MAX_REFILLS + queues.length / REFILLS_AT_ONCE;
    if (selection.kind === 'refill' && (mayRefill || selection.picks.length === 0)) {
      const [first] = selection.refills;
      // Count only refills that start now: this attempt may find one already running.
      if (!first.queue.refilling) waiter.refills++;
      for (const { queue, wanted, inLanes } of selection.refills) this.#startRefill(queue, wanted, inLanes);
      // Reads end in about the order in which they start, so a request that waits for the last one is tried once for all.
      // But only the first queue is sure to be in memory when its own read ends, so later attempts wait for the first.
      const isMany = waiter.refills <= queues.length / REFILLS_AT_ONCE;
      const awaited = (isMany ? selection.refills.at(-1) : undefined) ?? first;
      return this.#holdUp(waiter, [awaited.queue]);
    }
    if (selection.picks.length === 0) {
      if (expiring.length > 0) return this.#holdUp(waiter, expiring);
      if (notYet !== undefined) {
        const awaited = [...notYet.blocked, ...(waiter.hasLooked ? [] : this.#sweptFor(waiter))];
        if (awaited.length > 0) return this.#holdUp(waiter, awaited);
        // It is tried again when the lines of these queues are served.
        if (notYet.isWithoutRoom && (waiter.impatient || !waiter.hasLooked)) return 'blocked';
      }
      if (candidates === undefined || only === undefined) waiter.hasLooked = true;
      return 'empty';
    }
    const room = engineState.admission.tryAnswer(selection.bytes);
    if (!room) return this.#waitForRoom(waiter);
    try {
      const granted = grant(engineState, selection.picks, command, now);
      const signalBytes = command.includeSignals ? Math.max(0, maxBytes - selection.bytes) : undefined;
      const delivering = this.#deliver(granted, room, signalBytes);
      waiter.answer(candidates === undefined ? delivering : delivering.then((tasks) => withIds(tasks, candidates.ids)));
    } catch (error) {
      room[Symbol.dispose]();
      waiter.fail(error);
    }
    for (const queue of queues) this.#prefetch(queue);
    endTurns(patterns, selection.picks);
    return 'served';
  }

  /** Beside `#attempt`, because a closure there would cost requests without patterns, too (bench row B4). */
  #candidates(waiter: LeaseWaiter, only: Followed | undefined, notYet: NotYet): Candidates {
    return this.#turns.candidates(waiter, only, (queue) => this.#isOpen(queue, only, notYet));
  }

  /** False if a request with a pattern may not have tasks of this queue yet. */
  #isOpen(queue: Queue, only: Followed | undefined, notYet: NotYet): boolean {
    const { partition, fullName } = queue;
    if (!this.#engineState.holdings.canCommit(partition)) {
      this.#serveAfterGate(partition);
      return false;
    }
    // In its line, it is the turn of the request. Otherwise requests that wait for the queue come first.
    if (only !== undefined || !this.#lines.has(fullName)) return true;
    const isReading = queue.refilling !== undefined || queue.expiring !== undefined;
    if (!isReading && !this.#withoutRoom.has(fullName)) return true;
    if (isReading) notYet.blocked.push(queue);
    else notYet.isWithoutRoom = true;
    return false;
  }

  #serveAfterGate(partition: PartitionId): void {
    const gate = this.#engineState.holdings.gate(partition);
    if (gate === undefined || this.#gatedPartitions.has(partition)) return;
    this.#gatedPartitions.add(partition);
    gate.then(
      () => {
        this.#gatedPartitions.delete(partition);
        this.#servePatterns();
      },
      // Another node holds it, or a change of the holdings tells when it can be served.
      () => this.#gatedPartitions.delete(partition),
    );
  }

  /** Queues that match the request and are searched for due tasks. */
  #sweptFor(waiter: LeaseWaiter): Queue[] {
    return [...this.#due.sweeping].filter((queue) => {
      const followed = this.#patterns.following(queue.fullName);
      return followed !== undefined && waiter.mayFollow(queue, followed.patterns);
    });
  }

  /**
   * Starts a refill of a busy queue when memory has fewer ready tasks than one refill reads. A lower threshold is too late:
   * at 60,000 leases/s workers reach the end of the head before the read ends.
   */
  #prefetch(queue: Queue): void {
    const { cache } = queue;
    if (!cache || cache.firstMissing === undefined || queue.refilling) return;
    if (cache.readyCount < prefetchSize(this.#engineState, queue, 0)) this.#startRefill(queue, 0);
  }

  /** At its end it calls the listener's `read`. */
  #startRefill(queue: Queue, wanted: number, inLanes = false): void {
    if (!queue.refilling) refill(this.#engineState, queue, wanted, inLanes).catch(() => {});
  }

  /** Serves those who wait for a token of a limit. */
  #armRefill(at: Instant): void {
    if (at >= this.#refillAt) return;
    const engineState = this.#engineState;
    this.#cancelRefill();
    this.#refillAt = at;
    this.#cancelRefill = engineState.clock.at(at, () => {
      this.#refillAt = NEVER;
      if (engineState.failed) return;
      engineState.endHolds(engineState.clock.now());
      this.#armRefill(engineState.limits.refillsAt);
    });
  }

  #stopRefill(): void {
    this.#cancelRefill();
    this.#refillAt = NEVER;
  }
}

/** Why a request with patterns may not have tasks of some queues yet. */
interface NotYet {
  /** Queues with tasks for which others wait first, until a read ends. */
  readonly blocked: Queue[];
  /** True if there are queues with tasks for which others wait first, until there is room for their answers. */
  isWithoutRoom: boolean;
}

/** The tasks, with the patterns by which they were found. */
const withIds = (tasks: LeasedTask[], ids: ReadonlyMap<QueueName, number>): LeasedTask[] =>
  tasks.map((task) => ({ ...task, patternId: ids.get(task.queue) }));

const isMatching = ({ patterns }: LeaseWaiter): boolean =>
  patterns.length > 0 && patterns.some(({ pattern }) => pattern.isMatching);
