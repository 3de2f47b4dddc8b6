import type { QueueCache } from './queue-cache.ts';

/** A queue as the cache knows it. */
export interface CacheOwner {
  readonly cache: QueueCache | undefined;
  /** Whether its cache may shed now; not while a refill is about to extend it. */
  readonly evictable: boolean;
  /** The cache shed everything; what remains to be known fits into the ledger. */
  dropCache(): void;
}

/** How much the least recently used queue sheds at once: enough to make eviction rare, little enough to be fair. */
const SHED_BYTES = 256 * 1024;
/** What a queue keeps while others have more, at most; idle queues together not more than half of the budget. */
const LONGEST_HEAD_BYTES = 256 * 1024;
/** Among so many of the least recently used queues one is sought that has more than that. */
const SPARING_LOOK = 64;

/**
 * One budget over the caches of all queues (the paper, 5.4.1), by least recent use of queues. Within a queue what is
 * furthest from its head goes first: evicting by task would take the head of an idle queue before its tail. A short
 * head is spared while others have longer ones: a slow worker's queue would always be the least recently used beside busy
 * neighbours, though a short head is all that this worker needs (the paper, 6.2).
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

  /** Accounts for a change of the owner's cache and makes it the most recently used. */
  touch(owner: CacheOwner): void {
    const bytes = owner.cache?.bytes ?? 0;
    this.#bytes += bytes - (this.#owners.get(owner) ?? 0);
    this.#owners.delete(owner);
    if (owner.cache) this.#owners.set(owner, bytes);
    if (this.#bytes > this.#budget) this.#evict();
  }

  /** The owner is gone, with its cache. */
  forget(owner: CacheOwner): void {
    this.#bytes -= this.#owners.get(owner) ?? 0;
    this.#owners.delete(owner);
  }

  #evict(): void {
    this.#shedDownTo(Math.min(LONGEST_HEAD_BYTES, this.#budget / this.#owners.size / 2), SPARING_LOOK);
    this.#shedDownTo(0, this.#owners.size);
  }

  /** Sheds of the least recently used queues, so many at most, what is above `floor`, until the budget is kept. */
  #shedDownTo(floor: number, most: number): void {
    let looked = 0;
    for (const owner of this.#owners.keys()) {
      if (this.#bytes <= this.#budget || looked++ >= most) return;
      if (!owner.evictable) continue;
      while (this.#bytes > this.#budget && owner.cache && owner.cache.bytes > floor) {
        const before = owner.cache.bytes;
        owner.cache.shed(Math.min(before - floor, Math.max(SHED_BYTES, this.#budget / 64)));
        this.#bytes -= before - owner.cache.bytes;
        this.#owners.set(owner, owner.cache.bytes);
      }
      if (owner.cache?.bytes === 0 && this.#bytes > this.#budget) {
        this.#owners.delete(owner);
        owner.dropCache();
      }
    }
  }
}
