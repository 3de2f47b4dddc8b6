import { status } from '@grpc/grpc-js';
import { parseQueueName } from '@taskmaster/proto';
import type { ClientContext } from '../../tasks/context.ts';
import { listQueues, type QueueFilterOptions } from '../../tasks/introspection.ts';
import { LEASE_FROM, type LeaseFrom, type LeaseSource, type SeveralQueues } from '../../tasks/lease-source.ts';
import { type LeaseOptions, leaseFrom } from '../../tasks/lease-tasks.ts';
import type { LeasedTask } from '../../tasks/leased-task.ts';
import { FORMAT, type QueueRef } from '../../tasks/new-task.ts';
import type { DataFormat } from '../../values/codec.ts';
import { type Duration, durationMs } from '../../values/duration.ts';
import { isTaskMasterError } from '../../values/errors.ts';
import { FairTurns } from './fair-turns.ts';

/** Which queues. At least one of both. */
export type MatchingFilter = Pick<QueueFilterOptions, 'regex' | 'group'>;

export interface MatchingOptions {
  /** Time between two listings. It is also the time until a new queue is noticed. Default 5 s. */
  readonly interval?: Duration | undefined;
  /** What shares tasks fairly: `queue` (default), each queue; `group`, each group with all its queues. */
  readonly by?: 'queue' | 'group' | undefined;
  /**
   * The weight of a queue, or of a group, by its name: it gets as many tasks in proportion while others have tasks, too. Asked
   * once, when it is noticed. Default 1.
   */
  readonly weight?: ((name: string) => number) | undefined;
}

/** Queues with tasks that one lease request names while there are tasks. A router asks as many in their order. */
const ASKED = 16;
/** Queues that are followed. Further ones are noticed when these are empty. */
const MOST_QUEUES = 10_000;
const LEAST_INTERVAL_MS = 100;
/** Least timeout of one page of a listing, in ms. */
const LIST_TIMEOUT_MS = 2_000;

/**
 * All queues that match a filter, also those that come later. `client.matchingQueues()` makes one without a request. Workers
 * take tasks of all of them in fair turns, so that a queue with many tasks does not keep the others waiting.
 */
export class MatchingQueues<T> implements SeveralQueues<T> {
  /** The filter, for messages. */
  readonly name: string;
  /** Internal. */
  readonly [LEASE_FROM]: LeaseSource<T> = (most) => this.#leaseFrom(most);
  readonly #context: ClientContext;
  readonly #filter: MatchingFilter;
  readonly #format: DataFormat<T, unknown>;
  readonly #intervalMs: number;
  readonly #turns: FairTurns;
  #listAt = Number.NEGATIVE_INFINITY;
  #listing: Promise<void> | undefined;
  #isListed = false;
  /** Where the next wait begins among the queues, if there are more than one request may name. */
  #waitFrom = 0;

  /** Internal: use `client.matchingQueues()`. */
  constructor(
    context: ClientContext,
    filter: MatchingFilter,
    options: MatchingOptions,
    format: DataFormat<T, unknown>,
  ) {
    const { regex, group } = filter;
    if (regex === undefined && group === undefined) throw new TypeError('give a regex or a group');
    const { by = 'queue', weight = () => 1 } = options;
    if (by !== 'queue' && by !== 'group') throw new TypeError(`by: '${by}' is not 'queue' or 'group'`);
    this.name = [regex === undefined ? '' : `/${regex}/`, group === undefined ? '' : `${group}#*`].join(' ').trim();
    this.#context = context;
    this.#filter = { regex, group };
    this.#format = format;
    this.#intervalMs = Math.max(LEAST_INTERVAL_MS, durationMs(options.interval ?? '5s', 'interval'));
    this.#turns = new FairTurns({
      shareOf: (queue) => (by === 'queue' ? queue : parseQueueName(queue).group),
      weightOf: (share) => positive(weight(share), share),
    });
  }

  /** Names of the queues that are followed now. Empty before the first lease. */
  get names(): readonly string[] {
    return this.#turns.names;
  }

  /**
   * Leases tasks of the queues in fair turns: at most the fair part of `max`. With `wait` it also waits for queues that do not
   * exist yet. See `Queue.lease`.
   */
  lease(options: LeaseOptions = {}): Promise<LeasedTask<T>[]> {
    return leaseFrom(this.#context, this[LEASE_FROM], options);
  }

  async #leaseFrom(most: number): Promise<LeaseFrom<T>> {
    const { timing } = this.#context;
    const asked = Math.min(ASKED, most);
    let names = this.#turns.next(asked);
    if (timing.now() >= this.#listAt) {
      const listing = this.#list();
      // While there are tasks, no lease waits for the listing, and its errors show when there are none.
      if (names.length > 0) listing.catch(() => {});
      else await listing;
      if (names.length === 0) names = this.#turns.next(asked);
    }
    const [first] = names;
    if (first !== undefined) return this.#from(names, 0, (max) => this.#turns.partOf(first, max));
    return this.#from(this.#waitedFor(most), this.#intervalMs, (max) => max);
  }

  #from(names: readonly string[], maxWaitMs: number, partOf: (max: number) => number): LeaseFrom<T> {
    return {
      queues: names.map((name): QueueRef<T> => ({ name, [FORMAT]: this.#format })),
      anyOrder: false,
      maxWaitMs,
      partOf,
      onLeased: (tasks, max) => {
        const counts = new Map<string, number>();
        for (const { queue } of tasks) counts.set(queue, (counts.get(queue) ?? 0) + 1);
        this.#turns.leased(names, counts, max);
      },
    };
  }

  /** Queues to wait for when none has tasks: all, or the next part of them. */
  #waitedFor(most: number): readonly string[] {
    const { names } = this.#turns;
    if (names.length <= most) return names;
    const from = this.#waitFrom % names.length;
    this.#waitFrom = from + most;
    return [...names.slice(from), ...names.slice(0, from)].slice(0, most);
  }

  /** Lists the queues, once at a time. @throws if no listing has succeeded yet, or the filter is wrong. */
  #list(): Promise<void> {
    this.#listing ??= this.#listOnce().finally(() => {
      this.#listing = undefined;
      this.#listAt = this.#context.timing.now() + this.#intervalMs;
    });
    return this.#listing;
  }

  async #listOnce(): Promise<void> {
    const found = new Map<string, boolean>();
    let isComplete = true;
    try {
      const onUnreachable = (): void => {
        isComplete = false;
      };
      const options = { filter: this.#filter, timeout: Math.max(LIST_TIMEOUT_MS, this.#intervalMs), onUnreachable };
      for await (const { queue, available } of listQueues(this.#context, options)) {
        found.set(queue, available > 0);
        if (found.size === MOST_QUEUES) break;
      }
    } catch (error) {
      // Goes on with the queues that are known.
      if (!this.#isListed || !isTaskMasterError(error) || error.code === status.INVALID_ARGUMENT) throw error;
      return;
    }
    this.#isListed = true;
    this.#turns.list(found, isComplete);
  }
}

function positive(weight: number, name: string): number {
  if (Number.isFinite(weight) && weight > 0) return weight;
  throw new TypeError(`weight: ${weight} of '${name}' is not a number above 0`);
}
