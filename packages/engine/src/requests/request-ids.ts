import type { EngineConfig } from '../config.ts';
import type { RecordedRequest } from '../domain/atom.ts';
import { latin1Of } from '../domain/bytes.ts';
import type { Instant, Key, PartitionId } from '../domain/ids.ts';
import {
  partitionOfRequestKey,
  partitionRange,
  requestIdOfKey,
  requestKey,
  windowOfRequestKey,
} from '../domain/keys.ts';
import { RingBuffer } from '../domain/ring-buffer.ts';
import { windowOf } from '../log/atom-rows.ts';
import { WHOLE_FAMILY } from '../log/scan-all.ts';
import type { PendingChanges } from '../pending/pending-changes.ts';
import { Family, type KeyRange, type Store } from '../ports/store.ts';
import { ForgottenIds } from './forgotten-ids.ts';

interface Remembered {
  readonly id: string;
  readonly at: Instant;
  readonly outcome: string;
  /** Number of its atom. The store shows the request when the atom is applied (I2). */
  readonly atom: number;
}

/** A request that arrived with a partition. */
export interface ArrivedRequest extends RecordedRequest {
  readonly at: Instant;
}

/** A request id as far as memory knows it. `unknown`: the store must be read. */
export type RequestKnowledge =
  | { readonly kind: 'seen'; readonly outcome: string }
  | { readonly kind: 'new' }
  | { readonly kind: 'unknown' };

const NEW: RequestKnowledge = { kind: 'new' };
const UNKNOWN: RequestKnowledge = { kind: 'unknown' };

const LARGEST_STEP_ROWS = 1024;
const LARGEST_STEP_BYTES = 4 * 1024 * 1024;

/** Number of arrived ids that are merged when another partition arrives. */
const MERGED_WITH_PARTITION = 500;
/** Number of arrived ids that are merged with each request. */
const MERGED_WITH_REQUEST = 16;

/** Memory of a remembered id beside its outcome. Measured on Node 24. */
const OVERHEAD_BYTES = 250;

/**
 * The outcomes of recent requests. Each outcome is a row, committed with the atom of its request. Memory holds as many as its
 * budget allows; `ForgottenIds` tells which other ids may exist. Ids begin with the name of their group, so that partitions
 * share none.
 *
 *  I1  Every id recorded since `completeSince` is in memory or in `ForgottenIds`. For some partitions, that holds only since a
 *      later instant (`#partlyKnown`).
 *  I2  An id stays in memory while the store may not show it, and while a request with this id is in progress. So a request
 *      that finds its id neither in the store nor, afterwards, in memory is new at its commit.
 */
export class RequestIds {
  readonly #store: Store;
  readonly #windowMs: number;
  readonly #budget: number;
  readonly #remembered = new Map<string, Remembered>();
  /**
   * The remembered requests, oldest first. Not the map's own order: iterating a map from its front steps over all deleted
   * entries. A request that was remembered again is in it twice; the earlier entry is ignored.
   */
  readonly #oldest = new RingBuffer<Remembered>();
  /** Requests that arrived with partitions and may not be in `#remembered` yet. `rest`: those still to be merged. */
  readonly #arrived: { readonly byId: ReadonlyMap<string, ArrivedRequest>; readonly rest: Iterator<ArrivedRequest> }[] =
    [];
  /** By id: number of requests in progress that keep it in memory (I2). */
  readonly #holds = new Map<string, number>();
  readonly #forgotten: ForgottenIds;
  readonly #pending: Pick<PendingChanges, 'last' | 'applied'>;
  #completeSince: Instant;
  /** Partitions that came without all of their ids: since when all are known. */
  readonly #partlyKnown = new Map<PartitionId, Instant>();
  #bytes = 0;
  #trimmedWindow = 0;

  constructor(store: Store, config: EngineConfig, pending: Pick<PendingChanges, 'last' | 'applied'>, now: Instant) {
    this.#store = store;
    this.#pending = pending;
    this.#windowMs = config.requestIdWindowMs;
    this.#budget = config.requestIdCacheBytes;
    this.#forgotten = new ForgottenIds(config.requestIdWindowMs);
    this.#completeSince = now;
  }

