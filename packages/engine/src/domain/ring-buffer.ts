/** Slots of a new buffer: a power of two. */
const FEWEST_SLOTS = 16;
/** More slots are given back when the buffer is empty. */
const MOST_EMPTY_SLOTS = 4096;

/** A line, first in, first out. It keeps nothing that has left it, and allocates only to grow. Bench row B1, allocated bytes. */
export class RingBuffer<T> {
  #slots = new Array<T | undefined>(FEWEST_SLOTS);
  #head = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get first(): T | undefined {
    return this.at(0);
  }

  get last(): T | undefined {
    return this.at(this.#size - 1);
  }

  /** The item behind so many others. Undefined: there are not so many. */
  at(index: number): T | undefined {
    return index < 0 || index >= this.#size ? undefined : this.#slots[this.#slotOf(index)];
  }

  push(item: T): void {
    if (this.#size === this.#slots.length) this.#grow();
    this.#slots[this.#slotOf(this.#size)] = item;
    this.#size++;
  }

  /** Takes the first item. Undefined: there is none. */
  shift(): T | undefined {
    if (this.#size === 0) return undefined;
    const first = this.#slots[this.#head];
    this.#slots[this.#head] = undefined;
    this.#head = this.#slotOf(1);
    this.#size--;
    if (this.#size === 0 && this.#slots.length > MOST_EMPTY_SLOTS) this.clear();
    return first;
  }

  clear(): void {
    this.#slots = new Array<T | undefined>(FEWEST_SLOTS);
    this.#head = 0;
    this.#size = 0;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let index = 0; index < this.#size; index++) yield this.#slots[this.#slotOf(index)] as T;
  }

  #slotOf(index: number): number {
    return (this.#head + index) & (this.#slots.length - 1);
  }

  #grow(): void {
    const slots = new Array<T | undefined>(2 * this.#size);
    for (let index = 0; index < this.#size; index++) slots[index] = this.#slots[this.#slotOf(index)];
    this.#slots = slots;
    this.#head = 0;
  }
}
