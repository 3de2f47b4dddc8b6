import type { Timing } from '../transport/timing.ts';
import type { Transport } from '../transport/transport.ts';
import { LeaseExpiredError, type TaskMasterError } from '../values/errors.ts';
import { messageOf } from '../values/thrown.ts';
import { warn } from '../values/warnings.ts';
import type { Lease } from './lease.ts';
import { type KeptLease, Renewer } from './renewer.ts';
import { ThreadedRenewer } from './threaded-renewer.ts';

export interface LeaseKeeperParts {
  readonly transport: Transport;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

type Renewing =
  | { readonly kind: 'threaded'; readonly renewer: ThreadedRenewer }
  /** For an engine in this process, for credentials that cannot be sent to a thread, and without a thread that runs. */
  | { readonly kind: 'local'; readonly renewer: Renewer };

/** `idle`: no lease was kept yet. */
type KeeperState = Renewing | { readonly kind: 'idle' } | { readonly kind: 'closed' };

/** Renews the leases of tasks of all workers of a client. */
export class LeaseKeeper {
  readonly #parts: LeaseKeeperParts;
  readonly #kept = new Map<number, Lease>();
  #state: KeeperState = { kind: 'idle' };
  #lastId = 0;

  constructor(parts: LeaseKeeperParts) {
    this.#parts = parts;
  }

  /** Renews these leases until they end or are let go, but not for longer than `maxLeaseMs` from now. */
  keep(leases: readonly Lease[], maxLeaseMs: number): void {
    const held = leases.filter((lease) => lease.isHeld);
    if (held.length === 0) return;
    const state = this.#state.kind === 'idle' ? this.#begin() : this.#state;
    if (state.kind === 'closed') return;
    this.#state = state;
    const keepUntil = this.#parts.timing.now() + maxLeaseMs;
    for (const lease of held) lease.keepUntil = keepUntil;
    state.renewer.keep(held.map((lease) => this.#enter(lease)));
  }

  /** Processes reports of the thread that the event loop has not delivered yet. */
  readonly catchUp = (): void => {
    if (this.#state.kind === 'threaded') this.#state.renewer.catchUp();
  };

  async close(): Promise<void> {
    const state = this.#state;
    this.#state = { kind: 'closed' };
    this.#kept.clear();
    if (state.kind === 'threaded' || state.kind === 'local') await state.renewer.close();
  }

  #begin(): Renewing {
    const { reachableFrom } = this.#parts.transport;
    if (reachableFrom === undefined) return this.#beginLocal();
    try {
      const renewer = new ThreadedRenewer({
        reachable: reachableFrom,
        onRenewed: (ids, sentAt) => this.#renewed(ids, sentAt),
        onCancelled: (id, reason) => this.#kept.get(id)?.cancel(reason),
        onRefused: (id, error) => this.#refused(id, error),
        onDied: (error) => this.#replaceThread(error),
      });
      return { kind: 'threaded', renewer };
    } catch (error) {
      // Node.js starts no threads here, for example with --permission.
      warnOfLocal(error);
      return this.#beginLocal();
    }
  }

  #beginLocal(): Renewing {
    const renewer = new Renewer({
      ...this.#parts,
      onRenewed: (ids, sentAt) => this.#renewed(ids, sentAt),
      onCancelled: (id, reason) => this.#kept.get(id)?.cancel(reason),
      onRefused: (id, error) => this.#refused(id, error),
    });
    return { kind: 'local', renewer };
  }

  /** Renews on this thread after the other thread has died. This works as long as handlers do not block. */
  #replaceThread(error: unknown): void {
    if (this.#state.kind === 'closed') return;
    warnOfLocal(error);
    const local = this.#beginLocal();
    this.#state = local;
    local.renewer.keep([...this.#kept].map(([id, lease]) => keptLease(id, lease)));
  }

  #enter(lease: Lease): KeptLease {
    const id = ++this.#lastId;
    this.#kept.set(id, lease);
    lease.onEnd(() => this.#forget(id));
    return keptLease(id, lease);
  }

  #forget(id: number): void {
    if (!this.#kept.delete(id)) return;
    if (this.#state.kind === 'threaded' || this.#state.kind === 'local') this.#state.renewer.forget(id);
  }

  #renewed(ids: readonly number[], sentAt: number): void {
    for (const id of ids) {
      const lease = this.#kept.get(id);
      lease?.renewed(sentAt, lease.leaseDurationMs);
    }
  }

  #refused(id: number, error: TaskMasterError): void {
    const lease = this.#kept.get(id);
    if (lease === undefined) return;
    this.#kept.delete(id);
    // A task with an expired lease can still be completed if no worker has leased it since. The node decides.
    if (error instanceof LeaseExpiredError) lease.expire(error);
    else lease.lose(error);
  }
}

function keptLease(id: number, lease: Lease): KeptLease {
  const { queue, pid, token, leaseDurationMs, endsAt, keepUntil, limitAt } = lease;
  return { id, queue, pid, token, leaseDurationMs, endsAt, keepUntil, limitAt };
}

function warnOfLocal(error: unknown): void {
  warn(
    'TASKMASTER_NO_RENEWAL_THREAD',
    `no thread renews leases (${messageOf(error)}), so the main thread does: a handler that blocks the event loop for longer than its lease ` +
      'loses its task. Give a bundle the thread as an entry, give Node.js --allow-worker, or accept it with renewalThread: false',
  );
}
