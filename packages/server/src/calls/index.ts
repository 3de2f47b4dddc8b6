// Calls, independent of transports: who makes one, what it may do, and how a refusal is answered.

export { type CallFields, callFields, updateFields } from './call-fields.ts';
export {
  awaitedBytes,
  type Caller,
  callerName,
  countRequests,
  readerBytes,
  type TaskHandlers,
  visitorOf,
  waitingBytes,
} from './caller.ts';
export {
  leasableOnly,
  readableOnly,
  recheckOfLease,
  recheckOfRead,
  recheckOfWait,
  requireClusterRight,
  requireLease,
  requireUpdate,
} from './check-rights.ts';
export { hostPort } from './host-port.ts';
export { IdentitySeal, type Receiver } from './identity-seal.ts';
export { LateService } from './late-service.ts';
export { IDENTITY_HEADER, ROUTED_HEADER } from './origins.ts';
export {
  type Origin,
  type RawService,
  REPLY_BYTES,
  type StreamingHandler,
  type StreamOperation,
  type StreamReply,
  type StreamSession,
  type UnaryCaller,
  type UnaryHandler,
} from './raw-service.ts';
export { LARGE_LOOKS, Turnstile, type TurnstileOptions } from './turnstile.ts';
export { RelayedRefusal, refusalOf, toWireError } from './wire-errors.ts';
