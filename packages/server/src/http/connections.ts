import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Requests that may wait on one connection behind the one that is answered. Browsers send none. */
const MOST_BEHIND = 8;

/** What a connection does now. */
interface Connection {
  /** Ends of the requests that are not answered yet. */
  readonly open: Set<() => void>;
  /** Resolves when the replies to all requests so far are sent. */
  sent: Promise<unknown>;
}

/**
 * The connections of an HTTP server. A new connection is always accepted, so that a health probe is never refused: above the
 * limit, the connection that has been idle for the longest time is closed, or else the oldest one.
 */
export class HttpConnections {
  readonly #limit: number;
  readonly #replyTimeoutMs: number;
  /** Those that have been idle for the longest time come first. */
  readonly #all = new Map<Socket, Connection>();

  constructor(limit: number, replyTimeoutMs: number) {
    this.#limit = limit;
    this.#replyTimeoutMs = replyTimeoutMs;
  }

  add(socket: Socket): void {
    if (this.#all.size >= this.#limit) this.#close();
    const connection: Connection = { open: new Set(), sent: Promise.resolve() };
    this.#all.set(socket, connection);
    socket.once('close', () => {
      this.#all.delete(socket);
      for (const end of connection.open) end();
    });
  }

  /**
   * Resolves when the requests before this one are answered. False: the connection was closed. A request must be answered within
   * a time, or its connection is closed.
   */
  async turn(socket: Socket, response: ServerResponse): Promise<boolean> {
    const connection = this.#all.get(socket);
    if (connection === undefined || connection.open.size > MOST_BEHIND) {
      socket.destroy();
      return false;
    }
    const before = connection.sent;
    const { promise, resolve } = Promise.withResolvers<void>();
    connection.sent = promise;
    connection.open.add(resolve);
    response.once('close', resolve);
    await before;
    const late = setTimeout(() => socket.destroy(), this.#replyTimeoutMs).unref();
    promise.then(() => {
      clearTimeout(late);
      connection.open.delete(resolve);
      // It is the last one to be closed now.
      if (this.#all.delete(socket)) this.#all.set(socket, connection);
    });
    return !socket.destroyed;
  }

  #close(): void {
    const sockets = [...this.#all];
    const [socket] = sockets.find(([, { open }]) => open.size === 0) ?? sockets[0] ?? [];
    if (socket === undefined) return;
    this.#all.delete(socket);
    socket.destroy();
  }
}
