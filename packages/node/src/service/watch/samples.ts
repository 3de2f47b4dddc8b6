/** Slots by which a clock may be set back without a loss of the samples. */
const MOST_BACK = 6;

/** A ring of samples: the last ones of each of several series. */
export class Samples<Name extends string> {
  readonly #most: number;
  readonly #series: ReadonlyMap<Name, Float64Array>;
  #count = 0;
  /** Slot of the last sample: its instant divided by the step. */
  #last = 0;

  /** `most`: how many samples are kept. */
  constructor(names: readonly Name[], most: number) {
    this.#most = most;
    this.#series = new Map(names.map((name) => [name, new Float64Array(most)]));
  }

  /**
   * Adds a sample. Slots in between get -1, which stands for unknown. An earlier slot is ignored, unless the clock was set
   * back so far that samples would be missing for long: then all begins anew.
   */
  add(slot: number, values: Readonly<Record<Name, number>>): void {
    if (slot < this.#last - MOST_BACK) this.#count = 0;
    if (this.#count > 0 && slot <= this.#last) return;
    const missed = this.#count === 0 ? 0 : Math.min(slot - this.#last - 1, this.#most);
    for (let at = slot - missed; at < slot; at++) this.#put(at, () => -1);
    this.#put(slot, (name) => values[name]);
    this.#last = slot;
  }

  get last(): number | undefined {
    return this.#count === 0 ? undefined : this.#last;
  }

  /** The samples behind a slot, the oldest first. */
  of(name: Name, after = Number.NEGATIVE_INFINITY): number[] {
    const series = this.#series.get(name) ?? new Float64Array(0);
    const first = Math.max(this.#last - this.#count + 1, after + 1);
    const values: number[] = [];
    for (let slot = first; this.#count > 0 && slot <= this.#last; slot++) values.push(series[slot % this.#most] ?? -1);
    return values;
  }

  /** All series, as `of` gives each. */
  all(after?: number): Record<Name, number[]> {
    const series = [...this.#series.keys()].map((name) => [name, this.of(name, after)]);
    return Object.fromEntries(series) as Record<Name, number[]>;
  }

  #put(slot: number, valueFor: (name: Name) => number): void {
    for (const [name, series] of this.#series) series[slot % this.#most] = valueFor(name);
    this.#count = Math.min(this.#most, this.#count + 1);
  }
}
