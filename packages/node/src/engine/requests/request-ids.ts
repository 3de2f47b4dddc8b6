import { Deque } from '@js-sdsl/deque';
import { type Instant, type Key, latin1Of, type PartitionId } from '@taskmaster/server/domain';
import type { RecordedRequest } from '../../domain/atom.ts';
import { takeFirst } from '../../domain/deques.ts';
import {
  partitionOfRequestKey,
  partitionRange,
  requestIdOfKey,
  requestKey,
  windowOfRequestKey,
} from '../../domain/keys.ts';
import { windowOf } from '../../log/atom-rows.ts';
import { WHOLE_FAMILY } from '../../log/scan-all.ts';
import { Family, type Store } from '../../ports/store.ts';
import type { EngineConfig } from '../config.ts';
import { ForgottenIds } from './forgotten-ids.ts';

interface Remembered {
  readonly id: string;
  readonly at: Instant;
  readonly outcome: string;
  /** Commits of it that the store may not show yet (I2). */
  unapplied: number;
}

/** A request that came with a partition. */
export interface ArrivedRequest extends RecordedRequest {
  readonly at: Instant;
}

/** What is known of a request id; `unknown` means that the store must be asked. */
export type RequestKnowledge =
  | { readonly kind: 'seen'; readonly outcome: string }
  | { readonly kind: 'new' }
  | { readonly kind: 'unknown' };

const NEW: RequestKnowledge = { kind: 'new' };
const UNKNOWN: RequestKnowledge = { kind: 'unknown' };

const LARGEST_STEP_ROWS = 1024;
const LARGEST_STEP_BYTES = 4 * 1024 * 1024;

/** Of those that came with partitions so many are merged with each partition that comes, */
const MERGED_WITH_PARTITION = 500;
/** and so many with each request that is remembered. */
const MERGED_WITH_REQUEST = 16;

/** Memory of a remembered id beside its outcome. Measured on Node 24. */
const OVERHEAD_BYTES = 250;

/**
 * The outcomes of recent requests. Each is a row, committed with the atom it is the outcome of; memory holds as many as
 * its budget allows, and knows which others there may be and since when it knows that. Ids begin with the name of their
 * group, so that no two partitions have the same.
 *
 *  I1  Every id recorded since `completeSince` is in memory or among the forgotten ones.
 *  I2  An id is in memory while the store may not show it, and while a request with it is under way: whoever found it
 *      neither in memory nor in the store can trust that until it commits, if it looks into memory once more.
 */
export class RequestIds {
  readonly #store: Store;
  readonly #windowMs: number;
  readonly #budget: number;
  readonly #remembered = new Map<string, Remembered>();
  /**
   * What to forget first. Beside the map, because to walk a map from its front steps over all that were deleted there.
   * What was remembered again is in it twice; the earlier does not count.
   */
  readonly #oldest = new Deque<Remembered | undefined>();
  /** By id, what came with partitions and is not in `remembered` yet, or only an earlier one; `rest` is still to be merged. */
  readonly #arrived: { readonly byId: ReadonlyMap<string, ArrivedRequest>; readonly rest: Iterator<ArrivedRequest> }[] =
    [];
  /** By id, how many requests under way keep it from being forgotten (I2). */
  readonly #holds = new Map<string, number>();
  readonly #forgotten: ForgottenIds;
  #completeSince: Instant;
  #bytes = 0;
  #trimmedWindow = 0;

  constructor(store: Store, config: EngineConfig, now: Instant) {
    this.#store = store;
    this.#windowMs = config.requestIdWindowMs;
    this.#budget = config.requestIdBytes;
    this.#forgotten = new ForgottenIds(config.requestIdWindowMs);
    this.#completeSince = now;
  }

  lookUp(id: string, now: Instant): RequestKnowledge {
    const known = this.#latest(id);
    if (known && now - known.at <= this.#windowMs) return { kind: 'seen', outcome: known.outcome };
    const isNew = now - this.#completeSince > this.#windowMs && !this.#forgotten.mayHave(id, now);
    return isNew ? NEW : UNKNOWN;
  }

  /** Asks the store: the windows that the retry window can reach into. */
  async read(partition: PartitionId, id: string, now: Instant): Promise<RequestKnowledge> {
    const window = windowOf(now, this.#windowMs);
    // The next one too: instants that came with a partition may be a little ahead.
    const keys = [window, window - 1, window + 1].map((each) => requestKey(partition, each, id));
    const rows = await this.#store.get(Family.requests, keys);
    const outcome = rows.find((row) => row !== undefined);
    return outcome ? { kind: 'seen', outcome: latin1Of(outcome) } : NEW;
  }

  /** Of a request that is about to be committed; `applied` must follow. */
  remember(id: string, at: Instant, outcome: string): void {
    this.#add(id, at, outcome, 1);
    this.#mergeArrived(MERGED_WITH_REQUEST);
  }

  /** The store shows the request from now on. */
  applied(id: string): void {
    const known = this.#remembered.get(id);
    if (known && known.unapplied > 0) known.unapplied--;
  }

  /** For a request under way: until disposed of, the outcome of another request with its id stays in memory. */
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
        const outcome = latin1Of(value);
        if (this.#bytes + costOf(id, outcome) > this.#budget / 2) return;
        // The row does not say when within its window: the end of it, so that it is not forgotten too early.
        const at = Math.min(now, (window + 1) * this.#windowMs) as Instant;
        this.#add(id, at, outcome, 0);
      }
      const isOld = windowOfRequestKey(last.key) < oldest;
      gte = isOld ? requestKey(partitionOfRequestKey(last.key), oldest, '') : (`${last.key}\0` as Key);
      rows = isOld ? 1 : Math.min(2 * rows, LARGEST_STEP_ROWS);
    }
    this.#completeSince = 0 as Instant;
  }

  /**
   * Takes over what came with a partition; `complete` says whether that is everything the store has of it. Callers wait
   * for the partition: there may be 100,000 of them, so they are merged later, a few at a time. As many wait for that as
   * there is room for, not counting outcomes; of others the store is asked.
   */
  adopt(byId: ReadonlyMap<string, ArrivedRequest>, complete: boolean, now: Instant): void {
    const waiting = this.#arrived.reduce((sum, arrived) => sum + arrived.byId.size, byId.size);
    const hasRoom = waiting * OVERHEAD_BYTES <= this.#budget;
    if (hasRoom && byId.size > 0) this.#arrived.push({ byId, rest: byId.values() });
    this.#mergeArrived(MERGED_WITH_PARTITION);
    if (!complete || !hasRoom) this.#completeSince = now;
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

  #add(id: string, at: Instant, outcome: string, unapplied: number): void {
    const known = this.#remembered.get(id);
    if (known) this.#bytes -= costOf(id, known.outcome);
    const remembered = { id, at, outcome, unapplied: unapplied + (known?.unapplied ?? 0) };
    this.#remembered.set(id, remembered);
    this.#oldest.pushBack(remembered);
    this.#bytes += costOf(id, outcome);
    this.#forget(at);
  }

  #forget(now: Instant): void {
    for (let left = this.#oldest.size(); left > 0; left--) {
      const oldest = this.#oldest.front();
      if (oldest === undefined) return;
      const { id, at, outcome, unapplied } = oldest;
      const expired = now - at > this.#windowMs;
      if (!expired && this.#bytes <= this.#budget) return;
      takeFirst(this.#oldest);
      if (this.#remembered.get(id) !== oldest) continue;
      if (unapplied > 0 || this.#holds.has(id)) {
        this.#oldest.pushBack(oldest);
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
