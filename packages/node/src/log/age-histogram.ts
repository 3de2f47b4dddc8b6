import { type ByteReader, type ByteWriter, UnreadableBytes } from '../domain/bytes.ts';
import type { Instant } from '../domain/ids.ts';

const MAX_BUCKETS = 64;
const FINEST_MS = 1000;

/** Numbers of a bucket: the instant it begins at, and how many there are in it. */
const PER_BUCKET = 2;

/**
 * How many tasks were enqueued when: tells the age of the oldest one without an index by time, in bounded memory. It is
 * told too great by a second or by a thirtieth of the greatest age there was when its bucket was made, at most.
 *
 *  A1  Buckets are in order; each counts the instants from its beginning up to that of the next.
 *  A2  A bucket is only ever added before the first or, for an instant later than all there are, behind the last one:
 *      so an instant is taken out of the bucket it was counted in.
 */
export class AgeHistogram {
  /** All buckets in one array, which has no room to spare while there is one: there are 100,000 queues. */
  #buckets: number[] = [];
  #latest = 0;

  add(at: Instant): void {
    const buckets = this.#buckets;
    const [first] = buckets;
    if (first === undefined) {
      this.#buckets = [at, 1];
    } else if (at < first) {
      buckets.unshift(at, 1);
    } else if (this.#isBeyond(at, first)) {
      buckets.push(at, 1);
    } else {
      this.#change(this.#bucketOf(at), 1);
    }
    this.#latest = Math.max(this.#latest, at);
    if (this.#buckets.length > PER_BUCKET * MAX_BUCKETS) this.#mergeNarrowestPair();
  }

  remove(at: Instant): void {
    const bucket = this.#bucketOf(at);
    this.#change(bucket, -1);
    if (this.#countOf(bucket) > 0) return;
    const [from = 0] = this.#buckets.splice(bucket, PER_BUCKET);
    // All that are left came before it: a task of this very instant may begin a bucket again.
    if (bucket === this.#buckets.length) this.#latest = Math.max(0, from - 1);
  }

  /** When the oldest task was enqueued, or a little earlier; undefined without tasks. */
  get oldest(): Instant | undefined {
    return this.#buckets[0] as Instant | undefined;
  }

  /** Moves all instants by so many ms. */
  shift(byMs: number): void {
    for (let i = 0; i < this.#buckets.length; i += PER_BUCKET) {
      this.#buckets[i] = Math.max(0, this.#fromOf(i) + byMs);
    }
    this.#latest = Math.max(0, this.#latest + byMs);
  }

  write(out: ByteWriter): void {
    out.number(this.#latest);
    out.number(this.#buckets.length / PER_BUCKET);
    for (const number of this.#buckets) out.number(number);
  }

  static read(from: ByteReader): AgeHistogram {
    const ages = new AgeHistogram();
    ages.#latest = from.number();
    const buckets = from.number();
    if (buckets > MAX_BUCKETS) throw new UnreadableBytes(`a queue's tasks are of ${buckets} times`);
    // An array that is pushed to would have room for more.
    ages.#buckets = Array.from({ length: buckets * PER_BUCKET }, () => from.number());
    return ages;
  }

  /** Later than all there are, and too late for the last bucket. */
  #isBeyond(at: number, first: number): boolean {
    if (at <= this.#latest) return false;
    const last = this.#fromOf(this.#buckets.length - PER_BUCKET);
    return at - last >= Math.max(FINEST_MS, (at - first) / MAX_BUCKETS);
  }

  #fromOf(bucket: number): number {
    return this.#buckets[bucket] ?? 0;
  }

  #countOf(bucket: number): number {
    return this.#buckets[bucket + 1] ?? 0;
  }

  /** The last bucket that begins at or before the instant; the first one for instants before all. */
  #bucketOf(at: number): number {
    let low = 0;
    let high = this.#buckets.length / PER_BUCKET - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#fromOf(middle * PER_BUCKET) <= at) low = middle;
      else high = middle - 1;
    }
    return low * PER_BUCKET;
  }

  #change(bucket: number, by: number): void {
    this.#buckets[bucket + 1] = this.#countOf(bucket) + by;
  }

  /** The two that are narrowest together, so that all stay about as wide as they are when they begin. */
  #mergeNarrowestPair(): void {
    let narrowest = 0;
    let width = Number.POSITIVE_INFINITY;
    for (let i = 0; i + PER_BUCKET < this.#buckets.length; i += PER_BUCKET) {
      const together = (this.#buckets[i + 2 * PER_BUCKET] ?? this.#latest) - this.#fromOf(i);
      if (together >= width) continue;
      width = together;
      narrowest = i;
    }
    this.#change(narrowest, this.#countOf(narrowest + PER_BUCKET));
    this.#buckets.splice(narrowest + PER_BUCKET, PER_BUCKET);
  }
}
