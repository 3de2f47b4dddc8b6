import { type ServerInterceptor, status } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import { limits } from '@taskmaster/proto';
import { toCallStatus } from '../../calls/wire-errors.ts';
import { requestTooLarge } from '../../requests/codec.ts';

/** The call that grpc-js passes to an interceptor. */
export type NextCall = Parameters<ServerInterceptor>[1];
type Status = Parameters<NextCall['sendStatus']>[0];

/**
 * Maximum size of a received message, in bytes. grpc-js refuses a longer one when it knows its length, and drops the rest. It is
 * more than `limits.requestBytes`, because a message between nodes may be a little larger than the request in it.
 */
export const RECEIVE_BYTES = limits.requestBytes + 1024 * 1024;

/** grpc-js knows no decompression for messages of this encoding, and refuses them. */
const COMPRESSED = 'compressed';

/** Matches the length of the message in the status of grpc-js. */
const SAID_BYTES = /\((\d+) vs/;

/** A call with the encoding of its messages, which grpc-js keeps there. */
interface EncodedCall extends NextCall {
  incomingEncoding?: string;
}

/**
 * Makes grpc-js refuse a message that is too long or compressed with our reason. It refuses such messages itself, below
 * interceptors, and its own status has no reason and looks like a temporary overload to clients.
 */
export function refuseWithReason(call: EncodedCall): void {
  // One function for all calls: thousands of them may wait.
  call.sendStatus = sendStatus;
  if (call.incomingEncoding !== undefined && call.incomingEncoding !== 'identity') call.incomingEncoding = COMPRESSED;
}

function sendStatus(this: NextCall, given: Status): void {
  const own = Object.getPrototypeOf(this) as NextCall;
  own.sendStatus.call(this, refusalOf(given) ?? given);
}

function refusalOf(given: Status): Status | undefined {
  if (isTooLong(given)) return toCallStatus(requestTooLarge(saidBytes(given)));
  const isCompressed = given.code === status.UNIMPLEMENTED && !given.metadata;
  return isCompressed ? toCallStatus(new Refusal('COMPRESSED_REQUEST', 'messages must not be compressed')) : undefined;
}

/** Whether grpc-js refused a message. Our refusals have metadata; its own have none, and this is its only use of the status. */
const isTooLong = ({ code, metadata }: Status): boolean => code === status.RESOURCE_EXHAUSTED && !metadata;

/** The length of the refused message. Undefined if grpc-js does not say it. */
function saidBytes({ details }: Status): number | undefined {
  const said = SAID_BYTES.exec(details)?.[1];
  return said === undefined ? undefined : Number(said);
}
