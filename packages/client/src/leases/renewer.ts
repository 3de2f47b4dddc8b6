import { methods, parseQueueName, type Renew, type RenewOutcome } from '@taskmaster/proto';
import { emptyRequest } from '../calls/update-request.ts';
import type { CancelTimer, Timing } from '../transport/timing.ts';
import type { Transport } from '../transport/transport.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { LeaseExpiredError, type TaskMasterError } from '../values/errors.ts';
import { type Pid, pidText } from '../values/pid.ts';
import { backoffBound } from '../values/retry.ts';

/** A lease to renew. Times are on the client's clock, in ms. */
export interface KeptLease {
  /** Unique in one renewer, and never reused. */
  readonly id: number;
  readonly queue: string;
  readonly pid: Pid;
  readonly token: number;
  readonly leaseDurationMs: number;
  /** Earliest end of the lease when it was handed over. */
  readonly endsAt: number;
  /** The lease is not renewed after this time. */
  readonly keepUntil: number;
  /** No renewal extends the lease beyond this time. */
  readonly limitAt: number;
}

export interface RenewerParts {
  readonly transport: Pick<Transport, 'unary'>;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** Called after a renewal that was sent at `sentAt`. Each lease lasts for `leaseDurationMs` from then, or until `limitAt`. */
  readonly onRenewed: (ids: readonly number[], sentAt: number) => void;
  /** Called when a renewal says that the task was cancelled. It is renewed on. */
  readonly onCancelled: (id: number, reason: string) => void;
  /**
   * Called when the node has refused a renewal, or when a lease has ended after its `keepUntil` or at its `limitAt`. It is not
   * renewed again.
   */
  readonly onRefused: (id: number, error: TaskMasterError) => void;
}

interface Entry {
  readonly lease: KeptLease;
  readonly group: string;
  endsAt: number;
  dueAt: number;
  failures: number;
  renewing: boolean;
}

/** Part of the lease duration after which a lease is renewed. Two more attempts fit before it ends. */
const RENEW_AT = 1 / 3;
/** Leases due within this part of their duration are renewed too, so that batches are large and timers are few. */
const JOIN_WITHIN = 1 / 12;
/** Largest number of renewals in one request. After a refusal of one, the others are repeated. */
const BATCH = 500;
const RETRY_INITIAL_MS = 50;
const MAX_TIMEOUT_MS = 10_000;

/** Renews leases in batches, until they are forgotten or refused, or their `keepUntil` has passed. */
export class Renewer {
  readonly #parts: RenewerParts;
  readonly #entries = new Map<number, Entry>();
  #cancelTimer: CancelTimer | undefined;
  #wakeAt = Number.POSITIVE_INFINITY;

  constructor(parts: RenewerParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#entries.size;
  }

  keep(leases: readonly KeptLease[]): void {
    for (const lease of leases) {
      const { group } = parseQueueName(lease.queue);
      const { endsAt } = lease;
      const dueAt = isFinal(lease, endsAt) ? endsAt : endsAt - lease.leaseDurationMs * (1 - RENEW_AT);
      this.#entries.set(lease.id, { lease, group, endsAt, dueAt, failures: 0, renewing: false });
      this.#wakeBy(dueAt);
    }
  }

  forget(id: number): void {
    this.#entries.delete(id);
  }

  /** Renews no more. It does not wait for requests in flight. */
  close(): void {
    this.#entries.clear();
    this.#cancelTimer?.();
  }

