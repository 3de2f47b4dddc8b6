import type { QueueName } from '@taskmaster/proto';
import type { LeaseCommand, LeasePattern, MatchedQueue } from '../domain/commands.ts';
import type { EngineState } from '../engine-state.ts';
import type { Queue } from '../queues/queue.ts';
import type { QueuesLimit } from '../records/limit-table.ts';
import type { Followed, FollowedPattern, FollowedPatterns } from './followed-patterns.ts';
import { type LeaseWaiter, mayLeaseFrom, type WaiterPattern } from './lease-waiter.ts';

/** Queues of a pattern that one attempt tries. A reply rarely has tasks of more. */
const CANDIDATES = 64;
/** Queues of a pattern that one attempt looks at, also those that it may not use. */
const MOST_LOOKED_AT = 10_000;

/** The queues that a request with patterns tries. */
export interface Candidates {
  readonly queues: Queue[];
  /** By the names of those that match patterns: the id of the pattern. */
  readonly ids: Map<QueueName, number>;
  /** How many tasks the request gets of such a queue. */
  readonly mostOf: Map<Queue, number>;
}

/** The turns of the queues that match patterns: which of them a request tries next. */
export class PatternTurns {
  readonly #patterns: FollowedPatterns;
  /**
   * By limit that allows leases again: its queues of which patterns do not know yet that they may offer tasks, in the order of
   * their turns. There may be 100,000, of which the next lease takes one, so patterns hear of them when they need them.
   */
  readonly #untold = new Map<QueuesLimit, Iterator<Queue>>();
  #table: EngineState['table'];

  constructor({ table }: EngineState, patterns: FollowedPatterns) {
    this.#table = table;
    this.#patterns = patterns;
  }

  /** Continues with rebuilt memory. */
  adopt({ table }: EngineState): void {
    this.#table = table;
    this.#untold.clear();
  }

  /** A limit allows leases again. Returns its queues in the order of their turns. Patterns hear later of those that are left. */
  freed(limit: QueuesLimit): Iterator<Queue> {
    const queues = limit.waiting.values();
    this.#untold.set(limit, queues);
    return queues;
  }

  /** Whether queues of a pattern may offer tasks. */
  mayOffer({ ready }: FollowedPattern): boolean {
    return ready.size > 0 || this.#untold.size > 0;
  }

  /** The queues of a pattern that may offer tasks, in the order of their turns. Some may come twice. */
  *#readyOf(pattern: FollowedPattern): Generator<Queue> {
    yield* pattern.ready;
    for (const [limit, queues] of this.#untold) {
      if (pattern.group !== undefined && pattern.group !== limit.record.group) continue;
      // If it is used up, it tells when it allows leases again.
      while (limit.usedUpSince === undefined) {
        const next = queues.next();
        if (next.done) break;
        if (!next.value.isOffering) continue;
        this.#patterns.becameReady(next.value);
        if (pattern.ready.has(next.value)) yield next.value;
      }
      this.#untold.delete(limit);
    }
  }

  /**
   * The queues of a request with patterns, in its order. @param only the one matching queue to try. Undefined: all.
   * @param isOpen whether the request may have tasks of a matching queue yet.
   */
  candidates(waiter: LeaseWaiter, only: Followed | undefined, isOpen: (queue: Queue) => boolean): Candidates {
    const candidates: Candidates = { queues: [], ids: new Map(), mostOf: new Map() };
    const named = new Set(waiter.queues.map((name) => this.#table.get(name)));
    let at = 0;
    const addNamed = (upTo: number): void => {
      for (; at < upTo; at++) {
        const name = waiter.queues[at];
        const queue = name && this.#table.get(name);
        if (queue !== undefined) candidates.queues.push(queue);
      }
    };
    for (const { pattern, after, id, mayLease } of waiter.patterns) {
      addNamed(after);
      const isOfPattern = only?.patterns.includes(pattern) ?? true;
      let [added, looked] = [0, 0];
      for (const queue of only === undefined ? this.#readyOf(pattern) : isOfPattern ? [only.queue] : []) {
        if (added === CANDIDATES || ++looked > MOST_LOOKED_AT) break;
        if (!queue.isOffering) pattern.ready.delete(queue);
        else if (named.has(queue) || candidates.mostOf.has(queue) || !isAllowed(mayLease, pattern, queue)) continue;
        else if (!queue.offers(waiter.command.kinds)) continue;
        else if (isOpen(queue)) {
          candidates.queues.push(queue);
          candidates.ids.set(queue.ledger.name, id);
          candidates.mostOf.set(queue, 0);
          added++;
        }
      }
      const most = Math.ceil(waiter.command.maxTasks / Math.max(1, added));
      const first = candidates.queues.length - added;
      for (const queue of candidates.queues.slice(first)) candidates.mostOf.set(queue, most);
    }
    addNamed(waiter.queues.length);
    return candidates;
  }

  /** Queues with available tasks that match the patterns of a command and that it does not name. */
  queuesWithTasks({ queues, patterns = [], kinds }: LeaseCommand, most: number): MatchedQueue[] {
    const found = new Map<Queue, MatchedQueue>();
    const named = new Set(queues.map((name) => this.#table.get(name)));
    for (const { key, id, mayLease } of patterns) {
      const pattern = this.#patterns.get(key);
      if (pattern === undefined) continue;
      const { ready } = pattern;
      let looked = 0;
      for (const queue of this.#readyOf(pattern)) {
        if (found.size >= most || ++looked > MOST_LOOKED_AT) break;
        const { name } = queue.ledger;
        if (!queue.offers(kinds) || named.has(queue) || found.has(queue) || !mayLeaseFrom(mayLease, name.group))
          continue;
        found.set(queue, { queue: name, patternId: id });
      }
      // Later calls begin with others.
      for (const queue of found.keys()) if (ready.delete(queue)) ready.add(queue);
    }
    return [...found.values()];
  }
}

/** Whether the caller may lease from the queue. Later requests with the pattern do not look at a queue of which it may not. */
function isAllowed(mayLease: LeasePattern['mayLease'], pattern: FollowedPattern, queue: Queue): boolean {
  const { group } = queue.ledger.name;
  if (mayLeaseFrom(mayLease, group)) return true;
  if (mayLease?.(group) === false) pattern.bar(queue);
  return false;
}

/** After a lease the next turns are those of other queues. */
export function endTurns(patterns: readonly WaiterPattern[], picks: readonly { readonly queue: Queue }[]): void {
  for (const { pattern } of patterns) {
    for (const { queue } of picks) {
      if (!pattern.ready.delete(queue)) continue;
      if (queue.ledger.available > 0) pattern.ready.add(queue);
    }
  }
}
