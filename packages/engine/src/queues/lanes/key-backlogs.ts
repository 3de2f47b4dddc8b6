import type { TaskChange } from '../../domain/atom.ts';
import type { Pid } from '../../domain/ids.ts';
import { isLeased, limitKeyOf, type TaskState } from '../../domain/task.ts';

const NOTHING = '' as Pid;

/**
 * How many tasks with each limit key wait in a queue, available or delayed. A queue has it once an update has asked, as long as
 * its settings cap the tasks of a key.
 *
 *  K1  The tasks with PIDs up to `#upTo` count; `undefined`: all do. Changes of others are found when these are read.
 */
export class KeyBacklogs {
  readonly #waiting = new Map<string, number>();
  #upTo: Pid | undefined;
  /** The read in progress, shared by all that need it. */
  counting: Promise<void> | undefined;

  constructor(isCounted: boolean) {
    this.#upTo = isCounted ? undefined : NOTHING;
  }

  /** False: `countKeys` must have ended first. */
  get isCounted(): boolean {
    return this.#upTo === undefined;
  }

  of(key: string): number {
    return this.#waiting.get(key) ?? 0;
  }

  note(change: TaskChange): void {
    if (this.#upTo !== undefined && change.pid > this.#upTo) return;
    if (change.kind !== 'enqueue') this.#count(change.before, -1);
    if (change.kind !== 'dequeue') this.#count(change.after, 1);
  }

  /** Counts the states of all tasks up to `upTo` that do not count yet. */
  add(states: Iterable<TaskState>, upTo: Pid | undefined): void {
    for (const state of states) this.#count(state, 1);
    this.#upTo = upTo;
  }

  begin(): void {
    this.#waiting.clear();
    this.#upTo = NOTHING;
  }

  #count(state: TaskState, by: number): void {
    const key = limitKeyOf(state);
    if (key === undefined || isLeased(state)) return;
    const count = this.of(key) + by;
    if (count === 0) this.#waiting.delete(key);
    else this.#waiting.set(key, count);
  }
}
