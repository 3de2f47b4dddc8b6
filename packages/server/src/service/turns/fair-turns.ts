import { CommitWindow } from './commit-window.ts';

/** How much is worked on before the event loop reads again what others ask for: about a millisecond. */
const TURN_SIZE = 128;
/**
 * As long as nobody else asks for anything longer turns cost nobody anything, and make larger groups. But if all of the
 * several hundred tasks that a busy caller has in flight were decided in one turn, they would be written, answered and asked
 * for anew as one, with event loop, disk and caller waiting for each other: of two halves one is decided while the other is on
 * its way.
 */
const LONE_TURN_SIZE = 512;
const LONE_TURN_TASKS = 256;
/** How much is done for one caller before it is the next one's turn. */
const QUANTUM_SIZE = 32;
/** For so long a caller is not alone after another one asked for something, in ms. */
const COMPANY_MS = 250;

/** How much a request is. */
export interface Size {
  readonly tasks: number;
  /** Of payload. */
  readonly kib: number;
}

/** What a caller wants done. */
export interface Work<T> extends Size {
  /** Whether it is done as soon as it is on disk. A lease may wait for long for other things. */
  readonly commits: boolean;
  readonly start: () => Promise<T>;
}

interface Waiting {
  readonly size: Size;
  readonly start: () => void;
}

/** How long it takes, about. */
const effortOf = ({ tasks, kib }: Size): number => tasks + kib;

export interface FairTurnsDeps {
  /** Runs a turn after what has arrived meanwhile has been read. */
  readonly later: (turn: () => void) => void;
  /** In ms, from any beginning. */
  readonly now: () => number;
}

/**
 * Takes work fairly from all callers, not first come first served: whoever sends a thousand tasks at once would have
 * everybody else wait for all of them (the paper, 6.2).
 *
 *  F1  A turn of the event loop works on so much; the rest waits, each caller's in its order.
 *  F2  Callers take turns, with about as much each.
 *  F3  A caller without any work waiting comes before those that have some, with up to half of a turn, unless it has
 *      enough on its way to the disk: slow callers are answered at once, and many of them cannot keep busy ones from
 *      being served.
 *  F4  Busy callers wait while the commit window is full, unless there is one caller only: what was decided for them
 *      would stand in line for the disk, before whatever slow callers ask for next.
 */
export class FairTurns {
  readonly #later: (turn: () => void) => void;
  readonly #now: () => number;
  readonly #window: CommitWindow;
  /** Callers with work that waits, in the order of their turns: those that had none before, and the others. */
  readonly #fresh = new Map<string, Waiting[]>();
  readonly #busy = new Map<string, Waiting[]>();
  /** How much was worked on in this turn, how many tasks of it, and for whom; undefined: for several. */
  #used = 0;
  #tasks = 0;
  #only: string | undefined;
  #scheduled = false;
  #latest: string | undefined;
  /** When somebody else than `latest` asked for something. */
  #companyAt = Number.NEGATIVE_INFINITY;

  constructor({ later, now }: FairTurnsDeps = { later: setImmediate, now: () => performance.now() }) {
    this.#later = later;
    this.#now = now;
    this.#window = new CommitWindow(now);
  }

  /** Does the work at once if there is room for it, else when it is the caller's turn. */
  run<T>(caller: string, work: Work<T>): Promise<T> {
    this.#noteCompany(caller);
    if (this.#mayRun(caller)) {
      this.#use(caller, work);
      return this.#start(caller, work);
    }
    return new Promise<T>((resolve) => {
      this.#line(caller).push({ size: work, start: () => resolve(this.#start(caller, work)) });
      this.#schedule();
    });
  }

  /** A write to the disk took so long until it was synced, in ms: what commits take follows from that. */
  synced(ms: number): void {
    this.#window.synced(ms);
  }

  #start<T>(caller: string, work: Work<T>): Promise<T> {
    const done = work.start();
    if (work.commits) this.#window.count(caller, effortOf(work), done, this.#roomMade);
    return done;
  }

  readonly #roomMade = (): void => {
    if (this.#busy.size > 0) this.#schedule();
  };

  #noteCompany(caller: string): void {
    if (caller === this.#latest) return;
    if (this.#latest !== undefined) this.#companyAt = this.#now();
    this.#latest = caller;
  }

  get #hasCompany(): boolean {
    return this.#now() - this.#companyAt < COMPANY_MS;
  }

  get #mustWait(): boolean {
    return this.#window.isFull && this.#hasCompany;
  }

  #mayRun(caller: string): boolean {
    if (this.#fresh.size > 0 || this.#busy.size > 0 || this.#mustWait) return false;
    return this.#hasTime(this.#only === caller);
  }

  #hasTime(isLone: boolean): boolean {
    return isLone ? this.#used < LONE_TURN_SIZE && this.#tasks < LONE_TURN_TASKS : this.#used < TURN_SIZE;
  }

  #use(caller: string, size: Size): void {
    this.#only = this.#used === 0 || this.#only === caller ? caller : undefined;
    this.#used += effortOf(size);
    this.#tasks += size.tasks;
    this.#schedule();
  }

  #line(caller: string): Waiting[] {
    let line = this.#fresh.get(caller) ?? this.#busy.get(caller);
    if (line === undefined) {
      line = [];
      // Whoever had all of this turn so far, or has enough under way, is not new.
      const isBusy = this.#only === caller || this.#window.of(caller) >= QUANTUM_SIZE;
      (isBusy ? this.#busy : this.#fresh).set(caller, line);
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
    this.#tasks = 0;
    while (this.#hasTime(this.#fresh.size + this.#busy.size <= 1)) {
      const next = this.#next();
      if (next === undefined) return;
      this.#serve(...next);
    }
    this.#schedule();
  }

  /** Whose turn it is; undefined: nobody's, until room is made or work comes. */
  #next(): [string, Waiting[]] | undefined {
    const mustWait = this.#mustWait;
    const isFresh = this.#fresh.size > 0 && (this.#busy.size === 0 || mustWait || this.#used < TURN_SIZE / 2);
    if (!isFresh && mustWait) return undefined;
    const [next] = isFresh ? this.#fresh : this.#busy;
    return next;
  }

  #serve(caller: string, line: Waiting[]): void {
    this.#fresh.delete(caller);
    this.#busy.delete(caller);
    let done = 0;
    let served = 0;
    for (const { size, start } of line) {
      if (done >= QUANTUM_SIZE) break;
      done += effortOf(size);
      served++;
      this.#use(caller, size);
      start();
    }
    if (served === line.length) return;
    // What came while it was served is in a new line.
    const rest = line.slice(served);
    this.#busy.set(caller, rest.concat(this.#fresh.get(caller) ?? this.#busy.get(caller) ?? []));
    this.#fresh.delete(caller);
  }
}
