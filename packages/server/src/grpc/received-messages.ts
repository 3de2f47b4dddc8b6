import { type ServerInterceptor, status } from '@grpc/grpc-js';
import { limits } from '@taskmaster/proto';
import { requestTooLarge } from '../service/parse/codec.ts';
import { toCallStatus } from '../service/wire-errors.ts';

/** What grpc-js gives an interceptor to act on: the call below it. */
export type NextCall = Parameters<ServerInterceptor>[1];
type Status = Parameters<NextCall['sendStatus']>[0];

/**
 * Most bytes of one message, in the memory of this process: grpc-js refuses a longer one as soon as it has read how long it
 * is, or unpacked so much of it, and drops the rest as it comes. More than `limits.requestBytes`, for what nodes tell each
 * other may be a little larger than what it was made of.
 */
export const RECEIVE_BYTES = limits.requestBytes + 1024 * 1024;

/** How grpc-js says how long a message would have been. */
const SAID_BYTES = /\((\d+) vs/;

/**
 * Has grpc-js refuse messages that are too long with the reason that all others get: its own status has none, and is one
 * that clients take for a moment's overload. It refuses them by itself, below interceptors.
 */
export function refuseWithReason(call: NextCall): void {
  // One function for all calls: thousands of them may wait.
  call.sendStatus = sendStatus;
}

function sendStatus(this: NextCall, given: Status): void {
  const own = Object.getPrototypeOf(this) as NextCall;
  own.sendStatus.call(this, isTooLong(given) ? toCallStatus(requestTooLarge(saidBytes(given))) : given);
}

/** What we refuse has details; what grpc-js does has none, and this is all that it refuses with this status. */
const isTooLong = ({ code, metadata }: Status): boolean => code === status.RESOURCE_EXHAUSTED && !metadata;

/** Undefined for one that was packed: nobody knows how long it would have become. */
function saidBytes({ details }: Status): number | undefined {
  const said = SAID_BYTES.exec(details)?.[1];
  return said === undefined ? undefined : Number(said);
}
