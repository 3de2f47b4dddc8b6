import type {
  OfferPartitionRequest,
  OfferPartitionResponse,
  ResolveOfferRequest,
  ResolveOfferResponse,
  SendAtomsRequest,
  SendAtomsResponse,
  SendRowsRequest,
  SendRowsResponse,
  TakePartitionRequest,
  TakePartitionResponse,
} from '@taskmaster/proto';

/** The calls of a hand-off, with what they ask and what they answer; see peer.proto. */
export interface TransferCalls {
  offerPartition: [OfferPartitionRequest, OfferPartitionResponse];
  sendRows: [SendRowsRequest, SendRowsResponse];
  sendAtoms: [SendAtomsRequest, SendAtomsResponse];
  takePartition: [TakePartitionRequest, TakePartitionResponse];
  resolveOffer: [ResolveOfferRequest, ResolveOfferResponse];
}

export type TransferMethod = keyof TransferCalls;

export interface TransferCallOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Asks a node. A rejection may come of an answer that was lost: the call may have been carried out, once, now or later.
 */
export type CallPeer = <M extends TransferMethod>(
  address: string,
  method: M,
  request: TransferCalls[M][0],
  options: TransferCallOptions,
) => Promise<TransferCalls[M][1]>;

/** Answers what other nodes ask. */
export type TransferHandlers = {
  readonly [M in TransferMethod]: (request: TransferCalls[M][0]) => Promise<TransferCalls[M][1]>;
};
