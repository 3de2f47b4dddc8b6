import type { Log } from '@taskmaster/engine/ports';
import {
  callService,
  LostError,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamPipe,
} from '@taskmaster/proxy/router';
import type { RawService } from '@taskmaster/server/calls';
import { LinkBrokenError, type SimNetwork } from '@taskmaster/server/testing';

/** Time without an answer after which a caller treats a connection as broken, in ms. Longer than any wait for tasks. */
const SILENCE_MS = 1_000;

/** A network with the services of its nodes. A node that is down has none. */
export interface SimServices {
  readonly network: SimNetwork;
  readonly nodes: { get(name: string): { readonly service: RawService | undefined } | undefined };
}

/** The calls of a process outside the cluster to nodes, over the simulated network. */
export class SimUpstream implements Upstream {
  readonly #services: SimServices;
  readonly #from: string;
  readonly #log: Log;

  constructor(services: SimServices, from: string, log: Log) {
    this.#services = services;
    this.#from = from;
    this.#log = log;
  }

  /** Calls need no stream. */
  isLocal(): boolean {
    return true;
  }

  async unary(
    address: string,
    method: UnaryMethod,
    request: Uint8Array,
    { signal, timeoutMs = Number.POSITIVE_INFINITY, peer, access }: UpstreamCallOptions,
  ): Promise<Uint8Array> {
    if (signal?.aborted) throw new LostError('the call was cancelled', 'cancelled', false);
    const { network } = this.#services;
    const to = address.slice(0, address.indexOf(':'));
    // Only a lease is cancelled at the node. The cancellation is a message, too: the node may have answered before.
    const cancelled = new AbortController();
    const cancel = (): void => network.send(this.#from, to, () => cancelled.abort());
    const lease = method === 'LeaseTasks' ? signal : undefined;
    lease?.addEventListener('abort', cancel);
    const carried = {
      from: this.#from,
      to,
      what: method,
      signal: lease,
      timeoutMs: Math.min(timeoutMs, SILENCE_MS),
    };
    const began = network.now();
    try {
      return await network.carry(carried, () =>
        this.#serve(to, method, request, { signal: cancelled.signal, peer, access }),
      );
    } catch (error) {
      if (lease?.aborted) throw new LostError('the call was cancelled', 'cancelled', true);
      if (!(error instanceof LinkBrokenError)) throw error;
      const isLate = network.now() - began >= timeoutMs;
      throw new LostError(error.message, isLate ? 'deadline' : 'connection', error.maybeServed);
    } finally {
      lease?.removeEventListener('abort', cancel);
    }
  }

  async #serve(
    to: string,
    method: UnaryMethod,
    request: Uint8Array,
    options: UpstreamCallOptions,
  ): Promise<Uint8Array> {
    const service = this.#services.nodes.get(to)?.service;
    if (service === undefined) throw new LostError(`${to} serves nothing yet`, 'connection', false);
    return callService(service, method, request, options, this.#log);
  }

  stream(): UpstreamPipe {
    throw new TypeError('calls are not streamed here');
  }
}
