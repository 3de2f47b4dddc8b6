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

/**
 * One budget over the caches of all queues (the paper, 5.4.1), by least recent use of queues. Within a queue what is
 * furthest from its head goes first: evicting by task would take the head of an idle queue before its tail.
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
    for (const owner of this.#owners.keys()) {
      while (this.#bytes > this.#budget && owner.evictable && owner.cache && owner.cache.bytes > 0) {
        const before = owner.cache.bytes;
        owner.cache.shed(Math.max(SHED_BYTES, this.#budget / 64));
        this.#bytes -= before - owner.cache.bytes;
        this.#owners.set(owner, owner.cache.bytes);
      }
      if (owner.evictable && owner.cache?.bytes === 0 && this.#bytes > this.#budget) {
        this.#owners.delete(owner);
        owner.dropCache();
      }
      if (this.#bytes <= this.#budget) return;
    }
  }
}
