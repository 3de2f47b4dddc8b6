import type { ServerOptions } from 'node:http2';
import type { Server } from '@grpc/grpc-js';

/**
 * Limits for cancelled calls of one connection. Cancelled calls cost the server more than the client. A connection beyond the
 * limit is closed with all its calls. The limits of Node.js, 1,000 at once and 33 each second, are too low for the workers of one
 * process or the clients behind one load balancer. With these limits, one connection can use a tenth of a processor.
 */
const RESETS_AT_ONCE = 10_000;
const RESETS_PER_SECOND = 1_000;

const limits: ServerOptions = {
  streamResetBurst: RESETS_AT_ONCE,
  streamResetRate: RESETS_PER_SECOND,
  // A cancelled call counts until the next turn of the event loop. Calls that replace it immediately may exceed the limit of
  // calls and are refused. After 100 of these in a row, Node.js would close the connection.
  maxSessionRejectedStreams: RESETS_AT_ONCE,
};

/** Raises the limits of a server. Call it before the first connection. grpc-js has no option for this. */
export function raiseResetLimit(server: Server): void {
  const { commonServerOptions } = server as unknown as { readonly commonServerOptions?: ServerOptions };
  // If another release of grpc-js keeps its options elsewhere, the limits of Node.js apply, and a test fails.
  if (commonServerOptions !== undefined) Object.assign(commonServerOptions, limits);
}