  lookUp(partition: PartitionId, id: string, now: Instant): RequestKnowledge {
    const known = this.#latest(id);
    if (known && now - known.at <= this.#windowMs) return { kind: 'seen', outcome: known.outcome };
    const since = Math.max(this.#completeSince, this.#partlyKnown.get(partition) ?? 0);
    const isNew = now - since > this.#windowMs && !this.#forgotten.mayHave(id, now);
    return isNew ? NEW : UNKNOWN;
  }

  /** Looks the id up in the store, in all windows that the retry window overlaps. */
  async read(partition: PartitionId, id: string, now: Instant): Promise<RequestKnowledge> {
    const window = windowOf(now, this.#windowMs);
    // Including the next window: instants that arrived with a partition may be slightly ahead of this node's clock.
    const keys = [window, window - 1, window + 1].map((each) => requestKey(partition, each, id));
    const rows = await this.#store.get(Family.requests, keys);
    const outcome = rows.find((row) => row !== undefined);
    return outcome ? { kind: 'seen', outcome: latin1Of(outcome) } : NEW;
  }

  /** Remembers the request of the atom that is being committed. */
  remember(id: string, at: Instant, outcome: string): void {
    this.#add(id, at, outcome, this.#pending.last);
    this.#mergeArrived(MERGED_WITH_REQUEST);
  }

  /** For a request in progress: the outcome of another request with its id stays in memory until this is disposed of. */
  hold(id: string): Disposable {
    this.#holds.set(id, (this.#holds.get(id) ?? 0) + 1);
    return {
      [Symbol.dispose]: () => {
        const left = (this.#holds.get(id) ?? 0) - 1;
        if (left > 0) this.#holds.set(id, left);
        else this.#holds.delete(id);
      },
    };
  }

  /** Loads the rows of the store, within the budget. If they do not fit, every id is looked up until the window is over. */
  async load(now: Instant): Promise<void> {
    if (await this.#load(now, WHOLE_FAMILY)) this.#completeSince = 0 as Instant;
  }

  /** Begins without any rows: partitions are opened later. */
  begin(): void {
    this.#completeSince = 0 as Instant;
  }

  /** Call this before a partition of a shared store is served. Its ids are looked up until `loadOf` has loaded them. */
  opens(id: PartitionId, now: Instant): void {
    this.#partlyKnown.set(id, now);
  }

  /** Loads the rows of a partition that is served already, within the budget. */
  async loadOf(id: PartitionId, now: Instant): Promise<void> {
    const since = this.#partlyKnown.get(id);
    // It may have been opened once more meanwhile.
    if ((await this.#load(now, partitionRange(id))) && this.#partlyKnown.get(id) === since)
      this.#partlyKnown.delete(id);
  }

  /** True if all rows of the range are in memory now. */
  async #load(now: Instant, { gte: from, lt }: KeyRange): Promise<boolean> {
    const oldest = windowOf(now, this.#windowMs) - 1;
    let gte = from;
    // Start with small steps: a million rows may be too old, or too many for memory.
    let rows = 1;
    for (;;) {
      const range = { gte, lt };
      const step = await this.#store.scan(Family.requests, range, { rows, bytes: LARGEST_STEP_BYTES });
      const last = step.at(-1);
      if (last === undefined) break;
      for (const { key, value } of step) {
        const window = windowOfRequestKey(key);
        if (window < oldest) continue;
        const id = requestIdOfKey(key);
        const outcome = latin1Of(value);
        if (this.#bytes + costOf(id, outcome) > this.#budget / 2) return false;
        // The row does not tell the time within its window. Take the end, so that it is not forgotten too early.
        const at = Math.min(now, (window + 1) * this.#windowMs) as Instant;
        const known = this.#remembered.get(id);
        // While the partition is served, a request may have come since the rows were read.
        if (known === undefined || known.atom === 0 || known.at < at) this.#add(id, at, outcome, 0);
      }
      const isOld = windowOfRequestKey(last.key) < oldest;
      gte = isOld ? requestKey(partitionOfRequestKey(last.key), oldest, '') : (`${last.key}\0` as Key);
      rows = isOld ? 1 : Math.min(2 * rows, LARGEST_STEP_ROWS);
    }
    return true;
  }

  /**
   * Takes over the requests that arrived with a partition. `complete`: true if the store has no others of it. There may be
   * 100,000 and callers wait for the partition, so they are merged later, a few at a time. If memory has no room for them, not
   * counting outcomes, their ids are looked up in the store.
   */
  adopt(id: PartitionId, byId: ReadonlyMap<string, ArrivedRequest>, complete: boolean, now: Instant): void {
    const waiting = this.#arrived.reduce((sum, arrived) => sum + arrived.byId.size, byId.size);
    const hasRoom = waiting * OVERHEAD_BYTES <= this.#budget;
    if (hasRoom && byId.size > 0) this.#arrived.push({ byId, rest: byId.values() });
    this.#mergeArrived(MERGED_WITH_PARTITION);
    if (complete && hasRoom) this.#partlyKnown.delete(id);
    else this.#partlyKnown.set(id, now);
  }

  /** Deletes the rows of past windows. `only`: those of these partitions. Default: all rows of the store. */
  async trim(now: Instant, only?: Iterable<PartitionId>): Promise<void> {
    const window = windowOf(now, this.#windowMs);
    if (window <= this.#trimmedWindow) return;
    this.#trimmedWindow = window;
    for (const [id, since] of this.#partlyKnown) if (now - since > this.#windowMs) this.#partlyKnown.delete(id);
    if (only !== undefined) {
      for (const id of only) {
        const passed = { gte: partitionRange(id).gte, lt: requestKey(id, window - 1, '') };
        const [first] = await this.#store.scan(Family.requests, passed, { rows: 1, bytes: LARGEST_STEP_BYTES });
        if (first !== undefined) await this.#store.deleteRange(Family.requests, passed);
      }
      return;
    }
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

  #latest(id: string): Remembered | ArrivedRequest | undefined {
    let latest: Remembered | ArrivedRequest | undefined = this.#remembered.get(id);
    for (const { byId } of this.#arrived) {
      const arrived = byId.get(id);
      if (arrived && (latest === undefined || arrived.at > latest.at)) latest = arrived;
    }
    return latest;
  }

  #mergeArrived(most: number): void {
    for (let left = most; left > 0; left--) {
      const next = this.#arrived[0]?.rest.next();
      if (next === undefined) return;
      if (next.done) {
        this.#arrived.shift();
        continue;
      }
      const { id, at, outcome } = next.value;
      if (at > (this.#remembered.get(id)?.at ?? -1)) this.#add(id, at, outcome, 0);
    }
  }

  #add(id: string, at: Instant, outcome: string, atom: number): void {
    const known = this.#remembered.get(id);
    if (known) this.#bytes -= costOf(id, known.outcome);
    const remembered = { id, at, outcome, atom: Math.max(atom, known?.atom ?? 0) };
    this.#remembered.set(id, remembered);
    this.#oldest.push(remembered);
    this.#bytes += costOf(id, outcome);
    this.#forget(at);
  }

  #forget(now: Instant): void {
    for (let left = this.#oldest.size; left > 0; left--) {
      const oldest = this.#oldest.first;
      if (oldest === undefined) return;
      const { id, at, outcome, atom } = oldest;
      const expired = now - at > this.#windowMs;
      if (!expired && this.#bytes <= this.#budget) return;
      this.#oldest.shift();
      if (this.#remembered.get(id) !== oldest) continue;
      if (atom > this.#pending.applied || this.#holds.has(id)) {
        this.#oldest.push(oldest);
        continue;
      }
      this.#remembered.delete(id);
      this.#bytes -= costOf(id, outcome);
      const since = expired ? undefined : this.#forgotten.add(id, at);
      if (since !== undefined) this.#completeSince = Math.max(this.#completeSince, since) as Instant;
    }
  }
}

const costOf = (id: string, outcome: string): number => OVERHEAD_BYTES + id.length + outcome.length;
