import { type Log, SystemClock, systemRandom } from '@taskmaster/engine/ports';
import {
  type BackupUpstream,
  callService,
  createRouterService,
  forwardBackups,
  NodePool,
  type RoutedPeer,
  Router,
  type RouterLimits,
  type Routes,
  streamFromService,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamListener,
  type UpstreamPipe,
} from '@taskmaster/proxy/router';
import type { IdentitySeal, RawService, StreamingHandler, StreamSession, UnaryHandler } from '@taskmaster/server/calls';
import type { ChannelSecurity } from '@taskmaster/server/grpc';

export interface ColocatedOptions {
  /** The node's own service. */
  readonly own: RawService;
  /** Sends the node's own partitions to backups. */
  readonly ownBackup: StreamingHandler;
  /** The node's own address as the routes have it; undefined until it is known. */
  readonly address: () => string | undefined;
  readonly routes: Routes;
  readonly log: Log;
  readonly limits?: RouterLimits;
  /** Seals the callers that other nodes are told. */
  readonly identities?: IdentitySeal;
  /** Calls to the other nodes. Default: gRPC channels that this router opens. */
  readonly others?: Upstream & BackupUpstream & Disposable;
  /** How those channels are opened. Default: in plain text. */
  readonly channels?: ChannelSecurity;
}

/** A router in front of a node. Disposing of it closes its connections. */
export interface Colocated extends Disposable {
  /** Serves calls for the whole cluster. */
  readonly service: RawService;
  /** Sends partitions of the whole cluster to backups. */
  readonly backup: StreamingHandler;
  readonly router: Router;
  /** Ends waiting calls. Other calls go on until this is disposed of. */
  stop(): void;
}

/**
 * Lets a node serve calls for the whole cluster. Calls for its own partitions go directly to its engine; other calls go to their
 * holders. A call from a proxy or from another node is never sent on: the node serves it or refuses it with NOT_HOLDER.
 */
export function colocate(options: ColocatedOptions): Colocated {
  const { own, ownBackup, address, routes, log, limits, others, identities, channels } = options;
  const pool = others ?? new NodePool({ security: channels, seal: identities });
  const upstream = new LocalFirst({ own, ownBackup, address, others: pool, log });
  const router = new Router({ routes, upstream, clock: new SystemClock(), random: systemRandom, log, limits });
  const spread = createRouterService(router);
  const unary: Record<string, UnaryHandler> = {};
  for (const [method, handler] of Object.entries(own.unary)) {
    const spreadHandler = spread.unary[method] ?? handler;
    unary[method] = (request, caller) => (caller.routed ? handler : spreadHandler)(request, caller);
  }
  const spreadBackup = forwardBackups(router, upstream);
  return {
    backup: (request, caller) => (caller.routed ? ownBackup : spreadBackup)(request, caller),
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

interface LocalFirstOptions extends Pick<ColocatedOptions, 'own' | 'ownBackup' | 'address' | 'log'> {
  readonly others: Upstream & BackupUpstream;
}

/** Calls for this node skip the network. */
class LocalFirst implements Upstream, BackupUpstream {
  readonly #options: LocalFirstOptions;

  constructor(options: LocalFirstOptions) {
    this.#options = options;
  }

  isLocal(address: string): boolean {
    return address === this.#options.address();
  }

  unary(address: string, method: UnaryMethod, request: Uint8Array, options: UpstreamCallOptions): Promise<Uint8Array> {
    const { own, others, log } = this.#options;
    if (!this.isLocal(address)) return others.unary(address, method, request, options);
    return callService(own, method, request, options, log);
  }

  backupPartition(address: string, request: Uint8Array, options: UpstreamCallOptions): AsyncIterable<Uint8Array> {
    const { ownBackup, others, log } = this.#options;
    if (!this.isLocal(address)) return others.backupPartition(address, request, options);
    return streamFromService(ownBackup, request, options, log);
  }

  stream(address: string, options: { readonly peer: RoutedPeer }, listener: UpstreamListener): UpstreamPipe {
    return this.#options.others.stream(address, options, listener);
  }
}
