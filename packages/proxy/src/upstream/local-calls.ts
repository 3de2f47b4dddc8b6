import type { Log } from '@taskmaster/server/ports';
import { type RawService, refusalOf, toWireError, type UnaryCaller } from '@taskmaster/server/service';
import { LostError, RefusedError, type UnaryMethod, type UpstreamCallOptions } from './upstream.ts';

/** Calls a service of this process as one calls a node: the answer, or a rejection with `RefusedError`. */
export async function callService(
  service: RawService,
  method: UnaryMethod,
  request: Uint8Array,
  options: UpstreamCallOptions,
  log: Log,
): Promise<Uint8Array> {
  const handler = service.unary[method];
  if (handler === undefined) throw new LostError(`there is no ${method} here`, 'broken', false);
  try {
    return await handler(Buffer.from(request.buffer, request.byteOffset, request.byteLength), callerOf(options));
  } catch (thrown) {
    throw new RefusedError(toWireError(refusalOf(thrown, log)));
  }
}

function callerOf({ signal, timeoutMs, peer }: UpstreamCallOptions): UnaryCaller {
  return {
    address: peer,
    routed: true,
    signal,
    get gone() {
      return signal?.aborted ?? false;
    },
    deadline: timeoutMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs,
  };
}
