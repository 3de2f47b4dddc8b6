export type { Audit, AuditEvent } from './audit.ts';
export type { CancelTimer, Clock, ClockMark } from './clock.ts';
export type { Log } from './log.ts';
export { isPeerAt, type MemberMeta, type Membership, type MembershipFigures, type Peer } from './membership.ts';
export {
  type CallPeer,
  type PeerCalls,
  type PeerHandlers,
  PeerMessageTooLongError,
  PeerUnreachableError,
} from './peer-network.ts';
export type { Random } from './random.ts';
export { repeat } from './repeat.ts';
export type { Holder, RoutedNode, Routes } from './routes.ts';
export { sleep } from './sleep.ts';
export { SystemClock } from './system-clock.ts';
export { systemRandom } from './system-random.ts';
