import { Refusal } from '@taskmaster/engine/domain';
import type { CallerAccess } from '../access/caller-access.ts';
import type { PrincipalUsage } from '../access/principal-usage.ts';
import type { Caller } from '../calls/caller.ts';
import type { Origin } from '../calls/raw-service.ts';
import { tooManyWait, type WaitingCalls } from '../calls/waiting-calls.ts';

/** How many calls of one stream may wait, and how many do. */
export interface Places {
  readonly most: number;
  taken: number;
  /** Counts their memory. */
  readonly waiting: WaitingCalls;
  readonly connection: string;
}

/** The caller of one lease or wait on a stream. */
export class StreamWaiter implements Caller {
  readonly #origin: Origin;
  readonly #places: Places;
  #recheck: (() => void) | undefined;
  /** Why the call was ended: its caller has lost a right. */
  revoked: unknown;
  #waits = false;
  #waitingBytes = 0;
  #usage: PrincipalUsage | undefined;
  #gone = false;
  #waitsNoLonger = false;
  #abort: AbortController | undefined;

  constructor(origin: Origin, places: Places) {
    this.#origin = origin;
    this.#places = places;
  }

  get address(): string {
    return this.#origin.address;
  }

  get access(): CallerAccess {
    return this.#origin.access;
  }

  beginWaiting(bytes: number, recheck?: () => void): void {
    this.#recheck = recheck;
    const { most, taken, waiting, connection } = this.#places;
    if (taken >= most) throw tooManyWait(most, 'stream');
    this.#usage = this.#origin.access.usage;
    waiting.addBytes(connection, bytes, this.#usage);
    this.#waitingBytes = bytes;
    this.#places.taken++;
    this.#waits = true;
  }

  /** Call this when the call is answered. */
  ended(): void {
    if (!this.#waits) return;
    this.#waits = false;
    this.#places.taken--;
    this.#places.waiting.removeBytes(this.#places.connection, this.#waitingBytes, this.#usage);
  }

  get gone(): boolean {
    return this.#gone;
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#gone || this.#waitsNoLonger) this.#abort.abort();
    return this.#abort.signal;
  }

  /** Ends the call if its caller has lost a right that the wait needs. */
  recheck(): void {
    try {
      this.#recheck?.();
    } catch (thrown) {
      this.revoked ??= thrown;
      this.cancel();
    }
  }

  /** Cancels the call for the client. */
  cancel(): void {
    this.#gone = true;
    this.#abort?.abort();
  }

  /** Ends the wait: the client gets its answer now. */
  endWaiting(): void {
    this.#waitsNoLonger = true;
    this.#abort?.abort();
  }

  /** Whether the call failed only because `endWaiting` ended its wait. */
  endedWaiting(thrown: unknown): boolean {
    return this.#waitsNoLonger && !this.#gone && thrown instanceof Refusal && thrown.reason === 'CANCELLED';
  }
}
