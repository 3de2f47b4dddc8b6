// What a proxy is made of besides its routes: the server that a node has, and what refuses bad requests.

export { Refusal } from '../domain/errors.ts';
export type { Instant } from '../domain/ids.ts';
export type { CallSignal } from '../ports/call-signal.ts';
export type { CancelTimer, Clock } from '../ports/clock.ts';
export type { Log } from '../ports/log.ts';
export { PeerUnreachable } from '../ports/peer-network.ts';
export type { Random } from '../ports/random.ts';
export { sleep } from '../ports/sleep.ts';
export { SystemClock } from '../ports/system-clock.ts';
export { systemRandom } from '../ports/system-random.ts';
export { REPLY_BYTES } from './build-reply.ts';
export type { CallObserver } from './call-observer.ts';
export type { Caller } from './caller.ts';
export { channelOptions } from './channel-options.ts';
export { CLUSTER_SERVICE, type ClusterHandlers, createClusterService } from './cluster-service.ts';
export { decodeRequest, type MessageType, rawMethod } from './codec.ts';
export { checkEntries, type EntryBound, entryBounds } from './entry-bounds.ts';
export { FairTurns } from './fair-turns.ts';
export { createHandlers } from './handlers.ts';
export { hostPort } from './host-port.ts';
export { createNodeService } from './node-service.ts';
export { PEER_HEADER, ROUTED_HEADER } from './origin.ts';
export { pageTokenAfter } from './page-token.ts';
export { parseLease } from './parse-lease.ts';
export { parseList, parseStats } from './parse-queues.ts';
export { parseGet, parsePeek } from './parse-tasks.ts';
export { PeerNetwork } from './peer-network.ts';
export { PeerSeal } from './peer-seal.ts';
export type {
  Origin,
  RawService,
  StreamOperation,
  StreamReply,
  StreamSession,
  UnaryCaller,
  UnaryHandler,
} from './raw-service.ts';
export { GrpcServer, type GrpcServerOptions } from './server.ts';
export { RelayedRefusal, refusalOf, toWireError } from './status.ts';
export { Turnstile } from './turnstile.ts';
export type { UnaryService } from './unary-service.ts';
