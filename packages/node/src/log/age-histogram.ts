import type { ByteReader, ByteWriter } from '../domain/bytes.ts';
import type { Instant } from '../domain/ids.ts';

const MAX_BUCKETS = 64;
const FINEST_MS = 1000;

/**
 * How many tasks were enqueued when: tells the age of the oldest one without an index by time, in bounded memory. It is
 * told too great by a second or by a thirtieth of the greatest age there was when its bucket was made, at most.
 *
 *  A1  Buckets are in order; bucket i counts the instants from `from[i]` up to `from[i + 1]`.
 *  A2  A bucket is only ever added before the first or, for an instant later than all there are, behind the last one:
 *      so an instant is taken out of the bucket it was counted in.
 */
export class AgeHistogram {
  #from: number[] = [];
  #count: number[] = [];
  #latest = 0;

  add(at: Instant): void {
    const first = this.#from[0];
    const last = this.#from.at(-1);
    if (first === undefined || last === undefined) {
      // A literal has room for one, which is all that most queues need; an array that is pushed to has room for more.
      this.#from = [at];
      this.#count = [1];
    } else if (at < first) {
      this.#from.unshift(at);
      this.#count.unshift(1);
    } else if (at > this.#latest && at - last >= Math.max(FINEST_MS, (at - first) / MAX_BUCKETS)) {
      this.#from.push(at);
      this.#count.push(1);
    } else {
      this.#change(this.#bucketOf(at), 1);
    }
    this.#latest = Math.max(this.#latest, at);
    if (this.#from.length > MAX_BUCKETS) this.#mergeNarrowestPair();
  }

  remove(at: Instant): void {
    const bucket = this.#bucketOf(at);
    this.#change(bucket, -1);
    if ((this.#count[bucket] ?? 0) > 0) return;
    const [from = 0] = this.#from.splice(bucket, 1);
    this.#count.splice(bucket, 1);
    // All that are left came before it: a task of this very instant may begin a bucket again.
    if (bucket === this.#from.length) this.#latest = Math.max(0, from - 1);
  }

  /** When the oldest task was enqueued, or a little earlier; undefined without tasks. */
  get oldest(): Instant | undefined {
    return this.#from[0] as Instant | undefined;
  }

  /** Moves all instants by so many ms. */
  shift(byMs: number): void {
    for (const [i, from] of this.#from.entries()) this.#from[i] = Math.max(0, from + byMs);
    this.#latest = Math.max(0, this.#latest + byMs);
  }

  write(out: ByteWriter): void {
    out.number(this.#latest);
    out.number(this.#from.length);
    for (const [i, from] of this.#from.entries()) {
      out.number(from);
      out.number(this.#count[i] ?? 0);
    }
  }

  static read(from: ByteReader): AgeHistogram {
    const ages = new AgeHistogram();
    ages.#latest = from.number();
    const buckets = from.number();
    for (let i = 0; i < buckets; i++) {
      ages.#from.push(from.number());
      ages.#count.push(from.number());
    }
    return ages;
  }

  /** The last bucket that begins at or before the instant; the first one for instants before all. */
  #bucketOf(at: number): number {
    let low = 0;
    let high = this.#from.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#from[middle] ?? 0) <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #change(bucket: number, by: number): void {
    this.#count[bucket] = (this.#count[bucket] ?? 0) + by;
  }

  /** The two that are narrowest together, so that all stay about as wide as they are when they begin. */
  #mergeNarrowestPair(): void {
    let narrowest = 0;
    let width = Number.POSITIVE_INFINITY;
    for (let i = 0; i + 1 < this.#from.length; i++) {
      const together = (this.#from[i + 2] ?? this.#latest) - (this.#from[i] ?? 0);
      if (together >= width) continue;
      width = together;
      narrowest = i;
    }
    this.#change(narrowest, this.#count[narrowest + 1] ?? 0);
    this.#from.splice(narrowest + 1, 1);
    this.#count.splice(narrowest + 1, 1);
  }
}
