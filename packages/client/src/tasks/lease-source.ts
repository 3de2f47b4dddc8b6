import { limits } from '@taskmaster/proto';
import type { LeasedTask } from './leased-task.ts';
import type { FORMAT, QueueFormat, QueueRef } from './new-task.ts';

/** Queues by their names, those that exist and those that come later. */
export interface PatternRef<T> {
  readonly regex: string | undefined;
  readonly group: string | undefined;
  /** How many of the queues of the request come before. */
  readonly after: number;
  readonly [FORMAT]: QueueFormat<T, unknown>;
}

/** A queue that matches a pattern of a lease request, and that the request does not name. */
export interface MatchedQueue {
  readonly queue: string;
  /** Index of the pattern. */
  readonly pattern: number;
  /** Whether it probably has more tasks. */
  readonly hasTasks: boolean;
}

/** The queues of one lease request. */
export interface LeaseFrom<T> {
  readonly queues: readonly QueueRef<T>[];
  /** Further queues. Default: none. */
  readonly patterns?: readonly PatternRef<T>[] | undefined;
  /** Whether the order of the queues does not matter. The tasks then come in the order of their PIDs. */
  readonly anyOrder: boolean;
  /**
   * Whether the first queue probably has enough tasks: it is asked alone, and the others only if it has not. Bench row `sharded`:
   * 118 µs a task in the nodes instead of 227.
   */
  readonly firstAlone?: boolean | undefined;
  /** How many of these tasks to lease now. Default: all. */
  partOf?(max: number): number;
  /** Longest wait, in ms, after which other queues may be asked. Default: as the options say. */
  readonly maxWaitMs?: number | undefined;
  /** Called with the tasks of a lease for up to `max` tasks. `matched`: what became known of queues that match the patterns. */
  onLeased?(tasks: readonly LeasedTask<T>[], max: number, matched: readonly MatchedQueue[]): void;
  /** Called when the first queue, asked alone, did not answer. */
  onFirstFailed?(): void;
}

/**
 * Says before each lease request which queues it asks for, all or some of them in turn.
 * @param most how many queues the request can name for this source.
 */
export type LeaseSource<T> = (most: number) => LeaseFrom<T> | Promise<LeaseFrom<T>>;

/** Internal: key of the queues that stand for a queue in a lease request. */
export const LEASE_FROM = Symbol('taskmaster.lease-from');

/** Several queues that are one for callers, such as a `ShardedQueue`. */
export interface SeveralQueues<T = unknown> {
  /** `group#name`, or `name` in the default group. */
  readonly name: string;
  readonly [LEASE_FROM]: LeaseSource<T>;
}

/** Leases from these queues in their order. @throws TypeError if they are too many, and several in one among them. */
export function sourceOf<T>(queues: readonly (QueueRef<T> | SeveralQueues<T>)[]): LeaseSource<T> {
  const [first] = queues;
  if (first !== undefined && queues.length === 1 && isSeveral(first)) return first[LEASE_FROM];
  const fixed = queues.flatMap((queue) => (isSeveral(queue) ? [] : [queue]));
  if (fixed.length === queues.length) {
    const from = { queues: fixed, anyOrder: false };
    return () => from;
  }
  if (queues.length > limits.leaseQueues) {
    throw new TypeError(`queues: ${queues.length} are more than one request may name, ${limits.leaseQueues}`);
  }
  const several = queues.length - fixed.length;
  return async (most) => {
    const mostOfEach = Math.max(1, Math.floor((most - fixed.length) / several));
    const parts = queues.map((queue) =>
      isSeveral(queue) ? queue[LEASE_FROM](mostOfEach) : { queues: [queue], anyOrder: false },
    );
    return inOrder(await Promise.all(parts), most);
  };
}

/** First the queues of the first part, then those of the second. */
function inOrder<T>(parts: readonly LeaseFrom<T>[], most: number): LeaseFrom<T> {
  const queues: QueueRef<T>[] = [];
  const patterns: PatternRef<T>[] = [];
  for (const part of parts) {
    for (const pattern of part.patterns ?? []) patterns.push({ ...pattern, after: queues.length + pattern.after });
    queues.push(...part.queues);
  }
  const waits = parts.flatMap(({ maxWaitMs }) => maxWaitMs ?? []);
  return {
    queues: queues.slice(0, most),
    patterns,
    anyOrder: false,
    maxWaitMs: waits.length === 0 ? undefined : Math.min(...waits),
    partOf: (max) => Math.min(max, ...parts.map((part) => part.partOf?.(max) ?? max)),
    onLeased(tasks, max, matched) {
      let left = max;
      let from = 0;
      for (const part of parts) {
        const count = part.patterns?.length ?? 0;
        const ofPart = matched
          .map((each) => ({ ...each, pattern: each.pattern - from }))
          .filter(({ pattern }) => pattern >= 0 && pattern < count);
        from += count;
        const names = new Set([...part.queues.map(({ name }) => name), ...ofPart.map(({ queue }) => queue)]);
        const own = tasks.filter(({ queue }) => names.has(queue));
        // Further parts were not asked.
        if (left > 0) part.onLeased?.(own, left, ofPart);
        left -= own.length;
      }
    },
  };
}

export function isSeveral<T>(queue: string | QueueRef<T> | SeveralQueues<T>): queue is SeveralQueues<T> {
  return typeof queue === 'object' && LEASE_FROM in queue;
}
