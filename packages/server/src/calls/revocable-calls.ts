import type { Access } from '../access/access.ts';

/** A call that ends if its caller loses the rights that it needs. */
export interface RevocableCall {
  /** Ends the call if its caller may not make it any more. */
  recheck(): void;
}

/** The longest and the shortest time between two looks for expired credentials, in ms. The system clock may be set meanwhile. */
const LONGEST_MS = 60_000;
const SHORTEST_MS = 100;

/** The calls that wait or stream while the rules of access may change, or while the credentials of their callers may expire. */
export class RevocableCalls implements Disposable {
  /** When the credential of each expires, in ms since 1970. */
  readonly #calls = new Map<RevocableCall, number>();
  readonly #end: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** The first expiry that the timer is for. */
  #expected = Number.POSITIVE_INFINITY;

  constructor(access: Access | undefined) {
    this.#end = access?.onChange(() => this.#recheck()) ?? (() => {});
  }

  add(call: RevocableCall, expiresAt: number): void {
    this.#calls.set(call, expiresAt);
    this.#expect(expiresAt);
  }

  delete(call: RevocableCall): void {
    this.#calls.delete(call);
  }

  [Symbol.dispose](): void {
    this.#end();
    clearTimeout(this.#timer);
  }

  #recheck(): void {
    for (const call of [...this.#calls.keys()]) call.recheck();
  }

  #expect(expiresAt: number): void {
    if (expiresAt >= this.#expected) return;
    this.#expected = expiresAt;
    clearTimeout(this.#timer);
    const ms = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, expiresAt - Date.now()));
    this.#timer = setTimeout(() => this.#endExpired(), ms).unref();
  }

  #endExpired(): void {
    this.#expected = Number.POSITIVE_INFINITY;
    const now = Date.now();
    for (const [call, expiresAt] of [...this.#calls]) if (expiresAt <= now) call.recheck();
    let next = Number.POSITIVE_INFINITY;
    for (const expiresAt of this.#calls.values()) next = Math.min(next, expiresAt);
    this.#expect(next);
  }
}
