import { type RawService, refusalOf, toWireError, type UnaryCaller } from '@taskmaster/node/grpc';
import { LinkBroken, type SimCluster } from '@taskmaster/node/testing';
import {
  type Holder,
  Lost,
  Refused,
  type RoutedNode,
  type Routes,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamPipe,
} from '@taskmaster/proxy';
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
    signal?.addEventListener('abort', giveUp, { once: true });
    const wait = Math.min(timeoutMs, SILENCE_MS);
    try {
      return await network.carry({ from: this.#from, to, what: method, timeoutMs: wait, signal }, () =>
        callService(nodes.get(to)?.service, method, request, givenUp.signal, this.#trouble),
      );
    } catch (error) {
      if (error instanceof LinkBroken) throw new Lost(error.message, 'connection', error.maybeServed);
      if (signal?.aborted) throw new Lost('the call was given up', 'cancelled', true);
      throw error;
    } finally {
      signal?.removeEventListener('abort', giveUp);
    }
  }

  stream(): UpstreamPipe {
    throw new TypeError('calls are not streamed here');
  }
}

/** Calls a service as one calls a server: the answer, or a rejection with `Refused`. */
export async function callService(
  service: RawService | undefined,
  method: string,
  request: Uint8Array,
  signal: AbortSignal | undefined,
  trouble: Trouble,
): Promise<Uint8Array> {
  const handler = service?.unary[method];
  if (handler === undefined) throw new Lost(`nobody serves ${method}`, 'connection', false);
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
    throw new Refused(toWireError(refusalOf(thrown, trouble.log)));
  }
}

/** Routes of a proxy that hears of holders from one node or the other now and then, and from those it asks. */
export class SimRoutes implements Routes {
  readonly partitions: number;
  readonly #cluster: SimCluster;
  readonly #holders = new Map<number, Holder>();
  readonly #listeners = new Set<() => void>();

  constructor(cluster: SimCluster) {
    this.#cluster = cluster;
    this.partitions = cluster.partitions;
  }

  holderOf(partition: number): Holder | undefined {
    return this.#holders.get(partition) ?? this.#firstGuess();
  }

  nodes(): readonly RoutedNode[] {
    return [...this.#cluster.nodes.keys()].map((name) => ({
      nodeId: `id-${name}`,
      name,
      address: `${name}:1`,
      alive: true,
    }));
  }

  learn(partition: number, holder: Holder): void {
    const known = this.#holders.get(partition);
    if (known && known.epoch > holder.epoch) return;
    this.#holders.set(partition, holder);
    for (const listener of this.#listeners) listener();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Takes what a node has heard of holders. */
  hear(name: string): void {
    const node = this.#cluster.nodes.get(name);
    if (!node?.isUp || node.h.clock.standsStill) return;
    for (const [id, { nodeId, epoch }] of node.agent.view.entries()) {
      const address = node.agent.addressOf(nodeId);
      if (address !== undefined) this.learn(id, { nodeId, address, epoch });
    }
  }

  #firstGuess(): Holder | undefined {
    const [first] = this.nodes();
    return first && { nodeId: first.nodeId, address: first.address, epoch: 0 };
  }
}
