import type {
  ExchangeRequest,
  ExchangeResponse,
  GiveUpRequest,
  InventoryRequest,
  InventoryResponse,
  JoinRequest,
  JoinResponse,
  LeaveRequest,
  LeaveResponse,
  OfferPartitionRequest,
  OfferPartitionResponse,
  RemoveMemberResponse,
  ResolveOfferRequest,
  ResolveOfferResponse,
  SendAtomsRequest,
  SendAtomsResponse,
  SendRowsRequest,
  SendRowsResponse,
  TakePartitionRequest,
  TakePartitionResponse,
} from '@taskmaster/proto';

/** What nodes ask each other, with what they answer; see peer.proto. */
export interface PeerCalls {
  join: [JoinRequest, JoinResponse];
  exchange: [ExchangeRequest, ExchangeResponse];
  inventory: [InventoryRequest, InventoryResponse];
  leave: [LeaveRequest, LeaveResponse];
  giveUp: [GiveUpRequest, RemoveMemberResponse];
  offerPartition: [OfferPartitionRequest, OfferPartitionResponse];
  sendRows: [SendRowsRequest, SendRowsResponse];
  sendAtoms: [SendAtomsRequest, SendAtomsResponse];
  takePartition: [TakePartitionRequest, TakePartitionResponse];
  resolveOffer: [ResolveOfferRequest, ResolveOfferResponse];
}

export type PeerMethod = keyof PeerCalls;

export interface PeerCallOptions {
  readonly timeoutMs: number;
  /** As long as that, instead of failing at once, where there is no connection: the node may just have been started. */
  readonly waitForConnection?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The request is longer than the node reads: it was not carried out, and would not be if it were repeated. */
export class PeerMessageTooLongError extends Error {
  override readonly name = 'PeerMessageTooLongError';
}

/** A member did not answer, or its answer was lost. */
export class PeerUnreachableError extends Error {
  override readonly name = 'PeerUnreachableError';
}

/**
 * Asks a node at its address. Rejects with a `Refusal` when that was its answer, with `PeerMessageTooLongError` when it did not
 * read the request; any other rejection may come of an answer that was lost: the call may have been carried out, once,
 * now or later. So may it with a `Refusal` for WRONG_KEY,
 * where whoever answered has no key of this cluster: nothing of such an answer is to be believed.
 */
export type CallPeer<Methods extends PeerMethod = PeerMethod> = <M extends Methods>(
  address: string,
  method: M,
  request: PeerCalls[M][0],
  options: PeerCallOptions,
) => Promise<PeerCalls[M][1]>;

/** Answers what other nodes ask. */
export type PeerHandlers<Methods extends PeerMethod = PeerMethod> = {
  readonly [M in Methods]: (request: PeerCalls[M][0]) => Promise<PeerCalls[M][1]>;
};
