export type { Audit, AuditEvent } from './audit.ts';
export { isPeerAt, type MemberMeta, type Membership, type MembershipFigures, type Peer } from './membership.ts';
export {
  type CallPeer,
  type PeerCalls,
  type PeerHandlers,
  PeerMessageTooLongError,
  PeerUnreachableError,
} from './peer-network.ts';
export type { Holder, RoutedNode, Routes } from './routes.ts';
