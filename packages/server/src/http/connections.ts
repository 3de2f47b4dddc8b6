import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Requests that may wait on one connection behind the one that is answered. Browsers send none. */
const MOST_BEHIND = 8;

/** What a connection does now. */
interface Connection {
  /** Below TLS. */
  readonly socket: Socket;
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
  readonly #all = new Map<string, Connection>();

  constructor(limit: number, replyTimeoutMs: number) {
    this.#limit = limit;
    this.#replyTimeoutMs = replyTimeoutMs;
  }

  add(socket: Socket): void {
    if (this.#all.size >= this.#limit) this.#close();
    const name = nameOf(socket);
    const connection: Connection = { socket, open: new Set(), sent: Promise.resolve() };
    this.#all.set(name, connection);
    socket.once('close', () => {
      this.#all.delete(name);
      for (const end of connection.open) end();
    });
  }

  /**
   * Resolves when the requests before this one are answered. False: the connection was closed. A request must be answered within
   * a time, or its connection is closed.
   */
  async turn(socket: Socket, response: ServerResponse): Promise<boolean> {
    const name = nameOf(socket);
    const connection = this.#all.get(name);
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
      if (this.#all.delete(name)) this.#all.set(name, connection);
    });
    return !socket.destroyed;
  }

  /** Closes all connections. */
  closeAll(): void {
    for (const { socket } of this.#all.values()) socket.destroy();
  }

  #close(): void {
    const all = [...this.#all];
    const [name, connection] = all.find(([, { open }]) => open.size === 0) ?? all[0] ?? [];
    if (name === undefined) return;
    this.#all.delete(name);
    connection?.socket.destroy();
  }
}

/** A connection of TLS and the one below it have the same name. */
const nameOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress}:${remotePort}`;
