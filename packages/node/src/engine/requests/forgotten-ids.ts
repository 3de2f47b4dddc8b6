import type { Instant } from '@taskmaster/server/domain';

/** Bits of the first filter and of the largest; each has twice as many as the one before. */
const FEWEST_BITS = 2 ** 17;
const MOST_BITS = 2 ** 24;
/** With ten bits an id and seven of them set, one in a hundred other ids is taken for one that was added. */
const BITS_PER_ID = 10;
const PROBES = 7;
/** All filters together: five million ids. */
const MOST_BYTES = 8 * 1024 * 1024;

interface Filter {
  readonly bits: Uint32Array;
  ids: number;
  /** When the latest of them was recorded. */
  latest: Instant;
}

/**
 * Which request ids there were that memory had no room for: Bloom filters, of a byte or two an id where remembering it
 * takes hundreds. Whoever finds his id in none need not ask the store.
 *
 *  B1  An id that was added within the window is found. Others are, too, but rarely.
 */
export class ForgottenIds {
  readonly #windowMs: number;
  /** Oldest first; ids are added to the last one. */
  readonly #filters: Filter[] = [];
  #bytes = 0;

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** `at` is when the id was recorded. Returns the instant since which B1 holds where it does not for the whole window. */
  add(id: string, at: Instant): Instant | undefined {
    const filter = this.#filterWithRoom(at);
    filter.ids++;
    if (at > filter.latest) filter.latest = at;
    const { bits } = filter;
    const hash = hashOf(id);
    const step = stepOf(hash);
    for (let probe = 0; probe < PROBES; probe++) {
      const bit = bitOf(bits, hash, step, probe);
      bits[bit >>> 5] = (bits[bit >>> 5] ?? 0) | (1 << (bit & 31));
    }
    return this.#bytes > MOST_BYTES ? this.#dropOldest() : undefined;
  }

  /** Whether the id may have been added within the window. */
  mayHave(id: string, now: Instant): boolean {
    this.#dropPassed(now);
    if (this.#filters.length === 0) return false;
    const hash = hashOf(id);
    return this.#filters.some(({ bits }) => hasAll(bits, hash));
  }

  #filterWithRoom(at: Instant): Filter {
    const last = this.#filters.at(-1);
    const lastBits = last ? last.bits.length * 32 : 0;
    if (last && last.ids * BITS_PER_ID < lastBits) return last;
    this.#dropPassed(at);
    const bits = new Uint32Array(Math.min(MOST_BITS, Math.max(FEWEST_BITS, 2 * lastBits)) / 32);
    const filter = { bits, ids: 0, latest: at };
    this.#filters.push(filter);
    this.#bytes += bits.byteLength;
    return filter;
  }

  #dropPassed(now: Instant): void {
    for (let oldest = this.#filters[0]; oldest && now - oldest.latest > this.#windowMs; oldest = this.#filters[0]) {
      this.#dropOldest();
    }
  }

  #dropOldest(): Instant | undefined {
    const oldest = this.#filters.shift();
    this.#bytes -= oldest?.bits.byteLength ?? 0;
    return oldest?.latest;
  }
}

const bitOf = (bits: Uint32Array, hash: number, step: number, probe: number): number =>
  (hash + probe * step) & (bits.length * 32 - 1);

function hasAll(bits: Uint32Array, hash: number): boolean {
  const step = stepOf(hash);
  for (let probe = 0; probe < PROBES; probe++) {
    const bit = bitOf(bits, hash, step, probe);
    if (((bits[bit >>> 5] ?? 0) & (1 << (bit & 31))) === 0) return false;
  }
  return true;
}

/** FNV-1a, finished as MurmurHash3 does, for its lowest bits are weak. */
function hashOf(id: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193);
  return finished(hash);
}

/** Odd, so that probes differ. */
const stepOf = (hash: number): number => finished(hash ^ 0x9e3779b9) | 1;

function finished(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
