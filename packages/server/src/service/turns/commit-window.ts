/** What may be on its way to the disk at least and at most: tasks of up to 1 KiB. */
const LEAST_TASKS = 64;
const MOST_TASKS = 4096;
const FIRST_TASKS = 256;
/** How long a commit may take beyond the quickest write to the disk, and how many times that, in ms. */
const WAIT_MS = 0.75;
const WAIT_TIMES = 2;
/** Of the writes of this time and of that before, in ms. */
const QUICKEST_OF_MS = 10_000;
/** How much one commit changes the window, for each task of it up to so many. */
const STEP = 1 / 8;
const STEP_TASKS = 64;

/**
 * How much may be on its way to the disk while several callers want something done. All of it stands in one line there:
 * who comes later, and asks for little, waits for what was decided before. A small window keeps that line short, a large
 * one makes large groups, which a disk with slow fsyncs needs. So commits may take a little longer than the quickest of the
 * recent writes to the disk, which are small or came when it was idle, and the window follows from that.
 */
export class CommitWindow {
  readonly #now: () => number;
  readonly #byCaller = new Map<string, number>();
  #tasks = FIRST_TASKS;
  #committing = 0;
  /** So far, and of these the last that filled the window. */
  #commits = 0;
  #fillingCommit = 0;
  #quickestMs = Number.POSITIVE_INFINITY;
  #quickestBeforeMs = Number.POSITIVE_INFINITY;
  #quickestSince = Number.NEGATIVE_INFINITY;

  /** `now` is in ms, from any beginning. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get isFull(): boolean {
    return this.#committing >= this.#tasks;
  }

  /** Tasks of the caller that are on their way to the disk. */
  of(caller: string): number {
    return this.#byCaller.get(caller) ?? 0;
  }

  /** Counts the tasks until the work is settled; `onSettled` follows. */
  count(caller: string, tasks: number, work: Promise<unknown>, onSettled: () => void): void {
    const began = this.#now();
    const commit = ++this.#commits;
    this.#add(caller, tasks);
    if (this.isFull) this.#fillingCommit = commit;
    const settled = (): void => {
      // What is never full does not need to grow.
      const wasFull = this.#fillingCommit >= commit || this.isFull;
      this.#adapt(this.#now() - began, tasks, wasFull);
      this.#add(caller, -tasks);
      onSettled();
    };
    work.then(settled, settled);
  }

  /** A write to the disk took so long until it was synced, in ms. */
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
