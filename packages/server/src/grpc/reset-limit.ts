import type { ServerOptions } from 'node:http2';
import type { Server } from '@grpc/grpc-js';

/**
 * HTTP/2's bound for calls that a connection gives up, which are cheap to make and not to take: a connection beyond it is
 * closed, with all calls on it. Node's own, 1,000 at once and 33 a second, are less than what the workers of one process come
 * to, or the clients behind one load balancer. These let one connection have a tenth of a processor.
 */
const RESETS_AT_ONCE = 10_000;
const RESETS_PER_SECOND = 1_000;

const limits: ServerOptions = {
  streamResetBurst: RESETS_AT_ONCE,
  streamResetRate: RESETS_PER_SECOND,
  // Calls given up count until the event loop has come round. Those that replace them at once may be too many for so long, and
  // are refused; Node's own bound of 100 of these in a row would close the connection.
  maxSessionRejectedStreams: RESETS_AT_ONCE,
};

/** To be called before the server takes its first connection. grpc-js has no option for this. */
export function raiseResetLimit(server: Server): void {
  const { commonServerOptions } = server as unknown as { readonly commonServerOptions?: ServerOptions };
  // Where grpc-js keeps its options elsewhere, Node's own bounds hold; a test tells.
  if (commonServerOptions !== undefined) Object.assign(commonServerOptions, limits);
}
