import type { SimCluster } from '@taskmaster/node/testing';
import {
  LostError,
  RefusedError,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamPipe,
} from '@taskmaster/proxy';
import { type RawService, refusalOf, toWireError, type UnaryCaller } from '@taskmaster/server/service';
import { LinkBrokenError } from '@taskmaster/server/testing';
import type { Trouble } from './trouble.ts';

/** Longer than any wait for tasks: who hears nothing for so long takes the connection for broken. */
const SILENCE_MS = 1_000;

/** How somebody outside the cluster calls its nodes, over the simulated network. */
export class SimUpstream implements Upstream {
  readonly #cluster: SimCluster;
  readonly #from: string;
  readonly #trouble: Trouble;

  constructor(cluster: SimCluster, from: string, trouble: Trouble) {
    this.#cluster = cluster;
    this.#from = from;
    this.#trouble = trouble;
  }

  /** Every call travels by itself. */
  isLocal(): boolean {
    return true;
  }

  async unary(
    address: string,
    method: UnaryMethod,
    request: Uint8Array,
    { signal, timeoutMs = SILENCE_MS }: UpstreamCallOptions,
  ): Promise<Uint8Array> {
    const { network, nodes } = this.#cluster;
    const to = address.slice(0, address.indexOf(':'));
    // Giving up travels as well; the node may have answered by then.
    const givenUp = new AbortController();
    const giveUp = (): void => network.send(this.#from, to, () => givenUp.abort());
    signal?.addEventListener('abort', giveUp);
    const wait = Math.min(timeoutMs, SILENCE_MS);
    try {
      return await network.carry({ from: this.#from, to, what: method, timeoutMs: wait, signal }, () =>
        callService(nodes.get(to)?.service, method, request, givenUp.signal, this.#trouble),
      );
    } catch (error) {
      if (error instanceof LinkBrokenError) throw new LostError(error.message, 'connection', error.maybeServed);
      if (signal?.aborted) throw new LostError('the call was given up', 'cancelled', true);
      throw error;
    } finally {
      signal?.removeEventListener('abort', giveUp);
    }
  }

  stream(): UpstreamPipe {
    throw new TypeError('calls are not streamed here');
  }
}

/** Calls a service as one calls a server: the answer, or a rejection with `RefusedError`. */
export async function callService(
  service: RawService | undefined,
  method: string,
  request: Uint8Array,
  signal: AbortSignal | undefined,
  trouble: Trouble,
): Promise<Uint8Array> {
  const handler = service?.unary[method];
  if (handler === undefined) throw new LostError(`nobody serves ${method}`, 'connection', false);
  const caller: UnaryCaller = {
    address: 'sim:1',
    routed: true,
    signal,
    get gone() {
      return signal?.aborted ?? false;
    },
    deadline: Number.POSITIVE_INFINITY,
  };
  try {
    return await handler(Buffer.from(request), caller);
  } catch (thrown) {
    throw new RefusedError(toWireError(refusalOf(thrown, trouble.log)));
  }
}
