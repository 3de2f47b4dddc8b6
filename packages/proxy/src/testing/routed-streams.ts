import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { ROUTED_HEADER } from '@taskmaster/server/calls';

const STREAM_CREATED = 'http2.server.stream.created';

/** Counts the calls of routers to the servers of this process, from now on. */
export interface RoutedStreams extends Disposable {
  /** HTTP/2 streams that routers opened. */
  readonly opened: number;
  /** How many of them are over. */
  readonly closed: number;
  /** The paths of the streams that routers reset. */
  readonly reset: readonly string[];
}

export function watchRoutedStreams(): RoutedStreams {
  const reset: string[] = [];
  let opened = 0;
  let closed = 0;
  const onCreated = (message: unknown): void => {
    const { stream, headers } = message as { stream: ServerHttp2Stream; headers: IncomingHttpHeaders };
    if (headers[ROUTED_HEADER] === undefined) return;
    opened++;
    stream.once('close', () => {
      closed++;
      if (stream.rstCode !== 0) reset.push(headers[':path'] ?? '');
    });
  };
  subscribe(STREAM_CREATED, onCreated);
  return {
    get opened() {
      return opened;
    },
    get closed() {
      return closed;
    },
    reset,
    [Symbol.dispose]: () => unsubscribe(STREAM_CREATED, onCreated),
  };
}
