import { Refusal } from '@taskmaster/engine/domain';
import { CommitWindow } from './commit-window.ts';

/** Amount of work in one turn, before the event loop reads new requests. It takes about a millisecond. */
const TURN_SIZE = 128;
/**
 * Amount of work in one turn while there is only one caller. Longer turns delay no other caller and make larger groups. They are
 * limited because event loop, disk and caller would wait for each other if all requests of a busy caller were decided in one
 * turn (bench rows B4 and B6).
 */
const LONE_TURN_SIZE = 512;
const LONE_TURN_TASKS = 256;
/** Amount of work for one caller before the next caller's turn. */
const QUANTUM_SIZE = 32;
/** A caller counts as the only one if no other caller has sent a request for this long, in ms. */
const COMPANY_MS = 250;
const RETRY_DELAY_MS = 100;
const KIB = 1024;
/** Work of a caller that takes less memory than this may wait beyond the bound, so that renewals and completions go on. */
const LITTLE_BYTES = 64 * KIB;

/** The size of a request. */
export interface Size {
  readonly tasks: number;
  /** KiB of payload. */
  readonly kib: number;
  /** KiB of payload that it adds to the tasks of further queues, without bringing it. */
  readonly copiedKib: number;
}

/** The work for one request. */
export interface Work<T> extends Size {
  /** Approximate memory of the request while it waits, in bytes. Asked only if it has to wait. */
  readonly heldBytes: () => number;
  /** True if the work ends when it is on disk. False for a lease, which may wait for tasks. */
  readonly commits: boolean;
  readonly start: () => Promise<T>;
}

/** Work that waits for its turn. No closure of it may hold its line: a busy caller's results would all stay in memory. */
interface Waiting {
  readonly work: Work<unknown>;
  readonly started: (done: Promise<unknown>) => void;
  readonly heldBytes: number;
}

/** Whether waiting work takes more than a little memory, together with work of this size. */
function holdsMuch(line: readonly Waiting[], heldBytes: number): boolean {
  let bytes = heldBytes;
  for (const waiting of line) {
    if (bytes > LITTLE_BYTES) return true;
    bytes += waiting.heldBytes;
  }
  return bytes > LITTLE_BYTES;
}

/** The approximate amount of work. */
const effortOf = ({ tasks, kib, copiedKib }: Size): number => tasks + kib + copiedKib;

export interface FairTurnsOptions {
  /** Runs a turn after the event loop has read new requests. Default: `setImmediate`. */
  readonly later?: (turn: () => void) => void;
  /** In ms since any fixed moment. Default: the clock of the process. */
  readonly now?: () => number;
  /** Limit of the memory of requests that wait, in bytes. Default: none. */
  readonly maxWaitingBytes?: number;
}

/**
 * Shares the event loop fairly among callers. First come, first served would let all callers wait for one caller that sends a
 * thousand tasks at once (the paper, 6.2).
 *
 *  F1  A turn of the event loop does a limited amount of work. The rest waits, in order for each caller.
 *  F2  Callers take turns, with about the same amount of work each.
 *  F3  A caller without waiting work comes before callers with waiting work, for up to half of a turn, unless it has much work on
 *      its way to the disk. So slow callers are answered immediately, and many slow callers cannot block busy ones.
 *  F4  Busy callers wait while the commit window is full, unless there is only one caller. Otherwise their work would wait for
 *      the disk in front of later requests of slow callers.
 *  F5  The memory of waiting work is bounded, also that of requests without payload: a few bytes may become many items. Beyond
 *      the bound, a caller whose work waits is refused with OVERLOADED, unless it is little.
 */
export class FairTurns {
  readonly #later: (turn: () => void) => void;
  readonly #now: () => number;
  readonly #window: CommitWindow;
  readonly #maxWaitingBytes: number;
  #waitingBytes = 0;
  /** Callers with waiting work, in the order of their turns: those that had none before, and the others. */
  readonly #fresh = new Map<string, Waiting[]>();
  readonly #busy = new Map<string, Waiting[]>();
  /** Work and tasks of this turn so far, and its caller. Undefined: several callers. */
  #used = 0;
  #tasks = 0;
  #only: string | undefined;
  #scheduled = false;
  #latest: string | undefined;
  /** Last time when a caller other than `latest` sent a request. */
  #companyAt = Number.NEGATIVE_INFINITY;

  constructor({
    later = setImmediate,
    now = () => performance.now(),
    maxWaitingBytes = Number.POSITIVE_INFINITY,
  }: FairTurnsOptions = {}) {
    this.#later = later;
    this.#now = now;
    this.#maxWaitingBytes = maxWaitingBytes;
    this.#window = new CommitWindow(now);
  }

  /** Does the work immediately if there is room for it, otherwise in the caller's turn. */
  run<T>(caller: string, work: Work<T>): Promise<T> {
    this.#noteCompany(caller);
    if (this.#mayRun(caller)) {
      this.#use(caller, work);
      return this.#start(caller, work);
    }
    const line = this.#line(caller);
    const heldBytes = work.heldBytes();
    if (line.length > 0 && this.#waitingBytes + heldBytes > this.#maxWaitingBytes && holdsMuch(line, heldBytes)) {
      const problem = `${Math.floor(this.#waitingBytes / KIB)} KiB of requests wait for their turn already`;
      return Promise.reject(new Refusal('OVERLOADED', problem, { retryDelayMs: RETRY_DELAY_MS }));
    }
    this.#waitingBytes += heldBytes;
    const { promise, resolve } = Promise.withResolvers<unknown>();
    line.push({ work, started: resolve, heldBytes });
    this.#schedule();
    return promise as Promise<T>;
  }

  /** Reports how long a write took until it was synced, in ms. The commit window adapts to it. */
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
      // A caller that had all of this turn so far, or has much work on its way to the disk, is busy.
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

  /** The caller whose turn it is. Undefined if there is no room or no work. */
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
    for (const { work, started, heldBytes } of line) {
      if (done >= QUANTUM_SIZE) break;
      done += effortOf(work);
      served++;
      this.#waitingBytes -= heldBytes;
      this.#use(caller, work);
      started(this.#start(caller, work));
    }
    if (served === line.length) return;
    // Work that came meanwhile is in a new line.
    const rest = line.slice(served);
    this.#busy.set(caller, rest.concat(this.#fresh.get(caller) ?? this.#busy.get(caller) ?? []));
    this.#fresh.delete(caller);
  }
}
