import type { PeerServiceService } from '@taskmaster/proto';

type Peers = typeof PeerServiceService;

/** The calls between nodes: the type of the request and of the answer of each; see peer.proto. */
export type PeerCalls = {
  [M in keyof Peers]: [ReturnType<Peers[M]['requestDeserialize']>, ReturnType<Peers[M]['responseDeserialize']>];
};

export type PeerMethod = keyof PeerCalls;

export interface PeerCallOptions {
  readonly timeoutMs: number;
  /** True: waits for a connection within the timeout, because the node may just be starting. Default: fails immediately. */
  readonly waitForConnection?: boolean | undefined;
  /** True: if the address is a name of several nodes, each call asks one of them, chosen at random. Default: always the same. */
  readonly anyNode?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The request is longer than the node accepts. It was not carried out, and a retry has the same result. */
export class PeerMessageTooLongError extends Error {
  override readonly name = 'PeerMessageTooLongError';
}

/** A node did not answer, or its answer was lost. */
export class PeerUnreachableError extends Error {
  override readonly name = 'PeerUnreachableError';
  /** False: the request was certainly not sent. */
  readonly maybeServed: boolean;

  constructor(message: string, maybeServed: boolean, options?: ErrorOptions) {
    super(message, options);
    this.maybeServed = maybeServed;
  }
}

/**
 * Calls a node at its address. Rejects with a `Refusal` if that is the answer, and with `PeerMessageTooLongError` if the node did
 * not accept the request. After any other rejection the call may have been carried out once, now or later. The same holds for the
 * refusal WRONG_KEY: the process that answered has no key of this cluster, so its answer proves nothing.
 */
export type CallPeer<Methods extends PeerMethod = PeerMethod> = <M extends Methods>(
  address: string,
  method: M,
  request: PeerCalls[M][0],
  options: PeerCallOptions,
) => Promise<PeerCalls[M][1]>;

/** The handlers of a node for calls of other nodes. */
export type PeerHandlers<Methods extends PeerMethod = PeerMethod> = {
  readonly [M in Methods]: (request: PeerCalls[M][0]) => Promise<PeerCalls[M][1]>;
};
