import {
  callService,
  createRouterService,
  NodePool,
  Router,
  type RouterLimits,
  type Routes,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamListener,
  type UpstreamPipe,
} from '@taskmaster/proxy/router';
import { type Log, SystemClock, systemRandom } from '@taskmaster/server/ports';
import type { RawService, StreamSession, UnaryHandler } from '@taskmaster/server/service';

export interface ColocatedOptions {
  /** The node's own service. */
  readonly own: RawService;
  /** The node's own address, as the routes have it; undefined until it is known. */
  readonly address: () => string | undefined;
  readonly routes: Routes;
  readonly log: Log;
  readonly limits?: RouterLimits;
  /** How the other nodes are reached. Default: gRPC channels of its own. */
  readonly others?: Upstream & Disposable;
}

/** A router in front of a node. Disposing of it closes its connections. */
export interface Colocated extends Disposable {
  /** Answers for the whole cluster. */
  readonly service: RawService;
  readonly router: Router;
  /** Ends calls that wait; others go on until it is disposed of. */
  stop(): void;
}

/**
 * Lets a node answer for the whole cluster: calls of its own partitions are made directly, the others are sent on. What a
 * proxy or another node has sent here is never sent on: the node answers it or says NOT_HOLDER.
 */
export function colocate({ own, address, routes, log, limits, others }: ColocatedOptions): Colocated {
  const pool = others ?? new NodePool();
  const upstream = new LocalFirst(own, address, pool, log);
  const router = new Router({ routes, upstream, clock: new SystemClock(), random: systemRandom, log, limits });
  const spread = createRouterService(router);
  const unary: Record<string, UnaryHandler> = {};
  for (const [method, handler] of Object.entries(own.unary)) {
    const spreadHandler = spread.unary[method] ?? handler;
    unary[method] = (request, caller) => (caller.routed ? handler : spreadHandler)(request, caller);
  }
  return {
    service: {
      unary,
      openStream: (origin): StreamSession => (origin.routed ? own : spread).openStream(origin),
    },
    router,
    stop: () => router.stop(),
    [Symbol.dispose]: () => {
      router.stop();
      pool[Symbol.dispose]();
    },
  };
}

/** Calls of this very node skip the network. */
class LocalFirst implements Upstream {
  readonly #own: RawService;
  readonly #address: () => string | undefined;
  readonly #others: Upstream;
  readonly #log: Log;

  constructor(own: RawService, address: () => string | undefined, others: Upstream, log: Log) {
    this.#own = own;
    this.#address = address;
    this.#others = others;
    this.#log = log;
  }

  isLocal(address: string): boolean {
    return address === this.#address();
  }

  unary(address: string, method: UnaryMethod, request: Uint8Array, options: UpstreamCallOptions): Promise<Uint8Array> {
    if (!this.isLocal(address)) return this.#others.unary(address, method, request, options);
    return callService(this.#own, method, request, options, this.#log);
  }

  stream(address: string, options: { readonly peer: string }, listener: UpstreamListener): UpstreamPipe {
    return this.#others.stream(address, options, listener);
  }
}
