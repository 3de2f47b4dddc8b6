/** Bounds of the replies that a server makes and has not sent yet. */
export interface ReplyLimits {
  /** Replies that are made at the same time. Their sizes are unknown until they are ready. */
  readonly making: number;
  /** Replies that are made at the same time for one host. Below `making`, so that slow ones leave room for other hosts. */
  readonly makingForHost: number;
  /** Replies that are ready and unread, in bytes. While there are more, no further reply is made. */
  readonly unreadBytes: number;
  /** If others wait, a reply that is unread for this long is given up, in ms. */
  readonly patienceMs: number;
}

/** A reply from the moment when it may be made until it is sent or given up. */
export class ReplySlot implements Disposable {
  readonly #gate: ReplyGate;
  readonly host: string;
  /** Closes the connection. */
  readonly cut: () => void;
  bytes = 0;
  /** When the reply was ready, in ms of `performance.now()`. Undefined: it is being made. */
  readyAt: number | undefined;

  constructor(gate: ReplyGate, host: string, cut: () => void) {
    this.#gate = gate;
    this.host = host;
    this.cut = cut;
  }

  /** The reply is made. */
  ready(bytes: number): void {
    this.bytes = bytes;
    this.readyAt = performance.now();
    this.#gate.changed();
  }

  [Symbol.dispose](): void {
    this.#gate.leave(this);
  }
}

/** Bounds the memory of replies: a caller that does not read must not cost more than a few of them. */
export class ReplyGate {
  readonly #limits: ReplyLimits;
  /** In the order in which they came. */
  readonly #slots = new Set<ReplySlot>();
  readonly #waiting = new Set<{ readonly host: string; readonly go: () => void }>();
  #relief: NodeJS.Timeout | undefined;

  constructor(limits: ReplyLimits) {
    this.#limits = limits;
  }

  /** Size of the replies that are unread, in bytes. */
  get unreadBytes(): number {
    let bytes = 0;
    for (const slot of this.#slots) bytes += slot.bytes;
    return bytes;
  }

  /** Resolves when a reply may be made for a host. Undefined: `signal` was aborted before. */
  async enter(host: string, cut: () => void, signal: AbortSignal): Promise<ReplySlot | undefined> {
    while (!this.#hasRoom(host) && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const waiting = { host, go: resolve };
      this.#waiting.add(waiting);
      signal.addEventListener('abort', () => resolve(), { once: true });
      this.#relieve();
      await promise;
      this.#waiting.delete(waiting);
    }
    if (signal.aborted) return undefined;
    const slot = new ReplySlot(this, host, cut);
    this.#slots.add(slot);
    return slot;
  }

  /** A reply became ready. */
  changed(): void {
    this.#next();
    this.#relieve();
  }

  leave(slot: ReplySlot): void {
    this.#slots.delete(slot);
    this.#next();
  }

  #hasRoom(host: string): boolean {
    let making = 0;
    let forHost = 0;
    for (const slot of this.#slots) {
      if (slot.readyAt !== undefined) continue;
      making++;
      if (slot.host === host) forHost++;
    }
    const { making: most, makingForHost, unreadBytes } = this.#limits;
    return making < most && forHost < makingForHost && this.unreadBytes < unreadBytes;
  }

  #next(): void {
    for (const { host, go } of this.#waiting) {
      if (!this.#hasRoom(host)) continue;
      go();
      return;
    }
  }

  /** Gives up the oldest unread reply once it has been unread for too long, if somebody waits. */
  #relieve(): void {
    clearTimeout(this.#relief);
    if (this.#waiting.size === 0) return;
    const oldest = [...this.#slots].find(({ readyAt }) => readyAt !== undefined);
    if (oldest?.readyAt === undefined) return;
    const left = oldest.readyAt + this.#limits.patienceMs - performance.now();
    this.#relief = setTimeout(
      () => {
        oldest.cut();
        this.leave(oldest);
        this.#relieve();
      },
      Math.max(0, left),
    ).unref();
  }
}
