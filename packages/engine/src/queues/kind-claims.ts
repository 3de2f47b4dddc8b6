import { limits } from '@taskmaster/proto';
import type { Instant } from '../domain/ids.ts';
import type { KindFilter } from '../domain/kind-filter.ts';
import type { KindCounts } from '../log/queue-ledger.ts';

type Kinds = ReadonlyMap<string, KindCounts>;

/**
 * Since when no lease request of a queue has accepted a kind. It is in memory only, and begins anew when the node begins to serve
 * the group. So a kind is told from one that its workers have just not asked for yet.
 */
export class KindClaims {
  /** The last request that accepts all kinds, or the begin. */
  #all: Instant;
  /** By kind: the last request that names it, or the begin of its available tasks. */
  readonly #of = new Map<string, Instant>();

  constructor(now: Instant) {
    this.#all = now;
  }

  /** Tasks of the kind are available that were not before. */
  began(kind: string, now: Instant): void {
    this.#of.set(kind, now);
  }

  /** A lease request came. `accepted` undefined: it accepts all tasks. */
  asked(accepted: KindFilter | undefined, kinds: Kinds | undefined, now: Instant): void {
    if (accepted === undefined) this.#all = now;
    else if (kinds !== undefined) for (const kind of accepted.among(kinds)) this.#of.set(kind, now);
  }

  /** The queue has no tasks of the kind any more. */
  ended(kind: string): void {
    this.#of.delete(kind);
  }

  /** Undefined: a request has accepted the kind not long ago, or a worker has one of its tasks. */
  unclaimedSince(kind: string, { available, leased }: KindCounts, now: Instant): Instant | undefined {
    if (available === 0 || leased > 0) return undefined;
    const at = Math.max(this.#all, this.#of.get(kind) ?? 0) as Instant;
    return now - at < limits.unclaimedMs ? undefined : at;
  }
}
