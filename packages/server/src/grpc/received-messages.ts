import { type ServerInterceptor, status } from '@grpc/grpc-js';
import { limits } from '@taskmaster/proto';
import { requestTooLarge } from '../service/parse/codec.ts';
import { toCallStatus } from '../service/wire-errors.ts';

/** The call that grpc-js passes to an interceptor. */
export type NextCall = Parameters<ServerInterceptor>[1];
type Status = Parameters<NextCall['sendStatus']>[0];

/**
 * Maximum size of a received message, in bytes. grpc-js refuses a longer one when it knows its length or has decompressed this
 * much, and drops the rest. It is more than `limits.requestBytes`, because a message between nodes may be a little larger than
 * the request in it.
 */
export const RECEIVE_BYTES = limits.requestBytes + 1024 * 1024;

/** Matches the length of the message in the status of grpc-js. */
const SAID_BYTES = /\((\d+) vs/;

/**
 * Makes grpc-js refuse a message that is too long with our reason. It refuses such messages itself, below interceptors, and its
 * own status has no reason and looks like a temporary overload to clients.
 */
export function refuseWithReason(call: NextCall): void {
  // One function for all calls: thousands of them may wait.
  call.sendStatus = sendStatus;
}

function sendStatus(this: NextCall, given: Status): void {
  const own = Object.getPrototypeOf(this) as NextCall;
  own.sendStatus.call(this, isTooLong(given) ? toCallStatus(requestTooLarge(saidBytes(given))) : given);
}

/** Whether grpc-js refused a message. Our refusals have metadata; its own have none, and this is its only use of the status. */
const isTooLong = ({ code, metadata }: Status): boolean => code === status.RESOURCE_EXHAUSTED && !metadata;

/** The length of the refused message. Undefined for a compressed message, whose length is unknown. */
function saidBytes({ details }: Status): number | undefined {
  const said = SAID_BYTES.exec(details)?.[1];
  return said === undefined ? undefined : Number(said);
}
