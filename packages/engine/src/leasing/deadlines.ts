import { OrderedSet } from '@js-sdsl/ordered-set';
import type { Instant } from '../domain/ids.ts';
import type { CancelTimer, Clock } from '../ports/clock.ts';

/** A waiter with a deadline. */
export interface Due {
  readonly deadline: Instant;
  /** Order of arrival, set by `Deadlines.add`. Breaks ties between equal deadlines. 0: not added yet. */
  order: number;
}

const compare = (a: Due, b: Due): number => a.deadline - b.deadline || a.order - b.order;

/** Calls back for each waiter at its deadline. All share one timer, because 10,000 may wait and a timer takes half a KB. */
export class Deadlines<W extends Due> {
  readonly #clock: Pick<Clock, 'now' | 'at'>;
  readonly #onDue: (waiter: W) => void;
  readonly #waiting = new OrderedSet<W>([], compare);
  #added = 0;
  /** When the timer fires. It fires too early if the first waiter has left since, and is then set again. */
  #at: Instant | undefined;
  #cancel: CancelTimer = () => {};

  constructor(clock: Pick<Clock, 'now' | 'at'>, onDue: (waiter: W) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  add(waiter: W): void {
    waiter.order = ++this.#added;
    this.#waiting.insert(waiter);
    this.#arm();
  }

  /** Does nothing if the waiter was not added or its deadline has passed. */
  remove(waiter: W): void {
    if (waiter.order === 0) return;
    this.#waiting.eraseElementByKey(waiter);
    if (this.#waiting.empty()) this.#disarm();
  }

  #arm(): void {
    const first = this.#waiting.front();
    if (first === undefined || (this.#at !== undefined && this.#at <= first.deadline)) return;
    this.#cancel();
    this.#at = first.deadline;
    this.#cancel = this.#clock.at(first.deadline, () => this.#fire());
  }

  #disarm(): void {
    if (this.#at === undefined) return;
    this.#cancel();
    this.#at = undefined;
  }

  #fire(): void {
    this.#at = undefined;
    const now = this.#clock.now();
    for (
      let first = this.#waiting.front();
      first !== undefined && first.deadline <= now;
      first = this.#waiting.front()
    ) {
      this.#waiting.eraseElementByKey(first);
      this.#onDue(first);
    }
    this.#arm();
  }
}
