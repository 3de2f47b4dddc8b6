import { Refusal } from '@taskmaster/engine/domain';

/** Quotas of a principal at one node or proxy. An undefined one is not limited. */
export interface PrincipalLimits {
  /** Open connections. */
  readonly connections?: number | undefined;
  /** Calls, and items of batches and streams, each second. A burst may have those of one second. */
  readonly requestsPerSecond?: number | undefined;
  /** Size of the requests that are being served, in bytes. */
  readonly bytesInFlight?: number | undefined;
  /** Calls that wait for tasks. Each lease of a batch counts. */
  readonly waiters?: number | undefined;
}

export const principalQuotas = ['connections', 'requestsPerSecond', 'bytesInFlight', 'waiters'] as const;
export type PrincipalQuota = (typeof principalQuotas)[number];

/** Advice for callers at a quota that other calls of theirs free again, in ms. */
const RETRY_MS = 1_000;
const SECOND_MS = 1_000;

/**
 * What a principal uses at this node or proxy. It stays when the rules change, with the new limits, because calls that have begun
 * end later.
 */
export class PrincipalUsage {
  readonly principal: string;
  limits: PrincipalLimits;
  readonly #now: () => number;
  readonly #connections = new Set<string>();
  #bytes = 0;
  #waiters = 0;
  /** Requests that may begin at once, as of `#filledAt`. */
  #tokens: number;
  #filledAt: number;
  readonly #refused = new Map<PrincipalQuota, number>();

  /** `now`: in ms, of any clock that does not go back. */
  constructor(principal: string, limits: PrincipalLimits, now: () => number) {
    this.principal = principal;
    this.limits = limits;
    this.#now = now;
    this.#tokens = burstOf(limits);
    this.#filledAt = now();
  }

  /** What the principal uses of a quota. Connections count only while they are limited. */
  used(quota: PrincipalQuota): number {
    if (quota === 'connections') return this.#connections.size;
    if (quota === 'bytesInFlight') return this.#bytes;
    if (quota === 'waiters') return this.#waiters;
    this.#fill();
    return Math.max(0, burstOf(this.limits) - this.#tokens);
  }

  /** Number of refusals because of a quota. */
  refused(quota: PrincipalQuota): number {
    return this.#refused.get(quota) ?? 0;
  }

  /** Counts a connection once. Throws a `Refusal` QUOTA_EXCEEDED. */
  connect(connection: string): void {
    const { connections: limit } = this.limits;
    if (limit === undefined || this.#connections.has(connection)) return;
    if (this.#connections.size >= limit) throw this.#beyond('connections', limit);
    this.#connections.add(connection);
  }

  /** Call this when a connection is closed. */
  disconnected(connection: string): void {
    this.#connections.delete(connection);
  }

  /** Counts a request that begins. Throws a `Refusal` QUOTA_EXCEEDED. */
  request(): void {
    const { requestsPerSecond: limit } = this.limits;
    if (limit === undefined) return;
    this.#fill();
    if (this.#tokens < 1) {
      throw this.#beyond('requestsPerSecond', limit, Math.ceil(((1 - this.#tokens) * SECOND_MS) / limit));
    }
    this.#tokens--;
  }

  /** Counts the further items of a batch whose call has begun. If they exceed a burst, later requests wait longer. */
  alsoRequests(count: number): void {
    if (this.limits.requestsPerSecond !== undefined) this.#tokens -= count;
  }

  /** Counts a request of this size until `end`. Throws a `Refusal` QUOTA_EXCEEDED. One request is served whatever its size is. */
  begin(bytes: number): void {
    const { bytesInFlight: limit } = this.limits;
    if (limit !== undefined && this.#bytes > 0 && this.#bytes + bytes > limit) {
      throw this.#beyond('bytesInFlight', limit);
    }
    this.request();
    this.#bytes += bytes;
  }

  end(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Counts a wait until `endWaiting`. Throws a `Refusal` QUOTA_EXCEEDED. */
  beginWaiting(): void {
    const { waiters: limit } = this.limits;
    if (limit !== undefined && this.#waiters >= limit) throw this.#beyond('waiters', limit);
    this.#waiters++;
  }

  endWaiting(waits = 1): void {
    this.#waiters -= waits;
  }

  #fill(): void {
    const now = this.#now();
    const { requestsPerSecond = 0 } = this.limits;
    const gained = ((now - this.#filledAt) * requestsPerSecond) / SECOND_MS;
    this.#tokens = Math.min(burstOf(this.limits), this.#tokens + gained);
    this.#filledAt = now;
  }

  #beyond(quota: PrincipalQuota, limit: number, retryDelayMs: number = RETRY_MS): Refusal {
    this.#refused.set(quota, this.refused(quota) + 1);
    return new Refusal('QUOTA_EXCEEDED', `${this.principal} has reached its quota of ${limit} ${quota}`, {
      retryDelayMs,
      metadata: { quota, limit: String(limit), principal: this.principal },
    });
  }
}

/** At least one request, for limits below one in a second. */
const burstOf = ({ requestsPerSecond = 0 }: PrincipalLimits): number => Math.max(1, requestsPerSecond);
