/** Tasks in memory. */
export interface Cached {
  readonly bytes: number;
  /** Frees about this many bytes, or all. */
  shed(bytes: number): void;
}

/** The part of a queue that the cache uses. */
export interface CacheOwner {
  readonly cache: Cached | undefined;
  /** Tasks that wait apart from the others. */
  readonly lanes?: Cached | undefined;
  /** True if its cache may shed now. False during a refill. */
  readonly evictable: boolean;
  /** Called when the cache has shed everything. The ledger keeps where the head is. */
  dropCache(): void;
}

const bytesOf = ({ cache, lanes }: CacheOwner): number => (cache?.bytes ?? 0) + (lanes?.bytes ?? 0);

/** Bytes that the least recently used queue sheds at once: enough to make eviction rare, few enough to be fair. */
const SHED_BYTES = 256 * 1024;
/** Largest head that is spared while other queues have longer ones. Spared heads get at most half of the budget together. */
const LONGEST_HEAD_BYTES = 256 * 1024;
/** Number of least recently used queues that are searched for a longer head. */
const SPARING_LOOK = 64;

/**
 * One memory budget for the caches of all queues (the paper, 5.4.1). The least recently used queue sheds first, from the end
 * of its head: evicting single tasks by age would take the head of an idle queue before its tail. Short heads are spared while
 * other queues have longer ones. Otherwise the queue of a slow worker would always lose its head to busy queues, although it
 * needs only a short one (the paper, 6.2).
 */
export class TaskCache {
  readonly #budget: number;
  /** From least to most recently used. */
  readonly #owners = new Map<CacheOwner, number>();
  #bytes = 0;

  constructor(budgetBytes: number) {
    this.#budget = budgetBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get budget(): number {
    return this.#budget;
  }

  /** Counts the owner's bytes again and makes it the most recently used one. */
  touch(owner: CacheOwner): void {
    const bytes = bytesOf(owner);
    this.#bytes += bytes - (this.#owners.get(owner) ?? 0);
    this.#owners.delete(owner);
    if (owner.cache || bytes > 0) this.#owners.set(owner, bytes);
    if (this.#bytes > this.#budget) this.#evict();
  }

  /** Forgets an owner that has ended, with its bytes. */
  forget(owner: CacheOwner): void {
    this.#bytes -= this.#owners.get(owner) ?? 0;
    this.#owners.delete(owner);
  }

  #evict(): void {
    this.#shedDownTo(Math.min(LONGEST_HEAD_BYTES, this.#budget / this.#owners.size / 2), SPARING_LOOK);
    this.#shedDownTo(0, this.#owners.size);
  }

  /** Takes the bytes above `floor` from at most `most` of the least recently used queues, until the budget is met. */
  #shedDownTo(floor: number, most: number): void {
    let looked = 0;
    for (const owner of this.#owners.keys()) {
      if (this.#bytes <= this.#budget || looked++ >= most) return;
      if (!owner.evictable) continue;
      for (let bytes = bytesOf(owner); this.#bytes > this.#budget && bytes > floor; ) {
        const before = bytes;
        const part = owner.lanes !== undefined && owner.lanes.bytes > 0 ? owner.lanes : owner.cache;
        part?.shed(Math.min(before - floor, Math.max(SHED_BYTES, this.#budget / 64)));
        bytes = bytesOf(owner);
        this.#bytes -= before - bytes;
        this.#owners.set(owner, bytes);
        if (bytes === before) break;
      }
      if (bytesOf(owner) === 0 && this.#bytes > this.#budget) {
        this.#owners.delete(owner);
        owner.dropCache();
      }
    }
  }
}
