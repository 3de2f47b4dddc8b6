/** What one connection has not read yet. */
interface Unread {
  bytes: number;
  cut: boolean;
}

export interface UnreadRepliesOptions {
  /** Most unread bytes over all connections. */
  readonly totalBytes: number;
  /** Most unread bytes of one connection. */
  readonly connectionBytes: number;
  /** Ends a connection; its calls then remove what they had added. */
  readonly cut: (connection: string, bytes: number) => void;
}

/**
 * Replies written to connections whose peers have not read them. Flow control leaves them in this process's memory, so
 * somebody who asks and does not read must be bounded by us:
 *  - a connection beyond its own bound is cut;
 *  - beyond the common bound the connection with the most unread bytes is cut, so that readers are not hurt.
 */
export class UnreadReplies {
  readonly #options: UnreadRepliesOptions;
  readonly #connections = new Map<string, Unread>();
  #totalBytes = 0;

  constructor(options: UnreadRepliesOptions) {
    this.#options = options;
  }

  /** Unread bytes of all connections that have not been cut. */
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

  /** Read, or gone with its connection. */
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
