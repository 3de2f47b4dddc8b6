import type { RecordedRequest } from '../domain/atom.ts';
import type { Instant, Key, PartitionId } from '../domain/ids.ts';
import {
  partitionOfRequestKey,
  partitionRange,
  requestIdOfKey,
  requestKey,
  windowOfRequestKey,
} from '../domain/keys.ts';
import { windowOf } from '../log/atom-rows.ts';
import { WHOLE_FAMILY } from '../log/scan-all.ts';
import { Family, type Store } from '../ports/store.ts';
import type { EngineConfig } from './config.ts';

interface Remembered {
  readonly at: Instant;
  readonly outcome: Uint8Array;
}

/** What is known of a request id; `unknown` means that the store must be asked. */
export type RequestKnowledge =
  | { readonly kind: 'seen'; readonly outcome: Uint8Array }
  | { readonly kind: 'new' }
  | { readonly kind: 'unknown' };

const NEW: RequestKnowledge = { kind: 'new' };
const UNKNOWN: RequestKnowledge = { kind: 'unknown' };

const LARGEST_STEP_ROWS = 1024;
const LARGEST_STEP_BYTES = 4 * 1024 * 1024;

/** Memory of a remembered id beside its outcome. Measured on Node 24. */
const OVERHEAD_BYTES = 250;

/**
 * The outcomes of recent requests. Each is a row, committed with the atom it is the outcome of; memory holds as many as
 * its budget allows, and knows since when it holds them all.
 *
 *  I1  Every id recorded since `completeSince` is in memory.
 *  I2  An id is in memory while the store may not show it, and while a request with it is under way: whoever found it
 *      neither in memory nor in the store can trust that until it commits, if it looks into memory once more.
 */
export class RequestIds {
  readonly #store: Store;
  readonly #windowMs: number;
  readonly #budget: number;
  /** By partition and id, oldest first. */
  readonly #remembered = new Map<string, Remembered>();
  /** By partition and id, how many reasons there are not to forget it (I2). */
  readonly #pins = new Map<string, number>();
  #completeSince: Instant;
  #bytes = 0;
  #trimmedWindow = 0;

  constructor(store: Store, config: EngineConfig, now: Instant) {
    this.#store = store;
    this.#windowMs = config.requestIdWindowMs;
    this.#budget = config.requestIdBytes;
    this.#completeSince = now;
  }