  #wakeBy(instant: number): void {
    if (instant >= this.#wakeAt) return;
    this.#cancelTimer?.();
    this.#wakeAt = instant;
    this.#cancelTimer = this.#parts.timing.after(Math.max(0, instant - this.#parts.timing.now()), () => {
      this.#wakeAt = Number.POSITIVE_INFINITY;
      this.#renewDue();
    });
  }

  #renewDue(): void {
    const now = this.#parts.timing.now();
    const byGroup = new Map<string, Entry[]>();
    let nextDue = Number.POSITIVE_INFINITY;
    for (const entry of this.#entries.values()) {
      if (entry.renewing) continue;
      const { lease, group } = entry;
      if (now >= lease.keepUntil || isFinal(lease, Math.max(now, entry.endsAt))) {
        if (now >= entry.endsAt) this.#refuse(entry, keptLongEnough(lease));
        else nextDue = Math.min(nextDue, entry.endsAt);
      } else if (entry.dueAt > now + lease.leaseDurationMs * JOIN_WITHIN) {
        nextDue = Math.min(nextDue, entry.dueAt);
      } else {
        const batch = byGroup.get(group);
        if (batch === undefined) byGroup.set(group, [entry]);
        else batch.push(entry);
      }
    }
    for (const entries of byGroup.values()) {
      for (let at = 0; at < entries.length; at += BATCH) void this.#renew(entries.slice(at, at + BATCH));
    }
    this.#wakeBy(nextDue);
  }

  /** Never rejects. */
  async #renew(entries: readonly Entry[]): Promise<void> {
    const { transport, timing, onRenewed, onCancelled } = this.#parts;
    for (const entry of entries) entry.renewing = true;
    const sentAt = timing.now();
    let failure: TaskMasterError | undefined;
    let outcomes: readonly RenewOutcome[] = [];
    try {
      ({ renewed: outcomes } = await transport.unary(
        methods.updateTasks,
        { ...emptyRequest(), renew: entries.map(renewal) },
        { timeoutMs: timeoutOf(entries) },
      ));
    } catch (thrown) {
      failure = asTaskMasterError(thrown);
    }
    // Before `#afterFailure`, which may renew some of them again.
    for (const entry of entries) entry.renewing = false;
    if (failure !== undefined) {
      this.#afterFailure(entries, failure);
      return;
    }
    const renewed: number[] = [];
    for (const entry of entries) {
      const { id, leaseDurationMs, limitAt } = entry.lease;
      entry.endsAt = Math.min(sentAt + leaseDurationMs, limitAt);
      entry.dueAt = isFinal(entry.lease, entry.endsAt) ? entry.endsAt : sentAt + leaseDurationMs * RENEW_AT;
      entry.failures = 0;
      if (!this.#entries.has(id)) continue;
      renewed.push(id);
      this.#wakeBy(entry.dueAt);
    }
    if (renewed.length > 0) onRenewed(renewed, sentAt);
    for (const [index, { lease }] of entries.entries()) {
      const { cancelReason } = outcomes[index] ?? {};
      if (cancelReason !== undefined && this.#entries.has(lease.id)) onCancelled(lease.id, cancelReason);
    }
  }

  /** An update is applied completely or not at all, so one lost lease refuses the renewals of all others too. */
  #afterFailure(entries: readonly Entry[], error: TaskMasterError): void {
    const atFault = new Set(error.items.filter(({ kind }) => kind === 'renew').map(({ index }) => index));
    if (atFault.size > 0) {
      const rest: Entry[] = [];
      entries.forEach((entry, index) => {
        if (atFault.has(index)) this.#refuse(entry, error);
        else if (this.#entries.has(entry.lease.id)) rest.push(entry);
      });
      if (rest.length > 0) void this.#renew(rest);
    } else if (error.retryable || error.maybeApplied) {
      this.#postpone(entries, error);
    } else if (entries.length > 1) {
      // The refusal names no lease. Two halves find it, and renew the others.
      const half = Math.ceil(entries.length / 2);
      void this.#renew(entries.slice(0, half));
      void this.#renew(entries.slice(half));
    } else {
      for (const entry of entries) this.#refuse(entry, error);
    }
  }

  #refuse({ lease }: Entry, error: TaskMasterError): void {
    if (this.#entries.delete(lease.id)) this.#parts.onRefused(lease.id, error);
  }

  #postpone(entries: readonly Entry[], error: TaskMasterError): void {
    const { timing, random } = this.#parts;
    const now = timing.now();
    for (const entry of entries) {
      if (!this.#entries.has(entry.lease.id)) continue;
      entry.failures++;
      const bound = backoffBound(entry.failures, RETRY_INITIAL_MS, entry.lease.leaseDurationMs / 6);
      // Repeat also after the end, because the end at the node may be later. Only the node's refusal ends the lease.
      entry.dueAt = now + (error.retryDelayMs ?? 0) + bound * (0.5 + random() / 2);
      this.#wakeBy(entry.dueAt);
    }
  }
}

/** Whether a lease that ends then cannot be extended any more. */
const isFinal = ({ limitAt }: KeptLease, endsAt: number): boolean => endsAt >= limitAt;

function keptLongEnough({ queue, pid }: KeptLease): LeaseExpiredError {
  return new LeaseExpiredError(
    `the lease on task ${pidText(pid)} of ${queue} was renewed for the longest time allowed`,
    {
      reason: 'LEASE_EXPIRED',
      metadata: { queue },
    },
  );
}

function renewal({ lease }: Entry): Renew {
  const { queue, pid, token, leaseDurationMs } = lease;
  return { queue, pid, leaseToken: token, leaseDurationMs, progress: undefined };
}

/** Timeout of a renewal, in ms. After an attempt without an answer there is time for another one. */
function timeoutOf(entries: readonly Entry[]): number {
  return entries.reduce((least, { lease }) => Math.min(least, lease.leaseDurationMs * RENEW_AT), MAX_TIMEOUT_MS);
}
