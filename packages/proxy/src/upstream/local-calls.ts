import type { Log } from '@taskmaster/engine/ports';
import {
  type RawService,
  refusalOf,
  type StreamingHandler,
  toWireError,
  type UnaryCaller,
} from '@taskmaster/server/calls';
import { isWaiting, LostError, RefusedError, type UnaryMethod, type UpstreamCallOptions } from './upstream.ts';

/**
 * Calls a service of this process like a node. Rejects with `RefusedError`, or with `LostError` if the caller cancelled. The
 * service knows the deadline and ends the call itself.
 */
export async function callService(
  service: RawService,
  method: UnaryMethod,
  request: Uint8Array,
  options: UpstreamCallOptions,
  log: Log,
): Promise<Uint8Array> {
  const { signal } = options;
  if (signal?.aborted) throw new LostError('the call was cancelled', 'cancelled', false);
  const handler = service.unary[method];
  if (handler === undefined) throw new LostError(`the service has no ${method}`, 'broken', false);
  try {
    return await handler(Buffer.from(request.buffer, request.byteOffset, request.byteLength), callerOf(options));
  } catch (thrown) {
    if (isWaiting(method) && signal?.aborted) throw new LostError('the call was cancelled', 'cancelled', true);
    throw new RefusedError(toWireError(refusalOf(thrown, log)));
  }
}

/** Like `callService`, for a method with a streamed answer. */
export async function* streamFromService(
  handler: StreamingHandler,
  request: Uint8Array,
  options: UpstreamCallOptions,
  log: Log,
): AsyncGenerator<Uint8Array, undefined> {
  try {
    yield* handler(Buffer.from(request.buffer, request.byteOffset, request.byteLength), callerOf(options));
  } catch (thrown) {
    throw new RefusedError(toWireError(refusalOf(thrown, log)));
  }
}

function callerOf({ signal, timeoutMs, peer, access }: UpstreamCallOptions): UnaryCaller {
  return {
    address: peer.address,
    access,
    isCounted: true,
    routed: true,
    forwarded: true,
    signal,
    get gone() {
      return signal?.aborted ?? false;
    },
    deadline: timeoutMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs,
  };
}
