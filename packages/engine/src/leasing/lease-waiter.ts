import { formatQueueName, type QueueName } from '@taskmaster/proto';
import type { CallSignal } from '../domain/call-signal.ts';
import type { LeaseCommand, LeasedTask, LeasePattern } from '../domain/commands.ts';
import type { Instant, PartitionId } from '../domain/ids.ts';
import type { Refusal } from '../domain/refusal.ts';
import type { Queue } from '../queues/queue.ts';
import type { Due } from './deadlines.ts';
import type { FollowedPattern } from './followed-patterns.ts';
import type { Waiting } from './wait-lines.ts';

const NOTHING = (): void => {};
const NO_PATTERNS: readonly WaiterPattern[] = [];

/** A pattern of a lease request. */
export interface WaiterPattern {
  readonly pattern: FollowedPattern;
  /** See `LeasePattern`. */
  readonly after: number;
  readonly id: number;
  readonly mayLease: LeasePattern['mayLease'];
}

/** Whether a caller with these rights may lease from the group now. */
export const mayLeaseFrom = (mayLease: LeasePattern['mayLease'], group: string): boolean =>
  mayLease === undefined || mayLease(group) === true;

/** From this many queues on, a map is faster than a search of the array and worth its memory. */
const MANY_QUEUES = 16;

/**
 * One lease request until it is answered. This is a hot path, because most requests are answered in the turn in which they
 * arrive. Avoid closures: thousands of requests may wait.
 */
export class LeaseWaiter implements Waiting, Due {
  readonly command: LeaseCommand;
  readonly signal: CallSignal | undefined;
  /** In the order of the request, without duplicates. */
  readonly queues: readonly QueueName[];
  /** In the order of the request. */
  readonly patterns: readonly WaiterPattern[];
  /** What it accepts: see `Waiting`. */
  readonly accepts: string | undefined;
  /** Full names of `queues`, in the same order, then the keys of the patterns. */
  readonly lines: readonly string[];
  /** Partitions of its queues. Empty without a cluster. */
  readonly partitions: ReadonlySet<PartitionId>;
  readonly arrivedAt: Instant;
  /** Number of the request, in order of arrival. */
  readonly arrival: number;
  /** End of its wait. Set when it starts to wait. */
  deadline = 0 as Instant;
  order = 0;
  readonly answered: Promise<LeasedTask[]>;
  /** True while one of its partitions does not allow commits. */
  gated = false;
  /** May become true before the request stands in line. */
  isAnswered = false;
  /** True after it was tried and found no task. Its wait does not end before that. */
  hasLooked = false;
  /** True if its wait was over before it had looked. */
  isLate = false;
  /** Why it waits to be served again after a failed write. Undefined: it does not. */
  unserved: Refusal | undefined;
  /** Rounds of refills that this request has started. */
  refills = 0;
  /** Called when it is answered. */
  leave: ((waiter: LeaseWaiter) => void) | undefined;
  onAbort: (() => void) | undefined;
  #byLine: ReadonlyMap<string, QueueName> | undefined;
  #resolve: (tasks: Promise<LeasedTask[]> | LeasedTask[]) => void = NOTHING;
  #reject: (error: unknown) => void = NOTHING;

  constructor(
    command: LeaseCommand,
    partitions: ReadonlySet<PartitionId>,
    signal: CallSignal | undefined,
    arrivedAt: Instant,
    arrival = 0,
    patterns = NO_PATTERNS,
  ) {
    this.command = command;
    this.arrivedAt = arrivedAt;
    this.arrival = arrival;
    this.patterns = patterns;
    this.accepts = command.kinds?.key;
    this.signal = signal;
    this.partitions = partitions;
    const { queues } = command;
    const [only] = queues;
    if (queues.length === 1 && only && patterns.length === 0) {
      this.lines = [formatQueueName(only)];
      this.queues = queues;
    } else {
      const named = new Map(queues.map((name) => [formatQueueName(name), name]));
      this.lines = [...named.keys(), ...new Set(patterns.map(({ pattern }) => pattern.key))];
      this.queues = [...named.values()];
      if (named.size >= MANY_QUEUES) this.#byLine = named;
    }
    this.answered = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** True if the request does not wait, or no longer. */
  get impatient(): boolean {
    return this.command.waitMs === 0 || this.isLate;
  }

  queueOf(line: string): QueueName | undefined {
    return this.#byLine ? this.#byLine.get(line) : this.queues[this.lines.indexOf(line)];
  }

  /** True if it may get tasks of the queue by one of these patterns. */
  mayFollow({ ledger }: Queue, followed: readonly FollowedPattern[]): boolean {
    return this.patterns.some(
      ({ pattern, mayLease }) => followed.includes(pattern) && mayLeaseFrom(mayLease, ledger.name.group),
    );
  }

  answer(tasks: Promise<LeasedTask[]> | LeasedTask[]): void {
    this.#end();
    this.#resolve(tasks);
  }

  fail(error: unknown): void {
    this.#end();
    this.#reject(error);
  }

  #end(): void {
    this.isAnswered = true;
    this.leave?.(this);
  }
}
