import type { TaskMasterError } from './errors.ts';
import { LeaseExpired } from './errors.ts';
import type { Lease } from './lease.ts';
import { type KeptLease, Renewer } from './renewer.ts';
import type { Timing } from './timing.ts';
import type { Transport } from './transport.ts';

export interface LeaseKeeperParts {
  readonly transport: Transport;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

/** Keeps the leases of tasks that workers have in hand. */
export class LeaseKeeper {
  readonly #parts: LeaseKeeperParts;
  readonly #leases = new Map<number, Lease>();
  readonly #renewer: Renewer;
  #lastId = 0;

  constructor(parts: LeaseKeeperParts) {
    this.#parts = parts;
    this.#renewer = new Renewer({
      ...parts,
      onRenewed: (ids, sentAt) => this.#renewed(ids, sentAt),
      onRefused: (id, error) => this.#refused(id, error),
    });
  }

  /** Renews these leases until they are settled or lost, or `maxLeaseMs` from now have passed. */
  keep(leases: readonly Lease[], maxLeaseMs: number): void {
    const keepUntil = this.#parts.timing.now() + maxLeaseMs;
    this.#renewer.keep(leases.map((lease) => this.#enter(lease, keepUntil)));
  }

  /** Learns what the renewing thread has reported while this one was busy. */
  readonly catchUp = (): void => {};

  async close(): Promise<void> {
    this.#renewer.close();
    this.#leases.clear();
  }

  #enter(lease: Lease, keepUntil: number): KeptLease {
    const id = ++this.#lastId;
    this.#leases.set(id, lease);
    lease.onEnd(() => {
      this.#leases.delete(id);
      this.#renewer.forget([id]);
    });
    const { queue, pid, token, leaseMs, endsAt } = lease;
    return { id, queue, pid, token, leaseMs, endsAt, keepUntil };
  }

  #renewed(ids: readonly number[], sentAt: number): void {
    for (const id of ids) {
      const lease = this.#leases.get(id);
      lease?.renewed(sentAt, lease.leaseMs);
    }
  }

  #refused(id: number, error: TaskMasterError): void {
    const lease = this.#leases.get(id);
    if (lease === undefined) return;
    this.#leases.delete(id);
    // An expired lease can still be completed if nobody has leased the task since: the node decides that.
    if (error instanceof LeaseExpired) lease.expire(error);
    else lease.lose(error);
  }
}
