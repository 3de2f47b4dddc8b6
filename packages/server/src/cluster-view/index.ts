export type { ClockDifference } from './clock-watch.ts';
export {
  addressOf,
  askCluster,
  EXCHANGE_TIMEOUT_MS,
  Exchanger,
  type Heard,
  NoNodeAnswersError,
  problemAt,
} from './exchange.ts';
export { HolderView, type KnownHolder } from './holder-view.ts';
export { fromWireRecord, learnFrom, toWireKnowledge, toWireRecord } from './knowledge-codec.ts';
export { LateRoutes } from './late-routes.ts';
export {
  deciderWithout,
  epochBeyond,
  epochOfUnknown,
  isHolding,
  isRemoved,
  type MemberRecord,
  type MemberState,
  type Members,
  membersNamed,
  mergeMembers,
  ringMembers,
} from './members.ts';
export { type Observer, openObserver } from './observer.ts';
export { assertCompatible, releaseOf } from './releases.ts';
