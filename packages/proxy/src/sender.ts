import type { Lost, Refused, UnaryMethod, Upstream } from './upstream.ts';

export interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** From now, in ms. */
  readonly timeoutMs?: number | undefined;
}

/** Sends the calls of one caller to nodes: each in a call of its own, or over streams. One attempt, no retries. */
export interface Sender {
  /** Rejects with `Refused` or `Lost`. A lease that is given up settles; it may still have been granted. */
  send(address: string, method: UnaryMethod, request: Uint8Array, options: SendOptions): Promise<Uint8Array>;
}

export type SendFailure = Refused | Lost;

/** Every call by itself. */
export function unarySender(upstream: Upstream, peer: string): Sender {
  return {
    send: (address, method, request, options) => upstream.unary(address, method, request, { ...options, peer }),
  };
}
