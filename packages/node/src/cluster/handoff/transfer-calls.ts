import type { CallPeer, PeerCalls, PeerHandlers } from '../../ports/peer-network.ts';

/** The calls of a hand-off. */
export type TransferMethod = 'offerPartition' | 'sendRows' | 'sendAtoms' | 'takePartition' | 'resolveOffer';
export type TransferCalls = Pick<PeerCalls, TransferMethod>;
export type CallTarget = CallPeer<TransferMethod>;
export type TransferHandlers = PeerHandlers<TransferMethod>;
