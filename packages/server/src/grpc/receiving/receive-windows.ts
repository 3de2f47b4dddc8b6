import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Http2Session, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';

/** A diagnostics channel of Node.js. It is needed because grpc-js creates the HTTP/2 server and has no option for its windows. */
const STREAM_CREATED = 'http2.server.stream.created';

/**
 * How much a peer may send on one connection before it is read, in bytes. The default of HTTP/2, 64 KiB, is one read of a socket:
 * the peer waits until it is processed, and then the event loop waits for the peer. With half as much more, data is always on its
 * way (bench row B1). An even larger window makes larger batches of calls, and all of them are answered later.
 */
export const CONNECTION_WINDOW_BYTES = 96 * 1024;

/**
 * The window of a connection with a stream or with large calls, in bytes. A stream carries calls of many callers, and two calls
 * of 50 KB would wait for each other. It is also the window of each call of the connection. A larger window was not faster (bench
 * rows B3, B5 and B6).
 */
export const WIDE_WINDOW_BYTES = 1024 * 1024;

/** Calls of at least this size on average count as large, in bytes. */
export const LARGE_CALL_BYTES = 16 * 1024;
/** Number of calls for the average, because hundreds of small calls may start at the same time. */
export const AVERAGED_CALLS = 1_000;

/** The window that each session was given by any server of this process. It never shrinks. */
const toldBytes = new WeakMap<Http2Session, number>();

/** The calls of a session since the last look at their size, and the bytes that its socket had read then. */
interface CallsSeen {
  calls: number;
  socketBytes: number;
}

/** Sets the receive windows of all HTTP/2 connections, according to the calls of each connection. */
export class ReceiveWindows implements Disposable {
  readonly #streamPath: string;
  readonly #seen = new WeakMap<Http2Session, CallsSeen>();

  /** `streamPath`: path of the streaming method in HTTP/2 requests. */
  constructor(streamPath: string) {
    this.#streamPath = streamPath;
    subscribe(STREAM_CREATED, this.#created);
  }

  readonly #created = (message: unknown): void => {
    const { stream, headers } = message as {
      readonly stream: ServerHttp2Stream;
      readonly headers: IncomingHttpHeaders;
    };
    const { session } = stream;
    if (session === undefined || session.destroyed) return;
    const told = toldBytes.get(session) ?? 0;
    if (told === WIDE_WINDOW_BYTES) return;
    const isWide = headers[':path'] === this.#streamPath || this.#sendsLargeCalls(session);
    const bytes = isWide ? WIDE_WINDOW_BYTES : CONNECTION_WINDOW_BYTES;
    if (bytes === told) return;
    toldBytes.set(session, bytes);
    session.setLocalWindowSize(bytes);
    if (isWide) session.settings({ initialWindowSize: bytes });
  };

  #sendsLargeCalls(session: Http2Session): boolean {
    const seen = this.#seen.get(session);
    if (seen === undefined) {
      this.#seen.set(session, { calls: 0, socketBytes: session.socket.bytesRead });
      return false;
    }
    if (++seen.calls < AVERAGED_CALLS) return false;
    const { bytesRead } = session.socket;
    const isLarge = bytesRead - seen.socketBytes >= LARGE_CALL_BYTES * seen.calls;
    seen.calls = 0;
    seen.socketBytes = bytesRead;
    return isLarge;
  }

  [Symbol.dispose](): void {
    unsubscribe(STREAM_CREATED, this.#created);
  }
}
