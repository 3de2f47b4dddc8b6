import type { StreamSender } from '../upstream/stream-sender.ts';
import type { RoutedPeer } from '../upstream/upstream.ts';
import type { Router } from './routing/router.ts';

/** How long the streams of a caller without calls stay open, in ms. */
const IDLE_MS = 5_000;

interface Kept {
  readonly sender: StreamSender;
  calls: number;
  usedAt: number;
}

/**
 * Streams to nodes for the leases and batches of callers. The calls of one connection share one stream to each node. So a long
 * poll or a large reply delays only its own caller, and nodes know the address of the caller.
 */
export class CallerSenders {
  readonly #router: Pick<Router, 'clock' | 'isStopping' | 'onStop'>;
  readonly #open: (peer: RoutedPeer) => StreamSender;
  readonly #callers = new Map<string, Kept>();
  #cancelSweep: (() => void) | undefined;

  constructor(router: Pick<Router, 'clock' | 'isStopping' | 'onStop'>, open: (peer: RoutedPeer) => StreamSender) {
    this.#router = router;
    this.#open = open;
    router.onStop(() => this.#sweep());
  }

  /** Runs a call with the streams of its caller. */
  async serve<T>(peer: RoutedPeer, call: (sender: StreamSender) => Promise<T>): Promise<T> {
    const key = `${peer.address} ${peer.principal}`;
    let kept = this.#callers.get(key);
    if (kept === undefined) {
      kept = { sender: this.#open(peer), calls: 0, usedAt: 0 };
      this.#callers.set(key, kept);
    }
    kept.calls++;
    try {
      return await call(kept.sender);
    } finally {
      kept.calls--;
      kept.usedAt = this.#router.clock.now();
      if (this.#router.isStopping) this.#endIfIdle(key, kept, 0);
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
    for (const [key, kept] of this.#callers) {
      if (!this.#endIfIdle(key, kept, idleMs)) mayEnd ||= kept.calls === 0;
    }
    if (mayEnd) this.#sweepLater();
  }

  #endIfIdle(key: string, { sender, calls, usedAt }: Kept, idleMs: number): boolean {
    if (calls > 0 || this.#router.clock.now() - usedAt < idleMs) return false;
    this.#callers.delete(key);
    sender.end();
    return true;
  }

  #instantAfter(ms: number): ReturnType<Router['clock']['now']> {
    const { clock } = this.#router;
    return (clock.now() + ms) as ReturnType<typeof clock.now>;
  }
}
