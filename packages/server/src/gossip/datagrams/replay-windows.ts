/** How far datagrams of one sender may overtake each other. Among 50 members, a member sends one peer far fewer in a second. */
const WINDOW = 1024;
/** Maximum number of senders. The one that has been silent for longest is forgotten first. */
const MAX_SENDERS = 4096;

interface Window {
  readonly start: number;
  readonly thread: number;
  highest: number;
  /** One bit for each of the last WINDOW sequence numbers, at the number modulo WINDOW. */
  readonly seen: Uint8Array;
}

/** Remembers which datagrams of each sender have arrived. Senders number them, from 1 after each start. */
export class ReplayWindows {
  readonly #windows = new Map<string, Window>();

  /** Returns true if the datagram is new, and records it. */
  admit(sender: string, start: number, thread: number, sequence: number): boolean {
    if (!Number.isSafeInteger(sequence) || sequence < 1) return false;
    const known = this.#windows.get(sender);
    if (known && (start < known.start || (start === known.start && thread < known.thread))) return false;
    const same = known !== undefined && start === known.start && thread === known.thread;
    const window = same ? known : { start, thread, highest: 0, seen: new Uint8Array(WINDOW) };
    if (sequence <= window.highest - WINDOW) return false;
    if (sequence <= window.highest && window.seen[sequence % WINDOW] === 1) return false;
    if (sequence > window.highest) {
      const from = Math.max(window.highest + 1, sequence - WINDOW + 1);
      for (let skipped = from; skipped < sequence; skipped++) window.seen[skipped % WINDOW] = 0;
      window.highest = sequence;
    }
    window.seen[sequence % WINDOW] = 1;
    this.#windows.delete(sender);
    this.#windows.set(sender, window);
    if (this.#windows.size > MAX_SENDERS) {
      const [oldest] = this.#windows.keys();
      if (oldest !== undefined) this.#windows.delete(oldest);
    }
    return true;
  }
}
