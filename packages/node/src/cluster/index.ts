// What programs need of the cluster: handing partitions from one engine to another.

export { type HandOffFigures, HandOffs, type HandOffsDeps } from './handoff/hand-offs.ts';
export type { HandedOver, HandOffProgress, Target } from './handoff/sender.ts';
export { HandOffUnresolved } from './handoff/sender.ts';
export type { CallPeer, TransferCalls, TransferHandlers, TransferMethod } from './handoff/transfer-calls.ts';
export { HolderView, type KnownHolder } from './holder-view.ts';
export * from './members.ts';
export { desiredHolders } from './ring.ts';
