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
 * The same where there is a stream, which carries what many callers ask for; also of the stream itself, that is of each
 * call of the connection. More gained nothing.
 */
export const STREAM_WINDOW_BYTES = 1024 * 1024;

/** What sessions were told by any server of this process; they are never told less. */
const bytesOf = new WeakMap<Http2Session, number>();

/** Sets how much the peers of all HTTP/2 connections may send ahead, by whether a connection carries calls of one method. */
export class ReceiveWindows implements Disposable {
  readonly #streamPath: string;

  /** `streamPath` is the method's, as in its HTTP/2 requests. */
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
    if (session === undefined) return;
    const isStream = headers[':path'] === this.#streamPath;
    const bytes = isStream ? STREAM_WINDOW_BYTES : CONNECTION_WINDOW_BYTES;
    if (bytes <= (bytesOf.get(session) ?? 0)) return;
    bytesOf.set(session, bytes);
    session.setLocalWindowSize(bytes);
    if (isStream) session.settings({ initialWindowSize: bytes });
  };

  [Symbol.dispose](): void {
    unsubscribe(STREAM_CREATED, this.#created);
  }
}
