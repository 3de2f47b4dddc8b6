/** Tasks that come together in one call of the handler. */
export interface Batch<Task> {
  readonly key: string;
  /** In the order in which they were leased. */
  readonly tasks: Task[];
  /** When its first task was leased, in ms. */
  readonly since: number;
  /** Most tasks that it may have. */
  max: number;
  /** Calls when its handler begins, or it is released. */
  readonly onTaken: (() => void)[];
  isTaken: boolean;
}

/**
 * Leased tasks that wait for their handler, in batches of one key.
 *  G1  A batch has at most `max` tasks, and no more than any of its tasks allows. It may start when it has them, or `maxWaitMs`
 *      after its first task was leased.
 *  G2  For each key one batch at most takes further tasks.
 *  G3  Of the batches that may start, the one whose first task was leased first starts first.
 */
export class Gathering<Task> {
  readonly #max: number;
  readonly #maxWaitMs: number;
  /** Those that take no more tasks, in the order of their first tasks. */
  readonly #full: Batch<Task>[] = [];
  /** By key, in the order of their first tasks. */
  readonly #open = new Map<string, Batch<Task>>();
  #size = 0;

  constructor(max: number, maxWaitMs: number) {
    this.#max = max;
    this.#maxWaitMs = maxWaitMs;
  }

  /** Number of tasks that wait. */
  get size(): number {
    return this.#size;
  }

  /** When the first batch may start that is not full, in ms. Undefined: there is none. */
  get dueAt(): number | undefined {
    const [oldest] = this.#open.values();
    return oldest === undefined ? undefined : oldest.since + this.#maxWaitMs;
  }

  /** Adds a task that allows `most` tasks in its batch. Returns the batch. */
  add(task: Task, key: string, now: number, most = this.#max): Batch<Task> {
    const open = this.#open.get(key);
    const fits = open !== undefined && open.tasks.length < most;
    if (open !== undefined && !fits) {
      // So that the next batch of the key comes behind those of other keys.
      this.#open.delete(key);
      this.#becameFull(open);
    }
    const batch = fits ? open : { key, tasks: [], since: now, max: this.#max, onTaken: [], isTaken: false };
    batch.max = Math.min(batch.max, most);
    this.#size++;
    if (batch.tasks.push(task) < batch.max) {
      this.#open.set(key, batch);
    } else {
      this.#open.delete(key);
      this.#becameFull(batch);
    }
    return batch;
  }

  /** Takes the next batch that may start. `isLast`: no more tasks are leased before one starts, so each may. */
  take(now: number, isLast: boolean): Batch<Task> | undefined {
    const [full] = this.#full;
    const [open] = this.#open.values();
    const mayStart = open !== undefined && (isLast || now >= open.since + this.#maxWaitMs);
    if (mayStart && (full === undefined || open.since < full.since)) {
      this.#open.delete(open.key);
      return this.#taken(open);
    }
    const next = this.#full.shift();
    return next === undefined ? undefined : this.#taken(next);
  }

  /** Takes all tasks. */
  takeAll(): Task[] {
    const batches = [...this.#full.splice(0), ...this.#open.values()];
    this.#open.clear();
    return batches.flatMap((batch) => this.#taken(batch).tasks);
  }

  /** Takes a task out of its batch, which has not been taken. */
  remove(task: Task, batch: Batch<Task>): void {
    const at = batch.tasks.indexOf(task);
    if (batch.isTaken || at < 0) return;
    batch.tasks.splice(at, 1);
    this.#size--;
    if (batch.tasks.length > 0) return;
    if (this.#open.get(batch.key) === batch) this.#open.delete(batch.key);
    else this.#full.splice(this.#full.indexOf(batch), 1);
  }

  #becameFull(batch: Batch<Task>): void {
    // Most batches are the last ones.
    const behind = this.#full.findLastIndex(({ since }) => since <= batch.since);
    this.#full.splice(behind + 1, 0, batch);
  }

  #taken(batch: Batch<Task>): Batch<Task> {
    this.#size -= batch.tasks.length;
    batch.isTaken = true;
    for (const callback of batch.onTaken) callback();
    return batch;
  }
}
