import { type CancelTimer, MAX_TIMER_MS, type Timing } from '../transport/timing.ts';
import { LeaseExpiredError, TaskCancelledError, type TaskMasterError, TimeLimitError } from '../values/errors.ts';
import { type Pid, pidText } from '../values/pid.ts';

/** Internal: key of the lease of a leased task. */
export const LEASE = Symbol('taskmaster.lease');

/** A task that can be completed, renewed and released. */
export interface Leased {
  readonly [LEASE]: Lease;
}

/** Task, duration and begin of a lease. */
export interface LeaseTerms {
  /** `group#name`. */
  readonly queue: string;
  readonly pid: Pid;
  /** Lease token. */
  readonly token: number;
  readonly attempt: number;
  /** Of the task. */
  readonly headers: Readonly<Record<string, string>>;
  readonly leaseDurationMs: number;
  /** Undefined: there is none. */
  readonly timeLimitMs: number | undefined;
  /** Earliest possible begin of the lease, on the client's clock, in ms. */
  readonly from: number;
}

type LeaseState =
  | { readonly kind: 'held' }
  /** An update that ends the lease was sent. Its answer decides. */
  | { readonly kind: 'settling'; readonly lost: TaskMasterError | undefined }
  | { readonly kind: 'settled'; readonly how: 'completed' | 'released' }
  | { readonly kind: 'lost'; readonly error: TaskMasterError };

const HELD: LeaseState = { kind: 'held' };

/**
 * A lease, as far as the client knows.
 *  L1  `endsAt` is never later than the end at the node, because it counts from when the request was sent.
 *  L2  After `endsAt` the signal is aborted, and nothing else changes. A late worker may still complete its task; the node
 *      decides.
 *  L3  After the node has said that the lease is lost, no more requests are sent for it.
 *  L4  `endsAt` is never later than `limitAt`, at which the attempt has reached its time limit.
 */
export class Lease {
  readonly queue: string;
  readonly pid: Pid;
  readonly token: number;
  readonly attempt: number;
  /** Of the task: they may name its trace. */
  readonly headers: Readonly<Record<string, string>>;
  readonly leaseDurationMs: number;
  /** When the attempt reaches its time limit, on the client's clock, in ms. Infinity: never. */
  readonly limitAt: number;
  /** After this time the lease is not renewed, on the client's clock, in ms. Infinity: there is no bound. */
  keepUntil = Number.POSITIVE_INFINITY;
  /** Set: the node does not know that the work has begun. Above 0: it must know before, in a call with at most so many tasks. */
  unbegun: number | undefined;
  readonly #timeLimitMs: number | undefined;
  readonly #timing: Timing;
  /** Processes reports of the thread that renews leases. */
  readonly #catchUp: () => void;
  #endsAt: number;
  /** When the request was sent from which `#endsAt` counts. */
  #countsFrom: number;
  #state: LeaseState = HELD;
  #abort: AbortController | undefined;
  #cancelled: TaskCancelledError | undefined;
  #overTime: TimeLimitError | undefined;
  #cancelTimer: CancelTimer | undefined;
  #onEnd: (() => void) | undefined;
  #onLost: ((error: TaskMasterError) => void) | undefined;
  #onSettled: (() => void) | undefined;

  constructor(terms: LeaseTerms, timing: Timing, catchUp: () => void) {
    this.queue = terms.queue;
    this.pid = terms.pid;
    this.token = terms.token;
    this.attempt = terms.attempt;
    this.headers = terms.headers;
    this.leaseDurationMs = terms.leaseDurationMs;
    this.#timeLimitMs = terms.timeLimitMs;
    this.limitAt = terms.from + (terms.timeLimitMs ?? Number.POSITIVE_INFINITY);
    this.#endsAt = Math.min(terms.from + terms.leaseDurationMs, this.limitAt);
    this.#countsFrom = terms.from;
    this.#timing = timing;
    this.#catchUp = catchUp;
  }

  /** End of the lease on the client's clock, in ms. */
  get endsAt(): number {
    return this.#endsAt;
  }

  get isHeld(): boolean {
    return this.#state.kind === 'held';
  }

  /** Why the lease is lost. Undefined: it is not lost, as far as the client knows. */
  get lostTo(): TaskMasterError | undefined {
    return this.#state.kind === 'lost' ? this.#state.error : undefined;
  }

