import { performServerHandshake } from 'node:http2';
import type { Socket } from 'node:net';
import { status } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import type { Reason } from '@taskmaster/proto';
import { toCallStatus } from '../../calls/wire-errors.ts';

/** The connection stays open for this time, in ms, so that the client makes a call and learns the reason. */
const OPEN_MS = 1_000;
/** Calls that are answered on one connection. */
const MOST_CALLS = 4;

const HTTP_OK = 200;

/** Refuses the first calls of a connection with a reason, then closes it. */
export function refuseCalls(socket: Socket, reason: Reason, message: string): void {
  const { code, details, metadata } = toCallStatus(new Refusal(reason, message));
  const session = performServerHandshake(socket, { settings: { maxConcurrentStreams: MOST_CALLS } });
  let calls = 0;
  session.on('stream', (stream) => {
    stream.on('error', () => {}); // The client has closed it.
    stream.respond(
      {
        ':status': HTTP_OK,
        'content-type': 'application/grpc+proto',
        'grpc-status': String(code ?? status.UNKNOWN),
        'grpc-message': encodeURI(details ?? ''),
        ...metadata?.toHttp2Headers(),
      },
      { endStream: true },
    );
    if (++calls >= MOST_CALLS) session.close();
  });
  session.on('error', () => socket.destroy()); // It does not speak HTTP/2.
  setTimeout(() => {
    session.close();
    setTimeout(() => socket.destroy(), OPEN_MS).unref();
  }, OPEN_MS).unref();
}
