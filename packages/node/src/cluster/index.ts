// What programs need of the cluster: handing partitions from one engine to another.

export type { Holder, RoutedNode, Routes } from '../ports/routes.ts';
export { type AdministrationDeps, ClusterAdministration } from './administration.ts';
export { type AgentDeps, ClusterAgent } from './agent.ts';
export { askCluster, NoNodeAnswers } from './exchange.ts';
export { type GossipOptions, openGossip } from './gossip/open-gossip.ts';
export { DEFAULT_TIMING, type GossipTiming } from './gossip/options.ts';
export { assertResolves, GossipListenError, type HeldPort, holdPort } from './gossip/socket.ts';
export { type HandOffFigures, HandOffs, type HandOffsDeps } from './handoff/hand-offs.ts';
export type { HandedOver, HandOffProgress, Target } from './handoff/sender.ts';
export { HandOffUnresolved } from './handoff/sender.ts';
export type { CallTarget, TransferCalls, TransferHandlers, TransferMethod } from './handoff/transfer-calls.ts';
export { HolderView, type KnownHolder, type PartitionCounts } from './holder-view.ts';
export { LateRoutes } from './late-routes.ts';
export { MemberRoutes } from './member-routes.ts';
export { type Identity, MemberStore } from './member-store.ts';
export * from './members.ts';
export { Observer, type ObserverOptions, openObserver } from './observer.ts';
export { desiredHolders } from './ring.ts';