  lookUp(partition: PartitionId, id: string, now: Instant): RequestKnowledge {
    const known = this.#remembered.get(nameOf(partition, id));
    if (known && now - known.at <= this.#windowMs) return { kind: 'seen', outcome: known.outcome };
    return now - this.#completeSince > this.#windowMs ? NEW : UNKNOWN;
  }

  /** Asks the store: the windows that the retry window can reach into. */
  async read(partition: PartitionId, id: string, now: Instant): Promise<RequestKnowledge> {
    const window = windowOf(now, this.#windowMs);
    // The next one too: instants that came with a partition may be a little ahead.
    const keys = [window, window - 1, window + 1].map((each) => requestKey(partition, each, id));
    const rows = await this.#store.get(Family.requests, keys);
    const outcome = rows.find((row) => row !== undefined);
    return outcome ? { kind: 'seen', outcome } : NEW;
  }

  /** Of a request that is about to be committed; `applied` must follow. */
  remember(partition: PartitionId, id: string, at: Instant, outcome: Uint8Array): void {
    this.#pin(nameOf(partition, id));
    this.#add(partition, id, at, outcome);
  }

  /** The store shows the request from now on. */
  applied(partition: PartitionId, id: string): void {
    this.#unpin(nameOf(partition, id));
  }

  /** For a request under way: until disposed of, the outcome of another request with its id stays in memory. */
  hold(partition: PartitionId, id: string): Disposable {
    const name = nameOf(partition, id);
    this.#pin(name);
    return { [Symbol.dispose]: () => this.#unpin(name) };
  }

  /** Loads what the store has, as far as the budget goes; without it, every id is asked for until the window is over. */
  async load(now: Instant): Promise<void> {
    const oldest = windowOf(now, this.#windowMs) - 1;
    let gte = WHOLE_FAMILY.gte;
    // Small steps first: there may be a million rows that are too old, or more than memory has room for.
    let rows = 1;
    for (;;) {
      const range = { gte, lt: WHOLE_FAMILY.lt };
      const step = await this.#store.scan(Family.requests, range, { rows, bytes: LARGEST_STEP_BYTES });
      const last = step.at(-1);
      if (last === undefined) break;
      for (const { key, value } of step) {
        const window = windowOfRequestKey(key);
        if (window < oldest) continue;
        const id = requestIdOfKey(key);
        if (this.#bytes + costOf(id, value) > this.#budget / 2) return;
        // The row does not say when within its window: the end of it, so that it is not forgotten too early.
        const at = Math.min(now, (window + 1) * this.#windowMs) as Instant;
        this.#add(partitionOfRequestKey(key), id, at, Uint8Array.from(value));
      }
      const isOld = windowOfRequestKey(last.key) < oldest;
      gte = isOld ? requestKey(partitionOfRequestKey(last.key), oldest, '') : (`${last.key}\0` as Key);
      rows = isOld ? 1 : Math.min(2 * rows, LARGEST_STEP_ROWS);
    }
    this.#completeSince = 0 as Instant;
  }

  /** Takes over what came with a partition; `complete` says whether that is everything the store has of it. */
  adopt(
    partition: PartitionId,
    requests: Iterable<RecordedRequest & { readonly at: Instant }>,
    complete: boolean,
    now: Instant,
  ): void {
    for (const { id, at, outcome } of requests) this.#add(partition, id, at, outcome);
    if (!complete) this.#completeSince = now;
  }

  /** Deletes the rows of windows that have passed. */
  async trim(now: Instant): Promise<void> {
    const window = windowOf(now, this.#windowMs);
    if (window <= this.#trimmedWindow) return;
    this.#trimmedWindow = window;
    let range = WHOLE_FAMILY;
    for (;;) {
      const [first] = await this.#store.scan(Family.requests, range, { rows: 1, bytes: LARGEST_STEP_BYTES });
      if (first === undefined) return;
      const partition = partitionRange(partitionOfRequestKey(first.key));
      const passed = { gte: partition.gte, lt: requestKey(partitionOfRequestKey(first.key), window - 1, '') };
      if (first.key < passed.lt) await this.#store.deleteRange(Family.requests, passed);
      range = { gte: partition.lt, lt: range.lt };
    }
  }

  #add(partition: PartitionId, id: string, at: Instant, outcome: Uint8Array): void {
    const name = nameOf(partition, id);
    const known = this.#remembered.get(name);
    if (known) this.#bytes -= costOf(name, known.outcome);
    this.#remembered.set(name, { at, outcome });
    this.#bytes += costOf(name, outcome);
    this.#forget(at);
  }

  #forget(now: Instant): void {
    for (const [name, { at, outcome }] of this.#remembered) {
      const expired = now - at > this.#windowMs;
      if (!expired && this.#bytes <= this.#budget) return;
      if (this.#pins.has(name)) continue;
      this.#remembered.delete(name);
      this.#bytes -= costOf(name, outcome);
      if (!expired) this.#completeSince = Math.max(this.#completeSince, at) as Instant;
    }
  }

  #pin(name: string): void {
    this.#pins.set(name, (this.#pins.get(name) ?? 0) + 1);
  }

  #unpin(name: string): void {
    const pins = (this.#pins.get(name) ?? 0) - 1;
    if (pins > 0) this.#pins.set(name, pins);
    else this.#pins.delete(name);
  }
}

const nameOf = (partition: PartitionId, id: string): string => String.fromCharCode(partition) + id;
const costOf = (name: string, outcome: Uint8Array): number => OVERHEAD_BYTES + name.length + outcome.byteLength;
