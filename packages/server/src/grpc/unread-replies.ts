/** The unread replies of one connection. */
interface Unread {
  bytes: number;
  cut: boolean;
}

export interface UnreadRepliesOptions {
  /** Maximum of unread bytes over all connections. */
  readonly totalBytes: number;
  /** Maximum of unread bytes of one connection. */
  readonly connectionBytes: number;
  /** Ends a connection. Its calls then remove their bytes. */
  readonly cut: (connection: string, bytes: number) => void;
}

/**
 * Counts replies that peers have not read yet. Flow control keeps them in the memory of this process, so they need limits:
 *  - A connection beyond its own limit is closed.
 *  - Beyond the common limit, the connection with the most unread bytes is closed, so that peers that read are not affected.
 */
export class UnreadReplies {
  readonly #options: UnreadRepliesOptions;
  readonly #connections = new Map<string, Unread>();
  #totalBytes = 0;

  constructor(options: UnreadRepliesOptions) {
    this.#options = options;
  }

  /** Unread bytes of all open connections. */
  get totalBytes(): number {
    return this.#totalBytes;
  }

  add(connection: string, bytes: number): void {
    const unread = this.#connections.get(connection) ?? { bytes: 0, cut: false };
    this.#connections.set(connection, unread);
    unread.bytes += bytes;
    if (unread.cut) return;
    this.#totalBytes += bytes;
    if (unread.bytes > this.#options.connectionBytes) this.#cut(connection, unread);
    else if (this.#totalBytes > this.#options.totalBytes) this.#cutLargest();
  }

  /** Call this when a reply was read, or when its connection ended. */
  remove(connection: string, bytes: number): void {
    const unread = this.#connections.get(connection);
    if (unread === undefined) return;
    unread.bytes -= bytes;
    if (!unread.cut) this.#totalBytes -= bytes;
    if (unread.bytes <= 0) this.#connections.delete(connection);
  }

  #cut(connection: string, unread: Unread): void {
    unread.cut = true;
    this.#totalBytes -= unread.bytes;
    this.#options.cut(connection, unread.bytes);
  }

  #cutLargest(): void {
    let largest: [string, Unread] | undefined;
    for (const entry of this.#connections) {
      if (!entry[1].cut && entry[1].bytes > (largest?.[1].bytes ?? 0)) largest = entry;
    }
    if (largest !== undefined) this.#cut(...largest);
  }
}
