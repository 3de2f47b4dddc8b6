import { createRequire } from 'node:module';
import { LateRoutes } from '@taskmaster/server/cluster-view';
import { GrpcServer } from '@taskmaster/server/grpc';
import { type Log, SystemClock, systemRandom } from '@taskmaster/server/ports';
import { createLogger } from '@taskmaster/server/program';
import { hostPort, type RawService } from '@taskmaster/server/service';
import { completeProxyConfig, type ProxyConfigInput } from './config.ts';
import { type ObservedRoutes, openObservedRoutes } from './observed-routes.ts';
import { createProxyHttp } from './proxy-http.ts';
import { Reachability } from './router/reachability.ts';
import { Router } from './router/router.ts';
import { createClusterForwarding, createRouterService } from './router/router-service.ts';
import type { Routes } from './router/routes.ts';
import { NodePool } from './upstream/node-pool.ts';

const { version } = createRequire(import.meta.url)('../package.json') as { readonly version: string };

export interface StartProxyOptions {
  /** Default: JSON lines on standard error, at the level of the settings. */
  readonly log?: Log;
}

/** A proxy that serves. Disposing of it stops it. */
export interface RunningProxy extends AsyncDisposable {
  /** `host:port` of gRPC, with the port that was really taken. */
  readonly grpcAddress: string;
  /** `host:port` of HTTP. */
  readonly httpAddress: string;
  /** Resolves when a node can be reached, the first time; rejects where none ever will be: `ProxyRefusedError`. */
  readonly ready: Promise<void>;
  /** Why no node is known yet, for people. */
  readonly problem: string | undefined;
  /** Finishes what is in flight, for at most `stopGraceMs`, then closes everything. */
  stop(): Promise<void>;
}

/** The parts that are open; those that are not are undefined. */
interface Parts {
  routes?: Routes;
  observed?: ObservedRoutes;
  router?: Router;
  service?: RawService;
  reachability?: Reachability;
  grpc?: GrpcServer;
}

/**
 * Starts a proxy: HTTP first, so that it can say that it is starting, then the routes and gRPC. It starts without any node
 * to be reached, too, and says that it is not ready until there is one. Throws `InvalidConfigError` or the system's errors
 * (`EADDRINUSE`); then nothing is left open.
 */
export async function startProxy(settings: ProxyConfigInput, options: StartProxyOptions = {}): Promise<RunningProxy> {
  const config = completeProxyConfig(settings);
  const log = options.log ?? createLogger(config.logLevel);
  const parts: Parts = {};
  const isReady = (): boolean => parts.reachability?.isReachable ?? false;
  const { http, metrics } = createProxyHttp(
    { host: config.host, port: config.httpPort },
    {
      version,
      routes: () => parts.routes,
      figures: () => parts.router?.figures,
      service: () => parts.service,
      isReady,
      reachable: () => parts.reachability?.nodes.length ?? 0,
      problem: () => parts.observed?.problem(),
      connections: () => parts.grpc?.connections ?? 0,
      unreadReplyBytes: () => parts.grpc?.unreadReplyBytes ?? 0,
      log,
    },
  );

  await using opened = new AsyncDisposableStack();
  const httpPort = await http.start();
  opened.defer(() => http.stop());

  const routes = new LateRoutes();
  const pool = opened.use(new NodePool());
  const clock = new SystemClock();
  const router = new Router({ routes, upstream: pool, clock, random: systemRandom, log, limits: config.router });
  const service = createRouterService(router);
  const reachability = opened.use(
    new Reachability({ routes, isReachable: (address) => pool.isReachable(address), log }),
  );
  Object.assign(parts, { routes, router, service, reachability });
  const { host, grpcPort } = config;
  const grpc = new GrpcServer(
    { ...config.grpc, host, port: grpcPort },
    { service, others: [createClusterForwarding(router)], isServing: isReady, observer: metrics, log },
  );
  opened.defer(async () => {
    grpc.drain();
    router.stop();
    await grpc.stop(config.stopGraceMs);
  });
  const takenPort = await grpc.start();
  const grpcAddress = hostPort(host, takenPort);
  parts.grpc = grpc;
  const observed = opened.use(await openObservedRoutes(config, { grpcPort: takenPort, httpPort, version }, log));
  parts.observed = observed;
  routes.become(observed);
  const ready = observed.known.then(() => reachability.reached);
  ready.catch(() => {});

  const running = opened.move();
  const httpAddress = hostPort(host, httpPort);
  log.info({ grpc: grpcAddress, http: httpAddress, version, join: config.join }, 'listening; looking for the cluster');
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopped ??= running.disposeAsync();
    return stopped;
  };
  return {
    ...{ grpcAddress, httpAddress, ready, stop },
    get problem() {
      return observed.problem();
    },
    [Symbol.asyncDispose]: stop,
  };
}
