/** What was found in a queue, and when, by the clock of the browser. */
export interface Look<T> {
  readonly found: readonly T[];
  readonly at: number;
}

/** Remembers looks at queues, and says which ones are next: the first ones each time, and the others in turn. */
export class LooksInTurn<T> {
  readonly #first: number;
  readonly #others: number;
  readonly #looks = new Map<string, Look<T>>();

  constructor(first: number, others: number) {
    this.#first = first;
    this.#others = others;
  }

  /** The queues to look at next: the first of these, and those of the others whose look is the longest ago. Forgets the rest. */
  next(queues: readonly string[]): string[] {
    const present = new Set(queues);
    for (const queue of this.#looks.keys()) if (!present.has(queue)) this.#looks.delete(queue);
    const others = queues.slice(this.#first).toSorted((a, b) => this.#seenAt(a) - this.#seenAt(b));
    return [...queues.slice(0, this.#first), ...others.slice(0, this.#others)];
  }

  saw(queue: string, look: Look<T>): void {
    this.#looks.set(queue, look);
  }

  /** The last look at each queue, the earliest first. */
  get all(): Look<T>[] {
    return [...this.#looks.values()].sort((a, b) => a.at - b.at);
  }

  #seenAt(queue: string): number {
    return this.#looks.get(queue)?.at ?? 0;
  }
}
