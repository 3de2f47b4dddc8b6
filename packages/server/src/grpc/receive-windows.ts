import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Http2Session, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';

/** Node's own, for whoever is not the one who created the HTTP/2 server; here that is grpc-js, which has no option for this. */
const STREAM_CREATED = 'http2.server.stream.created';

/**
 * What a peer may send on one connection before it is read, in bytes. HTTP/2's own 64 KiB are what one read of a socket
 * takes: a peer waits until those are worked on, and the event loop then waits for the peer. With half as much again there
 * is always something on its way. More comes in larger bunches, whose calls are all answered later.
 */
export const CONNECTION_WINDOW_BYTES = 96 * 1024;

/**
 * The same where there is a stream, which carries what many callers ask for, or where calls are large: two of 50 KB would
 * have to wait for each other. Also of each call of the connection. More gained nothing.
 */
export const WIDE_WINDOW_BYTES = 1024 * 1024;

/** Calls are large from so many bytes on, on average. */
export const LARGE_CALL_BYTES = 16 * 1024;
/** Of so many: hundreds of small ones may be opened at once, and what they send comes before the next one is. */
export const AVERAGED_CALLS = 1_000;

/** What sessions were told by any server of this process; they are never told less. */
const toldBytes = new WeakMap<Http2Session, number>();

/** Calls of a session since their size was last looked at, and what its socket had read then. */
interface CallsSeen {
  calls: number;
  socketBytes: number;
}

/** Sets how much the peers of all HTTP/2 connections may send ahead, by what kind of calls a connection carries. */
export class ReceiveWindows implements Disposable {
  readonly #streamPath: string;
  readonly #seen = new WeakMap<Http2Session, CallsSeen>();

  /** `streamPath` is that of the method which is a stream, as in its HTTP/2 requests. */
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
