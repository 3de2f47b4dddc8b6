import { type CancelTimer, MAX_TIMER_MS, type Timing } from '../transport/timing.ts';
import { LeaseExpiredError, type TaskMasterError } from '../values/errors.ts';
import { type Pid, pidText } from '../values/pid.ts';

/** Where a leased task keeps its lease; not for callers of the library. */
export const LEASE = Symbol('taskmaster.lease');

/** A task that can be completed, renewed and released. */
export interface Leased {
  readonly [LEASE]: Lease;
}

/** What a lease is of, and since when. */
export interface LeaseTerms {
  /** `group#name`. */
  readonly queue: string;
  readonly pid: Pid;
  /** Fencing token. */
  readonly token: number;
  readonly leaseMs: number;
  /** Earliest moment it can have begun, on the client's clock. */
  readonly from: number;
}

type LeaseState =
  | { readonly kind: 'held' }
  /** An update that ends the lease is under way; its answer decides. */
  | { readonly kind: 'settling'; readonly lost: TaskMasterError | undefined }
  | { readonly kind: 'settled'; readonly how: 'completed' | 'released' }
  | { readonly kind: 'lost'; readonly error: TaskMasterError };

const HELD: LeaseState = { kind: 'held' };

/**
 * One worker's claim of one task, as far as the worker knows.
 *  L1  `endsAt` is never later than the node's end of the lease: it counts from when the request left.
 *  L2  Passing `endsAt` aborts the signal and nothing else: a worker slightly late may still complete, the node decides.
 *  L3  Once the node has said that the lease is lost, nothing more is sent for it.
 */
export class Lease {
  readonly queue: string;
  readonly pid: Pid;
  readonly token: number;
  readonly leaseMs: number;
  readonly #timing: Timing;
  /** Learns of renewals made by another thread while this one was busy. */
  readonly #catchUp: () => void;
  #endsAt: number;
  /** When the renewal that `#endsAt` counts from was sent. */
  #countsFrom: number;
  #state: LeaseState = HELD;
  #abort: AbortController | undefined;
  #cancelTimer: CancelTimer | undefined;
  #onEnd: (() => void) | undefined;
  #onLost: ((error: TaskMasterError) => void) | undefined;

  constructor(terms: LeaseTerms, timing: Timing, catchUp: () => void) {
    this.queue = terms.queue;
    this.pid = terms.pid;
    this.token = terms.token;
    this.leaseMs = terms.leaseMs;
    this.#endsAt = terms.from + terms.leaseMs;
    this.#countsFrom = terms.from;
    this.#timing = timing;
    this.#catchUp = catchUp;
  }

  /** On the client's clock, in ms. */
  get endsAt(): number {
    return this.#endsAt;
  }

  get isHeld(): boolean {
    return this.#state.kind === 'held';
  }

  /** Why the lease is lost; undefined when it is not known to be. */
  get lostTo(): TaskMasterError | undefined {
    return this.#state.kind === 'lost' ? this.#state.error : undefined;
  }

  /** Aborted when the lease is lost or has run out. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#state.kind === 'lost') this.#abort.abort(this.#state.error);
      else if (this.#state.kind !== 'settled') this.#watchEnd();
    }
    return this.#abort.signal;
  }

  /** Called once, when the lease needs no more renewals: it was completed, released, lost or let go. */
  onEnd(callback: () => void): void {
    this.#onEnd = callback;
  }

  /** Called once, when the lease is lost or is known to have run out. */
  onLost(callback: (error: TaskMasterError) => void): void {
    this.#onLost = callback;
  }

  /**
   * An update that ends the lease is about to be sent.
   * @throws the error that says why the lease is lost; TypeError when it was ended, or is being ended, already.
   */
  beginSettling(): void {
    this.assertHeld();
    this.#state = { kind: 'settling', lost: undefined };
  }

  /** The update that ends the lease did not come about. */
  stopSettling(): void {
    if (this.#state.kind !== 'settling') return;
    const { lost } = this.#state;
    this.#state = HELD;
    if (lost !== undefined) this.lose(lost);
  }

  settle(how: 'completed' | 'released'): void {
    this.#state = { kind: 'settled', how };
    this.#end();
  }

  /** The node refused: the lease is somebody else's, or the task is gone. */
  lose(error: TaskMasterError): void {
    if (this.#state.kind === 'settling') {
      this.#state = { kind: 'settling', lost: error };
    } else if (this.#state.kind === 'held') {
      this.#state = { kind: 'lost', error };
      this.#end();
      this.#reportLost(error);
    }
  }

  /** It ran out, which does not end it: if nobody has leased the task since, it can still be completed. */
  expire(error: TaskMasterError = this.#expired()): void {
    if (this.#state.kind === 'held') this.#reportLost(error);
  }

  /** Tells whoever works on the task to stop, and has the lease renewed no more. */
  letGo(reason?: TaskMasterError): void {
    if (this.#state.kind === 'settled' || this.#state.kind === 'lost') return;
    this.#callEnd();
    if (reason === undefined) return;
    this.#abort ??= new AbortController();
    this.#abort.abort(reason);
  }

  /**
   * A renewal can make a lease shorter. One that is reported late may have been the last one for the node: then the earlier
   * end counts (L1).
   * @param sentAt when the renewal was sent.
   */
  renewed(sentAt: number, leaseMs: number): void {
    if (this.#state.kind === 'settled' || this.#state.kind === 'lost') return;
    const before = this.#endsAt;
    const isLatest = sentAt >= this.#countsFrom;
    this.#endsAt = isLatest ? sentAt + leaseMs : Math.min(before, sentAt + leaseMs);
    this.#countsFrom = Math.max(this.#countsFrom, sentAt);
    if (this.#endsAt >= before || this.#cancelTimer === undefined) return;
    this.#cancelTimer();
    this.#watchEnd();
  }

  assertHeld(): void {
    this.#catchUp();
    const state = this.#state;
    switch (state.kind) {
      case 'held':
        return;
      case 'settling':
        throw new TypeError(`task ${pidText(this.pid)} is being completed or released already`);
      case 'settled':
        throw new TypeError(`task ${pidText(this.pid)} was ${state.how} already`);
      case 'lost':
        throw state.error;
      default:
        state satisfies never;
    }
  }

  #end(): void {
    this.#cancelTimer?.();
    this.#callEnd();
  }

  #callEnd(): void {
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    onEnd?.();
  }

  #reportLost(error: TaskMasterError): void {
    this.#abort ??= new AbortController();
    this.#abort.abort(error);
    const onLost = this.#onLost;
    this.#onLost = undefined;
    onLost?.(error);
  }

  #watchEnd(): void {
    const leftMs = this.#endsAt - this.#timing.now();
    this.#cancelTimer = this.#timing.after(Math.min(Math.max(0, leftMs), MAX_TIMER_MS), () => {
      this.#catchUp();
      if (this.#state.kind === 'settled' || this.#state.kind === 'lost') return;
      if (this.#timing.now() < this.#endsAt) this.#watchEnd();
      else this.expire();
    });
  }

  #expired(): LeaseExpiredError {
    return new LeaseExpiredError(`the lease on task ${pidText(this.pid)} of ${this.queue} has run out`, {
      reason: 'LEASE_EXPIRED',
      metadata: { queue: this.queue },
    });
  }
}
