/** A waiter in the lines of one or several queues. */
export interface Waiting {
  readonly lines: readonly string[];
  /** Its number, in order of arrival. */
  readonly arrival: number;
  /** The same for waiters that accept the same tasks of a queue. Undefined: it accepts all. */
  readonly accepts?: string | undefined;
  /** True if it does not wait: it leaves with the first answer, even an empty one. */
  readonly impatient: boolean;
}

interface Line<W> {
  /** Those that accept all tasks. */
  readonly waiters: Set<W>;
  /** The others, by what they accept. Undefined: there are none. */
  groups: Map<string, Set<W>> | undefined;
  impatient: number;
}

const NONE: readonly never[] = [];

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
        line = { waiters: new Set(), groups: undefined, impatient: 0 };
        this.#lines.set(name, line);
      }
      groupFor(line, waiter).add(waiter);
      if (waiter.impatient) line.impatient++;
    }
  }

  leave(waiter: W): void {
    if (!this.#everybody.delete(waiter)) return;
    for (const name of waiter.lines) {
      const line = this.#lines.get(name);
      const group = line && groupOf(line, waiter);
      if (line === undefined || !group?.delete(waiter)) continue;
      if (waiter.impatient) line.impatient--;
      if (group.size > 0) continue;
      if (waiter.accepts !== undefined) line.groups?.delete(waiter.accepts);
      if (line.groups?.size === 0) line.groups = undefined;
      if (line.waiters.size === 0 && line.groups === undefined) this.#lines.delete(name);
    }
  }

  /** Call this when a waiter in line has become impatient. It keeps its places. */
  becameImpatient(waiter: W): void {
    for (const name of waiter.lines) {
      const line = this.#lines.get(name);
      if (line && groupOf(line, waiter)?.has(waiter)) line.impatient++;
    }
  }

  isWaiting(waiter: W): boolean {
    return this.#everybody.has(waiter);
  }

  /** The line in order of arrival. Waiters that leave during the iteration are skipped. */
  line(name: string): Iterable<W> {
    const line = this.#lines.get(name);
    if (line === undefined) return NONE;
    return line.groups === undefined ? line.waiters : this.walk([name]);
  }

  /** Those in the lines in order of arrival. */
  walk(names: Iterable<string>): LineWalk<W> {
    const groups: Iterable<W>[] = [];
    for (const name of names) {
      const line = this.#lines.get(name);
      if (line === undefined) continue;
      if (line.waiters.size > 0) groups.push(line.waiters);
      if (line.groups !== undefined) groups.push(...line.groups.values());
    }
    return new LineWalk(groups, (waiter) => this.#everybody.has(waiter));
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

const groupOf = <W extends Waiting>({ waiters, groups }: Line<W>, { accepts }: W): Set<W> | undefined =>
  accepts === undefined ? waiters : groups?.get(accepts);

function groupFor<W extends Waiting>(line: Line<W>, { accepts }: W): Set<W> {
  if (accepts === undefined) return line.waiters;
  line.groups ??= new Map();
  const group = line.groups.get(accepts) ?? new Set<W>();
  line.groups.set(accepts, group);
  return group;
}

interface Head<W> {
  readonly waiters: Iterator<W>;
  next: IteratorResult<W>;
}

/** Merges groups of waiters, each in order of arrival. Waiters that leave meanwhile are skipped. */
export class LineWalk<W extends Waiting> implements Iterable<W> {
  readonly #heads: Head<W>[] = [];
  readonly #isWaiting: (waiter: W) => boolean;
  #last: Head<W> | undefined;

  constructor(groups: readonly Iterable<W>[], isWaiting: (waiter: W) => boolean) {
    this.#isWaiting = isWaiting;
    for (const group of groups) {
      const waiters = group[Symbol.iterator]();
      this.#heads.push({ waiters, next: waiters.next() });
    }
  }

  *[Symbol.iterator](): Generator<W> {
    for (;;) {
      let first: Head<W> | undefined;
      for (const head of this.#heads) {
        while (!head.next.done && !this.#isWaiting(head.next.value)) head.next = head.waiters.next();
        if (head.next.done) continue;
        if (first === undefined || head.next.value.arrival < first.next.value.arrival) first = head;
      }
      if (first === undefined) return;
      const waiter: W = first.next.value;
      this.#last = first;
      yield waiter;
      if (this.#last === first) first.next = first.waiters.next();
    }
  }

  /** Leaves out the others of the line that accept the same as the last waiter. */
  skipGroup(): void {
    if (this.#last !== undefined) this.#last.next = { done: true, value: undefined };
    this.#last = undefined;
  }
}
