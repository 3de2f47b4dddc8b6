import type { StreamSender } from '../upstream/stream-sender.ts';
import type { Router } from './router.ts';

/** How long the streams of a caller that has no calls are kept, in ms. */
const IDLE_MS = 5_000;

interface Kept {
  readonly sender: StreamSender;
  calls: number;
  usedAt: number;
}

/**
 * The streams to the nodes on which callers' leases and batches travel: those of one connection share theirs, so that what is
 * waited for long, or answered at length, is in the way of its own caller only, and nodes know whose calls they are.
 */
export class CallerSenders {
  readonly #router: Pick<Router, 'clock' | 'isStopping' | 'onStop'>;
  readonly #open: (address: string) => StreamSender;
  readonly #callers = new Map<string, Kept>();
  #cancelSweep: (() => void) | undefined;

  constructor(router: Pick<Router, 'clock' | 'isStopping' | 'onStop'>, open: (address: string) => StreamSender) {
    this.#router = router;
    this.#open = open;
    router.onStop(() => this.#sweep());
  }

  /** Has a call of a caller served. */
  async serve<T>(address: string, call: (sender: StreamSender) => Promise<T>): Promise<T> {
    let kept = this.#callers.get(address);
    if (kept === undefined) {
      kept = { sender: this.#open(address), calls: 0, usedAt: 0 };
      this.#callers.set(address, kept);
    }
    kept.calls++;
    try {
      return await call(kept.sender);
    } finally {
      kept.calls--;
      kept.usedAt = this.#router.clock.now();
      if (this.#router.isStopping) this.#endIfIdle(address, kept, 0);
      else if (kept.calls === 0) this.#sweepLater();
    }
  }

  #sweepLater(): void {
    this.#cancelSweep ??= this.#router.clock.at(this.#instantAfter(IDLE_MS), () => this.#sweep());
  }

  #sweep(): void {
    this.#cancelSweep?.();
    this.#cancelSweep = undefined;
    const idleMs = this.#router.isStopping ? 0 : IDLE_MS;
    let mayEnd = false;
    for (const [address, kept] of this.#callers) {
      if (!this.#endIfIdle(address, kept, idleMs)) mayEnd ||= kept.calls === 0;
    }
    if (mayEnd) this.#sweepLater();
  }

  #endIfIdle(address: string, { sender, calls, usedAt }: Kept, idleMs: number): boolean {
    if (calls > 0 || this.#router.clock.now() - usedAt < idleMs) return false;
    this.#callers.delete(address);
    sender.end();
    return true;
  }

  #instantAfter(ms: number): ReturnType<Router['clock']['now']> {
    const { clock } = this.#router;
    return (clock.now() + ms) as ReturnType<typeof clock.now>;
  }
}
