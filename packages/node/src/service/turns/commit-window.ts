/** Smallest and largest window, in tasks of up to 1 KiB. */
const LEAST_TASKS = 64;
const MOST_TASKS = 4096;
const FIRST_TASKS = 256;
/** A commit may take longer than the fastest recent write by this time, in ms, or by this factor. */
const WAIT_MS = 0.75;
const WAIT_TIMES = 2;
/** The fastest write is that of the current and the previous period of this length, in ms. */
const QUICKEST_OF_MS = 10_000;
/** How much one commit changes the window for each of its tasks, and how many of its tasks count. */
const STEP = 1 / 8;
const STEP_TASKS = 64;

/**
 * Limits the tasks that are decided but not on disk yet, while several callers are busy. They are written in order, so a later
 * small request waits for all of them. A small window keeps that wait short. A large window makes large groups, which a disk with
 * slow fsyncs needs. The window adapts so that commits take only a little longer than the fastest recent write to the disk. Bench
 * row B12: a call beside ten loaders takes 7 ms instead of 36.
 */
export class CommitWindow {
  readonly #now: () => number;
  readonly #byCaller = new Map<string, number>();
  #tasks = FIRST_TASKS;
  #committing = 0;
  /** Number of commits so far, and the number of the last commit that filled the window. */
  #commits = 0;
  #fillingCommit = 0;
  #quickestMs = Number.POSITIVE_INFINITY;
  #quickestBeforeMs = Number.POSITIVE_INFINITY;
  #quickestSince = Number.NEGATIVE_INFINITY;

  /** `now`: in ms since any fixed moment. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get isFull(): boolean {
    return this.#committing >= this.#tasks;
  }

  /** Number of tasks of the caller that are not on disk yet. */
  of(caller: string): number {
    return this.#byCaller.get(caller) ?? 0;
  }

  /** Counts the tasks until the work is settled. Then calls `onSettled`. */
  count(caller: string, tasks: number, work: Promise<unknown>, onSettled: () => void): void {
    const began = this.#now();
    const commit = ++this.#commits;
    this.#add(caller, tasks);
    if (this.isFull) this.#fillingCommit = commit;
    const settled = (): void => {
      // A window that is never full does not need to grow.
      const wasFull = this.#fillingCommit >= commit || this.isFull;
      this.#adapt(this.#now() - began, tasks, wasFull);
      this.#add(caller, -tasks);
      onSettled();
    };
    work.then(settled, settled);
  }

  /** Reports how long a write took until it was synced, in ms. */
  synced(ms: number): void {
    const now = this.#now();
    if (now - this.#quickestSince >= QUICKEST_OF_MS) {
      this.#quickestSince = now;
      this.#quickestBeforeMs = this.#quickestMs;
      this.#quickestMs = ms;
    } else if (ms < this.#quickestMs) {
      this.#quickestMs = ms;
    }
  }

  #add(caller: string, tasks: number): void {
    this.#committing += tasks;
    const all = this.of(caller) + tasks;
    if (all === 0) this.#byCaller.delete(caller);
    else this.#byCaller.set(caller, all);
  }

  #adapt(ms: number, tasks: number, wasFull: boolean): void {
    const quickestMs = Math.min(this.#quickestMs, this.#quickestBeforeMs);
    const isLong = ms > WAIT_MS + (Number.isFinite(quickestMs) ? WAIT_TIMES * quickestMs : 0);
    if (!isLong && !wasFull) return;
    const step = Math.min(tasks, STEP_TASKS) * STEP;
    this.#tasks = Math.max(LEAST_TASKS, Math.min(MOST_TASKS, this.#tasks + (isLong ? -step : step)));
  }
}
