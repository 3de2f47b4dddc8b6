/** Tasks worked on before the event loop reads again what others ask for: about a millisecond. */
const TURN_TASKS = 128;
/** As long as nobody else asks for anything longer turns cost nobody anything, and make larger groups. */
const LONE_TURN_TASKS = 512;
/** Tasks of one caller before it is the next one's turn. */
const QUANTUM_TASKS = 32;

interface Work {
  readonly tasks: number;
  readonly start: () => void;
}

/**
 * Takes work fairly from all callers, not first come first served: whoever sends a thousand tasks at once would have
 * everybody else wait for all of them (the paper, 6.2).
 *
 *  F1  A turn of the event loop works on so many tasks; the rest waits, each caller's in its order.
 *  F2  Callers take turns, with about as many tasks each.
 *  F3  A caller without any work waiting comes before those that have some, with up to half of a turn: slow callers are
 *      answered at once, and many of them cannot keep busy ones from being served.
 */
export class FairTurns {
  readonly #later: (turn: () => void) => void;
  /** Callers with work that waits, in the order of their turns: those that had none before, and the others. */
  readonly #fresh = new Map<string, Work[]>();
  readonly #busy = new Map<string, Work[]>();
  /** Tasks worked on in this turn, and for whom; undefined: for several. */
  #used = 0;
  #only: string | undefined;
  #scheduled = false;

  /** `later` runs a turn after what has arrived meanwhile has been read. */
  constructor(later: (turn: () => void) => void = setImmediate) {
    this.#later = later;
  }

  /** Does the work at once if this turn has room for it, else when it is the caller's turn. */
  run<T>(caller: string, tasks: number, work: () => Promise<T>): Promise<T> {
    if (this.#mayRun(caller)) {
      this.#use(caller, tasks);
      return work();
    }
    return new Promise<T>((resolve, reject) => {
      this.#line(caller).push({ tasks, start: () => work().then(resolve, reject) });
      this.#schedule();
    });
  }

  #mayRun(caller: string): boolean {
    if (this.#fresh.size > 0 || this.#busy.size > 0) return false;
    return this.#used < (this.#only === caller ? LONE_TURN_TASKS : TURN_TASKS);
  }

  #use(caller: string, tasks: number): void {
    this.#only = this.#used === 0 || this.#only === caller ? caller : undefined;
    this.#used += tasks;
    this.#schedule();
  }

  #line(caller: string): Work[] {
    let line = this.#fresh.get(caller) ?? this.#busy.get(caller);
    if (line === undefined) {
      line = [];
      // Whoever had all of this turn so far is not new.
      (this.#only === caller ? this.#busy : this.#fresh).set(caller, line);
    }
    return line;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#later(() => this.#turn());
  }

  #turn(): void {
    this.#scheduled = false;
    this.#used = 0;
    while (this.#used < this.#bound) {
      const isFresh = this.#fresh.size > 0 && (this.#busy.size === 0 || this.#used < TURN_TASKS / 2);
      const [next] = isFresh ? this.#fresh : this.#busy;
      if (next === undefined) return;
      this.#serve(...next);
    }
    this.#schedule();
  }

  get #bound(): number {
    return this.#fresh.size + this.#busy.size > 1 ? TURN_TASKS : LONE_TURN_TASKS;
  }

  #serve(caller: string, line: Work[]): void {
    this.#fresh.delete(caller);
    this.#busy.delete(caller);
    let done = 0;
    let served = 0;
    for (const { tasks, start } of line) {
      if (done >= QUANTUM_TASKS) break;
      done += tasks;
      served++;
      start();
    }
    this.#use(caller, done);
    if (served === line.length) return;
    // What came while it was served is in a new line.
    const rest = line.slice(served);
    this.#busy.set(caller, rest.concat(this.#fresh.get(caller) ?? this.#busy.get(caller) ?? []));
    this.#fresh.delete(caller);
  }
}
