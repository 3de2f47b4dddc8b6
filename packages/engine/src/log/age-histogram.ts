import { type ByteReader, type ByteWriter, UnreadableBytesError } from '../domain/bytes.ts';
import type { Instant } from '../domain/ids.ts';

const MAX_BUCKETS = 64;
const FINEST_MS = 1000;
const FAR = Number.POSITIVE_INFINITY;

/** Numbers of a bucket: its first instant, its last instant, and its count. */
const PER_BUCKET = 3;

/**
 * A histogram of the instants at which tasks became due. It gives the age of the oldest task in bounded memory, without an
 * index by time. The age is too large by at most a second, or a thirtieth of the largest age when its bucket was made.
 *
 *  A1  Buckets are in order. Each counts the instants from its first to its last one.
 *  A2  Buckets never overlap: a bucket starts or grows only where there is none. So an instant is always removed from the
 *      bucket that counts it, in any order of additions and removals.
 */
export class AgeHistogram {
  /** All buckets in one flat array. With one bucket it has no spare capacity, because there may be 100,000 queues. */
  #buckets: number[] = [];

  add(at: Instant): void {
    const buckets = this.#buckets;
    const latest = buckets.length - PER_BUCKET;
    // The usual case, in one function: numbers that others return are allocated (bench row B3).
    if (at >= (buckets[latest] ?? FAR) && at <= (buckets[latest + 1] ?? 0)) {
      buckets[latest + 2] = (buckets[latest + 2] ?? 0) + 1;
      return;
    }
    const [first] = buckets;
    if (first === undefined) {
      this.#buckets = [at, at, 1];
      return;
    }
    if (at < first) {
      buckets.unshift(at, at, 1);
    } else {
      const bucket = this.#bucketOf(at);
      if (at > this.#toOf(bucket) && this.#isTooFar(at, bucket)) {
        buckets.splice(bucket + PER_BUCKET, 0, at, at, 1);
      } else {
        buckets[bucket + 1] = Math.max(at, this.#toOf(bucket));
        this.#change(bucket, 1);
      }
    }
    if (buckets.length > PER_BUCKET * MAX_BUCKETS) this.#mergeNarrowestPair();
  }

  remove(at: Instant): void {
    const bucket = this.#bucketOf(at);
    this.#change(bucket, -1);
    if (this.#countOf(bucket) <= 0) this.#buckets.splice(bucket, PER_BUCKET);
  }

  /** When the oldest task became due, or slightly earlier; undefined without tasks. */
  get oldest(): Instant | undefined {
    return this.#buckets[0] as Instant | undefined;
  }

  /** Moves all instants by `byMs` milliseconds. */
  shift(byMs: number): void {
    for (let i = 0; i < this.#buckets.length; i += PER_BUCKET) {
      this.#buckets[i] = Math.max(0, this.#fromOf(i) + byMs);
      this.#buckets[i + 1] = Math.max(0, this.#toOf(i) + byMs);
    }
  }

  /** Writes each instant as its distance from the one before. */
  write(out: ByteWriter): void {
    out.number(this.#buckets.length / PER_BUCKET);
    let last = 0;
    for (let i = 0; i < this.#buckets.length; i += PER_BUCKET) {
      out.number(this.#fromOf(i) - last);
      last = this.#toOf(i);
      out.number(last - this.#fromOf(i));
      out.number(this.#countOf(i));
    }
  }

  static read(from: ByteReader): AgeHistogram {
    const ages = new AgeHistogram();
    const count = from.number();
    if (count > MAX_BUCKETS)
      throw new UnreadableBytesError(`an age histogram of ${count} buckets, more than ${MAX_BUCKETS}`);
    // An array that grows by `push` would have spare capacity.
    const buckets = Array.from({ length: count * PER_BUCKET }, () => from.number());
    let last = 0;
    for (let i = 0; i < buckets.length; i += PER_BUCKET) {
      const first = last + (buckets[i] ?? 0);
      last = first + (buckets[i + 1] ?? 0);
      buckets[i] = first;
      buckets[i + 1] = last;
    }
    ages.#buckets = buckets;
    return ages;
  }

  /** True if a later instant would make the bucket too wide. */
  #isTooFar(at: number, bucket: number): boolean {
    const latest = Math.max(at, this.#toOf(this.#buckets.length - PER_BUCKET));
    return at - this.#fromOf(bucket) >= Math.max(FINEST_MS, (latest - this.#fromOf(0)) / MAX_BUCKETS);
  }

  #fromOf(bucket: number): number {
    return this.#buckets[bucket] ?? 0;
  }

  #toOf(bucket: number): number {
    return this.#buckets[bucket + 1] ?? 0;
  }

  #countOf(bucket: number): number {
    return this.#buckets[bucket + 2] ?? 0;
  }

  /** The last bucket that starts at or before the instant; the first bucket if there is none. */
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
    this.#buckets[bucket + 2] = this.#countOf(bucket) + by;
  }

  /** Merges the two neighbours that are narrowest together, so that buckets keep about their width. */
  #mergeNarrowestPair(): void {
    let narrowest = 0;
    let width = Number.POSITIVE_INFINITY;
    for (let i = 0; i + PER_BUCKET < this.#buckets.length; i += PER_BUCKET) {
      const together = this.#toOf(i + PER_BUCKET) - this.#fromOf(i);
      if (together >= width) continue;
      width = together;
      narrowest = i;
    }
    const next = narrowest + PER_BUCKET;
    this.#buckets[narrowest + 1] = this.#toOf(next);
    this.#change(narrowest, this.#countOf(next));
    this.#buckets.splice(next, PER_BUCKET);
  }
}
