import type { CallPeer, PeerCalls, PeerHandlers } from '@taskmaster/server/ports';

/** The calls of a hand-off. */
export type TransferMethod = 'offerPartition' | 'sendRows' | 'sendAtoms' | 'takePartition' | 'resolveOffer';
export type TransferCalls = Pick<PeerCalls, TransferMethod>;
export type CallTarget = CallPeer<TransferMethod>;
export type TransferHandlers = PeerHandlers<TransferMethod>;
