import { parseQueueName, type Renew } from '@taskmaster/proto';
import { emptyRequest } from '../calls/update-request.ts';
import type { CancelTimer, Timing } from '../transport/timing.ts';
import type { Transport } from '../transport/transport.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { LeaseExpiredError, type TaskMasterError } from '../values/errors.ts';
import { type Pid, pidText } from '../values/pid.ts';
import { backoffBound } from '../values/retry.ts';

/** A lease to be kept alive. Instants are on the client's clock, in ms. */
export interface KeptLease {
  /** Unique within one renewer, never reused. */
  readonly id: number;
  readonly queue: string;
  readonly pid: Pid;
  readonly token: number;
  readonly leaseMs: number;
  /** Earliest end, as known when it was handed over. */
  readonly endsAt: number;
  /** Renewed no more after this. */
  readonly keepUntil: number;
}

export interface RenewerParts {
  readonly transport: Pick<Transport, 'updateTasks'>;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** These leases were renewed by a request sent at `sentAt`; each lasts for its `leaseMs` from then. */
  readonly onRenewed: (ids: readonly number[], sentAt: number) => void;
  /** The node refused to renew the lease, or it ended after it had been kept for long enough; it is renewed no more. */
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

/** A lease is renewed when a third of it has passed: two more attempts fit before it ends. */
const RENEW_AT = 1 / 3;
/** Renewals due within this part of the lease from now go along, so that batches are large and wake-ups few. */
const JOIN_WITHIN = 1 / 12;
/** Most renewals in one request: a refusal for one of them repeats the rest. */
const BATCH = 500;
const RETRY_INITIAL_MS = 50;
const MAX_TIMEOUT_MS = 10_000;

/** Keeps leases alive by renewing them in batches, until they are forgotten, refused, or kept for long enough. */
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
      const dueAt = lease.endsAt - lease.leaseMs * (1 - RENEW_AT);
      this.#entries.set(lease.id, { lease, group, endsAt: lease.endsAt, dueAt, failures: 0, renewing: false });
      this.#wakeBy(dueAt);
    }
  }

  forget(id: number): void {
    this.#entries.delete(id);
  }

  /** Renews no more. Requests under way are left to themselves. */
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
      if (now >= lease.keepUntil) {
        if (now >= entry.endsAt) this.#refuse(entry, keptLongEnough(lease));
        else nextDue = Math.min(nextDue, entry.endsAt);
      } else if (entry.dueAt > now + lease.leaseMs * JOIN_WITHIN) {
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
    const { transport, timing, onRenewed } = this.#parts;
    for (const entry of entries) entry.renewing = true;
    const sentAt = timing.now();
    let failure: TaskMasterError | undefined;
    try {
      await transport.updateTasks(
        { ...emptyRequest(), renew: entries.map(renewal) },
        { timeoutMs: timeoutOf(entries) },
      );
    } catch (thrown) {
      failure = asTaskMasterError(thrown);
    }
    // Before the failure is dealt with: what that sends again is being renewed again.
    for (const entry of entries) entry.renewing = false;
    if (failure !== undefined) {
      this.#afterFailure(entries, failure);
      return;
    }
    const renewed: number[] = [];
    for (const entry of entries) {
      const { id, leaseMs } = entry.lease;
      entry.endsAt = sentAt + leaseMs;
      entry.dueAt = sentAt + leaseMs * RENEW_AT;
      entry.failures = 0;
      if (!this.#entries.has(id)) continue;
      renewed.push(id);
      this.#wakeBy(entry.dueAt);
    }
    if (renewed.length > 0) onRenewed(renewed, sentAt);
  }

  /** An update is applied entirely or not at all, so one lost lease refuses the renewals of all others with it. */
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
      // Refused as a whole without naming anyone: halving finds who it was, and renews the others.
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
      const bound = backoffBound(entry.failures, RETRY_INITIAL_MS, entry.lease.leaseMs / 6);
      // Retried beyond the end too: ours may be earlier than the node's. The node's refusal is what ends it.
      entry.dueAt = now + (error.retryDelayMs ?? 0) + bound * (0.5 + random() / 2);
      this.#wakeBy(entry.dueAt);
    }
  }
}

function keptLongEnough({ queue, pid }: KeptLease): LeaseExpiredError {
  return new LeaseExpiredError(`the lease on task ${pidText(pid)} of ${queue} was renewed for as long as is allowed`, {
    reason: 'LEASE_EXPIRED',
    metadata: { queue },
  });
}

function renewal({ lease }: Entry): Renew {
  return { queue: lease.queue, pid: lease.pid, leaseToken: lease.token, leaseDurationMs: lease.leaseMs };
}

/** So that an attempt that gets no answer leaves time for another one. */
function timeoutOf(entries: readonly Entry[]): number {
  return entries.reduce((least, { lease }) => Math.min(least, lease.leaseMs * RENEW_AT), MAX_TIMEOUT_MS);
}
