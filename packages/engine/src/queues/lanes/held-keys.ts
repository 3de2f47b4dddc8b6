import type { Instant } from '../../domain/ids.ts';
import type { KeyUses } from './key-uses.ts';
import type { Lane } from './lane.ts';

/** Keys of which one look finds out since when they are held back: there may be 100,000. */
const MOST_LOOKED_AT = 1000;
const NEVER = Number.MAX_SAFE_INTEGER as Instant;

/** The keys of one queue whose tasks a limit holds back, by their lanes, and the number of these tasks. */
export class HeldKeys {
  /** Those that are held back for the longest time come first. */
  readonly #keys = new Set<Lane>();
  /** Available tasks with these keys. Those of a lane that is not counted are those that were last known in memory. */
  tasks = 0;

  get size(): number {
    return this.#keys.size;
  }

  [Symbol.iterator](): Iterator<Lane> {
    return this.#keys.values();
  }

  add(ofKey: Lane): void {
    if (this.#keys.has(ofKey)) return;
    this.#keys.add(ofKey);
    this.tasks += ofKey.availableOfKey;
  }

  delete(ofKey: Lane): void {
    if (this.#keys.delete(ofKey)) this.tasks -= ofKey.availableOfKey;
  }

  /** A key has `more` available tasks than before. It counts only while it is held back. */
  count(ofKey: Lane, more: number): void {
    if (this.#keys.has(ofKey)) this.tasks += more;
  }

  clear(): void {
    this.#keys.clear();
    this.tasks = 0;
  }

  /** The limits that hold the tasks back, and since when. Of very many keys it looks at the first ones. */
  get since(): ReadonlyMap<KeyUses, Instant> {
    const since = new Map<KeyUses, Instant>();
    let looked = 0;
    for (const { uses } of this.#keys) {
      if (++looked > MOST_LOOKED_AT) break;
      for (const [keys, { usedUpSince }] of uses) {
        if (usedUpSince !== undefined && usedUpSince < (since.get(keys) ?? NEVER)) since.set(keys, usedUpSince);
      }
    }
    return since;
  }
}
