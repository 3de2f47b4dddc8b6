import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Http2Session, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';

/** Node's own, for whoever is not the one who created the HTTP/2 server; here that is grpc-js, which has no option for this. */
const STREAM_CREATED = 'http2.server.stream.created';

/** What a peer may send on one call, and at first on one connection, before it is read, in bytes. More gained nothing. */
export const STREAM_WINDOW_BYTES = 1024 * 1024;

/** Of all servers of this process, so that each session is told once. */
const widened = new WeakSet<Http2Session>();

/**
 * Lets the peers of connections that carry a call of one method send more at a time than HTTP/2's 64 KiB. A stream carries
 * what many callers ask for: without this each 64 KiB of it wait until the event loop has read those before. Connections
 * that carry other calls only keep theirs: what arrives in smaller pieces is answered in smaller pieces.
 */
export class StreamWindows implements Disposable {
  readonly #path: string;

  /** `path` is the method's, as in its HTTP/2 requests. */
  constructor(path: string) {
    this.#path = path;
    subscribe(STREAM_CREATED, this.#created);
  }

  readonly #created = (message: unknown): void => {
    const { stream, headers } = message as {
      readonly stream: ServerHttp2Stream;
      readonly headers: IncomingHttpHeaders;
    };
    const { session } = stream;
    if (headers[':path'] !== this.#path || session === undefined || widened.has(session)) return;
    widened.add(session);
    session.setLocalWindowSize(STREAM_WINDOW_BYTES);
    session.settings({ initialWindowSize: STREAM_WINDOW_BYTES });
  };

  [Symbol.dispose](): void {
    unsubscribe(STREAM_CREATED, this.#created);
  }
}
