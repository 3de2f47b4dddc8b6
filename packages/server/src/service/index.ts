export { awaitedBytes, type Caller, countRequests, visitorOf, waitingBytes } from './caller.ts';
export { recheckOfLease, recheckOfWait, requireClusterRight, requireLease } from './check-rights.ts';
export { createHandlers, type Handlers } from './handlers.ts';
export { IdentitySeal, type Receiver } from './identity-seal.ts';
export { LateService } from './late-service.ts';
export { createNodeService } from './node-service.ts';
export { IDENTITY_HEADER, ROUTED_HEADER } from './origins.ts';
export { excerpt, refuse } from './parse/checks.ts';
export { type Decoded, decodeCall, decodeRequest, type MessageType } from './parse/codec.ts';
export { hostPort } from './parse/host-port.ts';
export { pageTokenAfter, parsePageToken } from './parse/page-token.ts';
export { parseLease } from './parse/parse-lease.ts';
export { nameRegex, parseList, parseStats } from './parse/parse-queues.ts';
export { parseListSchedules } from './parse/parse-schedules.ts';
export { parseUpdate } from './parse/parse-update.ts';
export { groupName, groupOf, queueName } from './parse/queue-names.ts';
export type {
  Origin,
  RawService,
  StreamingHandler,
  StreamOperation,
  StreamReply,
  StreamSession,
  UnaryCaller,
  UnaryHandler,
} from './raw-service.ts';
export { REPLY_BYTES } from './reply/build-reply.ts';

export { FairTurns } from './turns/fair-turns.ts';
export { LARGE_LOOKS, Turnstile, type TurnstileOptions } from './turns/turnstile.ts';
export { RelayedRefusal, refusalOf, toWireError } from './wire-errors.ts';
