import { parseQueueName } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import type { QueueFilterOptions } from '../tasks/introspection.ts';
import {
  LEASE_FROM,
  type LeaseFrom,
  type LeaseSource,
  type PatternRef,
  type SeveralQueues,
} from '../tasks/lease-source.ts';
import { type LeaseOptions, leaseFrom, leaseNames } from '../tasks/lease-tasks.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import { FORMAT, type QueueRef } from '../tasks/new-task.ts';
import type { DataFormat } from '../values/codec.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { QueueTurns } from './queue-turns.ts';

/** Which queues. At least one of both. */
export type MatchingFilter = Pick<QueueFilterOptions, 'regex' | 'group'>;

export interface MatchingOptions {
  /** What shares tasks fairly: `queue` (default), each queue; `group`, each group with all its queues. */
  readonly by?: 'queue' | 'group' | undefined;
  /**
   * The weight of a queue, or of a group, by its name: it gets as many tasks in proportion while others have tasks, too. Asked
   * once, when it is noticed. Default 1.
   */
  readonly weight?: ((name: string) => number) | undefined;
}

const filterNames: OptionNames<MatchingFilter> = { regex: true, group: true };

/** Queues with tasks that one lease request names while there are tasks. A router asks as many in their order. */
const ASKED = 16;
/**
 * Requests until queues without a turn come first again. Otherwise a request that known queues fill would never reach the nodes
 * that hold only others.
 */
const REQUESTS_PER_SEARCH = 8;

/**
 * All queues that match a filter, also those that come later. `client.matchingQueues()` makes one without a request. Workers
 * take tasks of all of them in fair turns, so that a queue with many tasks does not keep the others waiting.
 */
export class MatchingQueues<T> implements SeveralQueues<T> {
  /** The filter, for messages. */
  readonly name: string;
  readonly #context: ClientContext;
  readonly #filter: Pick<PatternRef<T>, 'regex' | 'group'>;
  readonly #format: DataFormat<T, unknown>;
  readonly #turns: QueueTurns;
  /** Requests before the next one in which queues without a turn come first. */
  #untilSearch = 0;

  /** Internal: use `client.matchingQueues()`. */
  constructor(
    context: ClientContext,
    filter: MatchingFilter,
    options: MatchingOptions,
    format: DataFormat<T, unknown>,
  ) {
    assertKnown('filter', filter, filterNames);
    const { regex, group } = filter;
    if (regex === undefined && group === undefined) throw new TypeError('give a regex or a group');
    const { by = 'queue', weight = () => 1 } = options;
    if (by !== 'queue' && by !== 'group') throw new TypeError(`by: '${by}' is not 'queue' or 'group'`);
    this.name = [regex === undefined ? '' : `/${regex}/`, group === undefined ? '' : `${group}#*`].join(' ').trim();
    this.#context = context;
    this.#filter = { regex, group };
    this.#format = format;
    this.#turns = new QueueTurns({
      shareOf: (queue) => (by === 'queue' ? queue : parseQueueName(queue).group),
      weightOf: (share) => positive(weight(share), share),
    });
  }

  /** Internal. */
  get [LEASE_FROM](): LeaseSource<T> {
    return (most) => this.#leaseFrom(most);
  }

  /** Names of queues that had tasks lately. Empty before the first lease. */
  get names(): readonly string[] {
    return this.#turns.names;
  }

  /**
   * Leases tasks of the queues in fair turns: at most the fair part of `max`. With `wait` it also waits for queues that do not
   * exist yet. See `Queue.lease`.
   */
  async lease(options: LeaseOptions = {}): Promise<LeasedTask<T>[]> {
    assertKnown('lease', options, leaseNames);
    return leaseFrom(this.#context, this[LEASE_FROM], options);
  }

  #leaseFrom(most: number): LeaseFrom<T> {
    const names = this.#turns.next(Math.min(ASKED, most));
    const [first] = names;
    const isSearch = this.#untilSearch-- <= 0;
    if (isSearch) this.#untilSearch = REQUESTS_PER_SEARCH;
    return {
      queues: names.map((name): QueueRef<T> => ({ name, [FORMAT]: this.#format })),
      // Queues without a turn yet, and all of them while none is known to have tasks.
      patterns: [{ ...this.#filter, after: isSearch ? 0 : names.length, [FORMAT]: this.#format }],
      anyOrder: false,
      partOf: (max) => (first === undefined ? max : this.#turns.partOf(first, max)),
      onLeased: (tasks, max, matched) => {
        const counts = new Map<string, number>();
        for (const { queue } of tasks) counts.set(queue, (counts.get(queue) ?? 0) + 1);
        const before = isSearch ? matched.reduce((sum, { queue }) => sum + (counts.get(queue) ?? 0), 0) : 0;
        this.#turns.leased(names, counts, max - before);
        // Where some were found there may be more.
        if (isSearch && matched.length > 0) this.#untilSearch = 0;
        // All begin at the same place, before one of them has got tasks.
        for (const { queue } of matched) this.#turns.note(queue, true);
        for (const { queue, hasTasks } of matched) {
          this.#turns.found(queue, counts.get(queue) ?? 0);
          this.#turns.note(queue, hasTasks);
        }
      },
    };
  }
}

function positive(weight: number, name: string): number {
  if (Number.isFinite(weight) && weight > 0) return weight;
  throw new TypeError(`weight: ${weight} of '${name}' is not a number above 0`);
}
