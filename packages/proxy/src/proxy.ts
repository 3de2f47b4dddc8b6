import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { type Log, SystemClock, systemRandom } from '@taskmaster/engine/ports';
import { openAudit } from '@taskmaster/server/audit';
import { hostPort, IdentitySeal, type RawService } from '@taskmaster/server/calls';
import { LateRoutes } from '@taskmaster/server/cluster-view';
import { GrpcServer, plainChannels, secureChannels } from '@taskmaster/server/grpc';
import { httpOptions } from '@taskmaster/server/http';
import {
  assertSecure,
  createLogger,
  logMemory,
  openConfiguredAccess,
  openTls,
  readClusterKeys,
  warnOfExposure,
} from '@taskmaster/server/program';
import { completeProxyConfig, type ProxyConfigInput } from './config.ts';
import { type ObservedRoutes, openObservedRoutes } from './observed-routes.ts';
import { createProxyHttp } from './proxy-http.ts';
import { createBackupForwarding } from './router/backups.ts';
import { createClusterForwarding, createRouterService } from './router/router-service.ts';
import { Reachability } from './router/routing/reachability.ts';
import { Router } from './router/routing/router.ts';
import type { Routes } from './router/routing/routes.ts';
import { Scaler } from './scaler/scaler.ts';
import { NodePool } from './upstream/node-pool.ts';

const { version } = createRequire(import.meta.url)('../package.json') as { readonly version: string };

export interface StartProxyOptions {
  /** Default: JSON lines on standard error, at the level in the settings. */
  readonly log?: Log;
}

/** A running proxy. Disposing it stops it. */
export interface RunningProxy extends AsyncDisposable {
  /** `host:port` of gRPC, with the actual port. */
  readonly grpcAddress: string;
  /** `host:port` of HTTP, with the actual port. */
  readonly httpAddress: string;
  /**
   * Resolves when a node can be reached for the first time. Rejects with `ProxyRefusedError` if the cluster refuses the proxy.
   */
  readonly ready: Promise<void>;
  /** The reason why no node is known, as text. Undefined if one is known, or if the reason is unknown. */
  readonly problem: string | undefined;
  /** Finishes calls in flight for up to `shutdownTimeoutMs`, then closes everything. */
  stop(): Promise<void>;
}

/** The parts that are open. A part that is not open yet is undefined. */
interface Parts {
  routes?: Routes;
  observed?: ObservedRoutes;
  router?: Router;
  service?: RawService;
  scaler?: Scaler;
  reachability?: Reachability;
  grpc?: GrpcServer;
  grpcAddress?: string;
  name?: string;
}

/**
 * Starts a proxy. HTTP starts first and reports that the proxy is starting. Then routes and gRPC start. The proxy also starts if
 * no node can be reached; it reports that it is not ready until one can. Rejects with `InvalidConfigError` or errors of the
 * system (`EADDRINUSE`). Nothing stays open then.
 */
export async function startProxy(settings: ProxyConfigInput, options: StartProxyOptions = {}): Promise<RunningProxy> {
  const { config, memory } = completeProxyConfig(settings);
  assertSecure(config);
  const log = options.log ?? createLogger(config.logLevel);
  logMemory(memory, log);
  warnOfExposure(config, log);
  await using opened = new AsyncDisposableStack();
  const { access } = opened.use(await openConfiguredAccess(config.access, log));
  const identities = new IdentitySeal(readClusterKeys(config.cluster.keyFile));
  const parts: Parts = {};
  const isReady = (): boolean => parts.reachability?.isReachable ?? false;
  const clock = new SystemClock();
  const audit = opened.use(openAudit(config.audit.file, clock, log));
  const tls = openTls(config.tls, log);
  if (tls !== undefined) opened.use(tls);
  const channels = tls === undefined ? plainChannels : secureChannels(tls);
  const { http, metrics, overview } = createProxyHttp(
    {
      host: config.host,
      port: config.httpPort,
      ...httpOptions(config.http, [config.host, config.name, hostname(), config.cluster.advertiseHost]),
    },
    {
      version,
      name: () => parts.name ?? config.name,
      cluster: () => parts.observed?.clusterId() ?? '',
      grpcAddress: () => parts.grpcAddress ?? '',
      memory,
      tls,
      audit,
      changes: audit.recent,
      routes: () => parts.routes,
      figures: () => parts.router?.figures,
      service: () => parts.service,
      methods: () => parts.grpc?.methods,
      isReady,
      reachable: () => parts.reachability?.nodes.length ?? 0,
      problem: () => parts.observed?.problem(),
      access,
      guardsMetrics: config.access.metrics,
      scalerStreams: () => parts.scaler?.streams ?? 0,
      gossip: () => parts.observed?.gossip(),
      clocks: () => parts.observed?.clocks() ?? [],
      grpc: () => parts.grpc,
      log,
    },
  );

  opened.use(overview.watch());
  const httpPort = await http.start();
  opened.defer(() => http.stop());

  const routes = new LateRoutes();
  const pool = opened.use(new NodePool({ security: channels, seal: identities }));
  const router = new Router({ routes, upstream: pool, clock, random: systemRandom, log, limits: config.router });
  const service = createRouterService(router);
  const scaler = new Scaler(router, config.scaler);
  const reachability = opened.use(
    new Reachability({ routes, isReachable: (address) => pool.isReachable(address), log }),
  );
  Object.assign(parts, { routes, router, service, scaler, reachability });
  const { host, grpcPort } = config;
  const services = {
    others: [createClusterForwarding(router), scaler.unary],
    streaming: [createBackupForwarding(router, pool), scaler.streaming],
  };
  const grpc = new GrpcServer(
    {
      ...config.grpc,
      host,
      port: grpcPort,
      maxReceivingBytes: config.router.maxInFlightBytes,
      isReflectionGuarded: config.access.reflection,
    },
    {
      service,
      access,
      identities,
      cluster: () => parts.observed?.clusterId() ?? '',
      ...services,
      isServing: isReady,
      observer: metrics,
      tls,
      log,
      audit,
    },
  );
  opened.defer(async () => {
    grpc.drain();
    router.stop();
    await grpc.stop(config.shutdownTimeoutMs);
  });
  const takenPort = await grpc.start();
  const grpcAddress = hostPort(host, takenPort);
  parts.grpc = grpc;
  parts.grpcAddress = grpcAddress;
  parts.name = config.name || `${hostname()}:${takenPort}`;
  const observed = opened.use(
    await openObservedRoutes(config, { name: parts.name, grpcPort: takenPort, httpPort, version }, { channels, log }),
  );
  parts.observed = observed;
  routes.become(observed);
  const ready = observed.known.then(() => reachability.reached);
  ready.catch(() => {});

  const running = opened.move();
  const httpAddress = hostPort(host, httpPort);
  log.info({ grpc: grpcAddress, http: httpAddress, version, join: config.join }, 'listening; looking for its cluster');
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopped ??= running.disposeAsync();
    return stopped;
  };
  return {
    grpcAddress,
    httpAddress,
    ready,
    stop,
    get problem() {
      return observed.problem();
    },
    [Symbol.asyncDispose]: stop,
  };
}
