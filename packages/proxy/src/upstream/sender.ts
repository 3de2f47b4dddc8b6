import type { CallSignal } from '@taskmaster/engine/domain';
import type { CallerAccess } from '@taskmaster/server/access';
import type { LostError, RefusedError, RoutedPeer, UnaryMethod, Upstream } from './upstream.ts';

export interface SendOptions {
  readonly signal?: CallSignal | undefined;
  /** From now, in ms. */
  readonly timeoutMs?: number | undefined;
  /** The rights of the caller. */
  readonly access: CallerAccess;
}

/** Sends the calls of one caller to nodes, as unary calls or over streams. One attempt, no retries. */
export interface Sender {
  /** Rejects with `RefusedError` or `LostError`. A lease that is cancelled settles, and may still have been granted. */
  send(address: string, method: UnaryMethod, request: Uint8Array, options: SendOptions): Promise<Uint8Array>;
}

export type SendFailure = RefusedError | LostError;

/** Larger updates are sent as unary calls. On a stream they would delay the calls behind them. */
const SHARED_BYTES = 64 * 1024;

/**
 * Sends small updates of all callers over one stream to each node, which costs far less than unary calls. Other calls use `own`.
 */
export function sharedSender(shared: Sender, own: Sender, upstream: Upstream): Sender {
  return {
    send(address, method, request, options) {
      const mayShare = method === 'UpdateTasks' && request.length <= SHARED_BYTES && !upstream.isLocal?.(address);
      return (mayShare ? shared : own).send(address, method, request, options);
    },
  };
}

/** Sends every call as a unary call. */
export function unarySender(upstream: Upstream, peer: RoutedPeer): Sender {
  return {
    send: (address, method, request, options) => upstream.unary(address, method, request, { ...options, peer }),
  };
}
