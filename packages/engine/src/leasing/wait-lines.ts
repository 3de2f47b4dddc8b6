/** A waiter in the lines of one or several queues. */
export interface Waiting {
  readonly lines: readonly string[];
  /** True if it does not wait: it leaves with the first answer, even an empty one. */
  readonly impatient: boolean;
}

interface Line<W> {
  readonly waiters: Set<W>;
  impatient: number;
}

/** One line of waiters for each queue, in order of arrival. Empty lines are deleted. */
export class WaitLines<W extends Waiting> {
  readonly #lines = new Map<string, Line<W>>();
  readonly #everybody = new Set<W>();

  /** Number of waiters. A waiter in several lines counts once. */
  get size(): number {
    return this.#everybody.size;
  }

  has(name: string): boolean {
    return this.#lines.has(name);
  }

  /** True if the line has a waiter that must be answered even if there are no tasks. */
  hasImpatient(name: string): boolean {
    return (this.#lines.get(name)?.impatient ?? 0) > 0;
  }

  join(waiter: W): void {
    this.#everybody.add(waiter);
    for (const name of waiter.lines) {
      let line = this.#lines.get(name);
      if (!line) {
        line = { waiters: new Set(), impatient: 0 };
        this.#lines.set(name, line);
      }
      line.waiters.add(waiter);
      if (waiter.impatient) line.impatient++;
    }
  }

  leave(waiter: W): void {
    if (!this.#everybody.delete(waiter)) return;
    for (const name of waiter.lines) {
      const line = this.#lines.get(name);
      if (!line?.waiters.delete(waiter)) continue;
      if (waiter.impatient) line.impatient--;
      if (line.waiters.size === 0) this.#lines.delete(name);
    }
  }

  /** Call this when a waiter in line has become impatient. It keeps its places. */
  becameImpatient(waiter: W): void {
    for (const name of waiter.lines) {
      const line = this.#lines.get(name);
      if (line?.waiters.has(waiter)) line.impatient++;
    }
  }

  isWaiting(waiter: W): boolean {
    return this.#everybody.has(waiter);
  }

  /** The line in order of arrival. Waiters that leave during the iteration are skipped. */
  line(name: string): Iterable<W> {
    return this.#lines.get(name)?.waiters ?? [];
  }

  /** All waiters in order of arrival, without duplicates. */
  all(): Set<W> {
    return new Set(this.#everybody);
  }

  /** As `all`, without a copy: waiters that leave during the iteration are skipped. */
  inOrder(): Iterable<W> {
    return this.#everybody;
  }
}
