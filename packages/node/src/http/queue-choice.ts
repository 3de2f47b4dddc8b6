/** What a queue is compared by. */
export interface Comparable {
  /** Full name. */
  readonly queue: string;
  /** Tasks in it. */
  readonly size: number;
  /** Operations per second. */
  readonly activity: number;
  /** Failed attempts per second. */
  readonly failures: number;
}

const measures = ['size', 'activity', 'failures'] as const;
type Measure = (typeof measures)[number];

/** How many times as much another queue must have to take the place of one that has series already. */
const ADVANTAGE = 2;

/**
 * Chooses the queues that have series of their own: the largest, the busiest, and those that fail most, a third each. A queue
 * that was chosen keeps its series while there is room. So the series of a queue come and go as seldom as possible.
 */
export class QueueChoice {
  readonly #most: number;
  /** The queues chosen now, with the number of the latest look in which they were among the first by a measure. */
  #chosen = new Map<string, number>();
  #looks = 0;

  /** `most`: limit of the queues that are chosen at the same time. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Begins to look at all queues. */
  look<Q extends Comparable>(): Look<Q> {
    return new Look(this.#most, this.#chosen);
  }

  /** Ends a look. Returns the queues that are chosen from now on, of those that it has kept. */
  choose<Q extends Comparable>(look: Look<Q>): ReadonlySet<string> {
    this.#looks++;
    const next = new Map<string, number>();
    const add = (queue: string, firstIn: number): void => {
      if (next.size < this.#most && !next.has(queue)) next.set(queue, firstIn);
    };
    for (const queue of look.first()) add(queue, this.#looks);
    const earlier = [...this.#chosen].filter(([queue]) => look.has(queue));
    for (const [queue, firstIn] of earlier.sort(([, a], [, b]) => b - a)) add(queue, firstIn);
    for (const queue of look.largest()) add(queue, 0);
    this.#chosen = next;
    return new Set(next.keys());
  }
}

/** A look at all queues, which keeps only those that may be chosen. */
class Look<Q extends Comparable> {
  readonly #most: number;
  readonly #chosen: ReadonlyMap<string, number>;
  #kept = new Map<string, Q>();

  constructor(most: number, chosen: ReadonlyMap<string, number>) {
    this.#most = most;
    this.#chosen = chosen;
  }

  /** Returns the queues that cannot be chosen any more. */
  add(queues: Iterable<Q>): Iterable<Q> {
    for (const queue of queues) this.#kept.set(queue.queue, queue);
    const wanted = new Set(this.#chosen.keys());
    for (const queue of [...this.first(), ...this.largest()]) wanted.add(queue);
    const left: Q[] = [];
    for (const [name, queue] of this.#kept) {
      if (wanted.has(name)) continue;
      this.#kept.delete(name);
      left.push(queue);
    }
    return left;
  }

  has(queue: string): boolean {
    return this.#kept.has(queue);
  }

  get kept(): Iterable<Q> {
    return this.#kept.values();
  }

  /** The first queues by each measure in turn. No queue is among them that has nothing of the measure. */
  first(): readonly string[] {
    const each = Math.ceil(this.#most / measures.length);
    const lists = measures.map((measure) =>
      this.#by(measure)
        .slice(0, each)
        .filter((queue) => queue[measure] > 0),
    );
    return Array.from({ length: each }, (_, rank) => lists.flatMap((list) => list[rank]?.queue ?? [])).flat();
  }

  largest(): readonly string[] {
    const largest = this.#by('size').slice(0, this.#most);
    return largest.map(({ queue }) => queue);
  }

  #by(measure: Measure): Q[] {
    const weight = (queue: Q): number => queue[measure] * (this.#chosen.has(queue.queue) ? ADVANTAGE : 1);
    return [...this.#kept.values()].sort((a, b) => weight(b) - weight(a));
  }
}
