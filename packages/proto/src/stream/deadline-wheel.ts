/** A monotonic clock with timers. */
export interface WheelTiming {
  /** In ms. */
  now(): number;
  /** Calls back after `ms`. Returns a function that cancels the timer. */
  after(ms: number, callback: () => void): () => void;
}

/** Precision of deadlines, in ms. */
const TICK_MS = 20;

/**
 * Deadlines of many items with one timer. Items due in the same tick share a slot. The timer is set for the earliest slot that
 * was in use when it last fired. Items are usually removed long before they are due, so the timer fires about once per timeout.
 */
export class DeadlineWheel<Item> {
  readonly #timing: WheelTiming;
  readonly #onDue: (item: Item) => void;
  readonly #slots = new Map<number, Set<Item>>();
  #cancelTimer: (() => void) | undefined;
  #wakeSlot = Number.POSITIVE_INFINITY;

  constructor(timing: WheelTiming, onDue: (item: Item) => void) {
    this.#timing = timing;
    this.#onDue = onDue;
  }

  /** Adds an item that is not in the wheel. Returns its slot, for `remove`. */
  add(item: Item, dueAt: number): number {
    const number = Math.ceil(dueAt / TICK_MS);
    const slot = this.#slots.get(number);
    if (slot === undefined) this.#slots.set(number, new Set([item]));
    else slot.add(item);
    if (number < this.#wakeSlot) this.#wakeFor(number);
    return number;
  }

  remove(item: Item, slot: number): void {
    this.#slots.get(slot)?.delete(item);
  }

  /** Removes all items. */
  clear(): void {
    this.#slots.clear();
    this.#cancelTimer?.();
    this.#wakeSlot = Number.POSITIVE_INFINITY;
  }

  #wakeFor(slot: number): void {
    this.#cancelTimer?.();
    this.#wakeSlot = slot;
    const delayMs = Math.max(0, slot * TICK_MS - this.#timing.now());
    this.#cancelTimer = this.#timing.after(delayMs, () => this.#turn());
  }

  #turn(): void {
    this.#wakeSlot = Number.POSITIVE_INFINITY;
    const current = Math.floor(this.#timing.now() / TICK_MS);
    const due: Set<Item>[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (const [number, slot] of this.#slots) {
      if (number <= current) due.push(slot);
      if (number <= current || slot.size === 0) this.#slots.delete(number);
      else next = Math.min(next, number);
    }
    if (next < Number.POSITIVE_INFINITY) this.#wakeFor(next);
    for (const slot of due) for (const item of slot) this.#onDue(item);
  }
}