  /** Why no work should begin: the lease is lost or has expired, or the attempt is over time. Undefined: it may begin. */
  get over(): TaskMasterError | undefined {
    if (this.#timing.now() >= this.#endsAt) this.#catchUp();
    if (this.lostTo !== undefined || this.#timing.now() < this.#endsAt) return this.lostTo;
    return this.overTime ?? this.#expired();
  }

  /** Why the task should stop: it was cancelled. Undefined: it was not, as far as the client knows. */
  get cancelled(): TaskCancelledError | undefined {
    return this.#cancelled;
  }

  /** Why the attempt should stop: it has reached its time limit. Undefined: it has not, or it should stop for another reason. */
  get overTime(): TimeLimitError | undefined {
    const isOver = this.#timeLimitMs !== undefined && this.#timing.now() >= this.limitAt;
    if (isOver && this.#overTime === undefined && this.isHeld && !this.#abort?.signal.aborted) {
      this.#overTime = new TimeLimitError(this.#timeLimitMs, { queue: this.queue });
    }
    return this.#overTime;
  }

  /** Aborted when the lease is lost or has expired, when the attempt is over time, and when the task is cancelled. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#cancelled !== undefined) this.#abort.abort(this.#cancelled);
      else if (this.#state.kind === 'lost') this.#abort.abort(this.#state.error);
      else if (this.#state.kind !== 'settled') this.#watchEnd();
    }
    return this.#abort.signal;
  }

  /** Sets a callback for the end of renewals: the task was completed or released, or the lease was lost or let go. */
  onEnd(callback: () => void): void {
    this.#onEnd = callback;
  }

  /** Sets a callback for a lost or expired lease. It is called once. */
  onLost(callback: (error: TaskMasterError) => void): void {
    this.#onLost = callback;
  }

  /** Sets a callback for a completion or a release of the task. Undefined: none any more. */
  onSettled(callback: (() => void) | undefined): void {
    this.#onSettled = callback;
  }

  /**
   * Call it before an update is sent that ends the lease.
   * @throws the error because of which the lease is lost; TypeError if the task is or was completed or released.
   */
  beginSettling(): void {
    this.assertHeld();
    this.#state = { kind: 'settling', lost: undefined };
  }

  /** Call it if the update that ends the lease failed. */
  stopSettling(): void {
    if (this.#state.kind !== 'settling') return;
    const { lost } = this.#state;
    this.#state = HELD;
    if (lost !== undefined) this.lose(lost);
  }

  /** Call it after the update that ends the lease. */
  settle(how: 'completed' | 'released'): void {
    this.#state = { kind: 'settled', how };
    this.#end();
    this.#onSettled?.();
  }

  /** The node has refused the lease: it is not current, or the task is gone. */
  lose(error: TaskMasterError): void {
    if (this.#state.kind === 'settling') {
      this.#state = { kind: 'settling', lost: error };
    } else if (this.#state.kind === 'held') {
      this.#state = { kind: 'lost', error };
      this.#end();
      this.#reportLost(error);
    }
  }

  /** The task was cancelled. The worker keeps the lease, so that it can end its work in order. Only the first call counts. */
  cancel(reason: string): void {
    if (this.#cancelled !== undefined || this.#state.kind === 'settled' || this.#state.kind === 'lost') return;
    const why = reason === '' ? '' : `: ${reason}`;
    const message = `task ${pidText(this.pid)} of ${this.queue} was cancelled${why}`;
    this.#cancelled = new TaskCancelledError(message, { cancelReason: reason, metadata: { queue: this.queue } });
    this.#abort?.abort(this.#cancelled);
  }

  /** The lease has expired. It can still be completed if no worker has leased the task since. */
  expire(error: TaskMasterError = this.#expired()): void {
    if (this.#state.kind !== 'held') return;
    const { overTime } = this;
    if (overTime === undefined) this.#reportLost(error);
    else this.#stop(overTime);
  }

  /** Ends the renewals. With a reason it also aborts the signal. */
  letGo(reason?: TaskMasterError): void {
    if (this.#state.kind === 'settled' || this.#state.kind === 'lost') return;
    this.#callEnd();
    if (reason !== undefined) this.#stop(reason);
  }

  /**
   * The node has renewed the lease. A renewal may make it shorter. For a renewal that is reported late the earlier end counts,
   * because it may be the last renewal of the node (L1).
   * @param sentAt when the renewal was sent, on the client's clock, in ms.
   */
  renewed(sentAt: number, leaseDurationMs: number): void {
    if (this.#state.kind === 'settled' || this.#state.kind === 'lost') return;
    const before = this.#endsAt;
    const isLatest = sentAt >= this.#countsFrom;
    const endsAt = Math.min(sentAt + leaseDurationMs, this.limitAt);
    this.#endsAt = isLatest ? endsAt : Math.min(before, endsAt);
    this.#countsFrom = Math.max(this.#countsFrom, sentAt);
    if (this.#endsAt >= before || this.#cancelTimer === undefined) return;
    this.#cancelTimer();
    this.#watchEnd();
  }

  /** @throws the error because of which the lease is lost; TypeError if the task is or was completed or released. */
  assertHeld(): void {
    this.#catchUp();
    const state = this.#state;
    switch (state.kind) {
      case 'held':
        return;
      case 'settling':
        throw new TypeError(`task ${pidText(this.pid)} is already being completed or released`);
      case 'settled':
        throw new TypeError(`task ${pidText(this.pid)} was ${state.how} before`);
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

  #stop(reason: TaskMasterError): void {
    this.#abort ??= new AbortController();
    this.#abort.abort(reason);
  }

  #reportLost(error: TaskMasterError): void {
    this.#stop(error);
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
    return new LeaseExpiredError(`the lease on task ${pidText(this.pid)} of ${this.queue} has expired`, {
      reason: 'LEASE_EXPIRED',
      metadata: { queue: this.queue },
    });
  }
}
