import { createRequire } from 'node:module';
import { completeConfig, engineConfigOf, type NodeConfig, type NodeConfigInput } from './config.ts';
import { Refusal } from './domain/errors.ts';
import type { EngineHealth, TaskEngine } from './engine/commands.ts';
import { openEngine } from './engine/engine.ts';
import { createHandlers, type Handlers } from './grpc/handlers.ts';
import { hostPort } from './grpc/host-port.ts';
import { createNodeService } from './grpc/node-service.ts';
import type { RawService } from './grpc/raw-service.ts';
import { GrpcServer } from './grpc/server.ts';
import { refusalOf, toWireError } from './grpc/status.ts';
import { isReady } from './http/health.ts';
import { NodeMetrics } from './http/metrics.ts';
import { nodeRoutes } from './http/node-routes.ts';
import { HttpServer } from './http/server.ts';
import { createLogger } from './logging.ts';
import { MeteredStore } from './metered-store.ts';
import type { Log } from './ports/log.ts';
import type { Store } from './ports/store.ts';
import { SystemClock } from './ports/system-clock.ts';
import { systemRandom } from './ports/system-random.ts';
import { openRocksStore } from './store/rocks-store.ts';

const { version } = createRequire(import.meta.url)('../package.json') as { readonly version: string };

export interface StartNodeOptions {
  /** Default: JSON lines on standard error, at the level of the settings. */
  readonly log?: Log;
  /** Puts something before the node's own service: a router that sends on what other nodes hold. */
  readonly front?: (own: RawService, node: NodeInside) => Front;
}

/** What stands before a node's service may know of the node. */
export interface NodeInside {
  /** `host:port` of gRPC; undefined until it is known. */
  readonly address: () => string | undefined;
  readonly log: Log;
}

/** What is served in the place of a node's own service. */
export interface Front extends Disposable {
  readonly service: RawService;
  /** Ends what waits; everything else goes on until it is disposed of. */
  stop(): void;
}

/** A node that serves. Disposing of it stops it. */
export interface RunningNode extends AsyncDisposable {
  /** `host:port` of gRPC, with the port that was really taken. */
  readonly grpcAddress: string;
  /** `host:port` of HTTP. */
  readonly httpAddress: string;
  /** Finishes what is in flight, for at most `stopGraceMs`, then closes everything. */
  stop(): Promise<void>;
}

/** The parts that are open; those that are not are undefined. */
interface Parts {
  store?: Store;
  engine?: TaskEngine;
  grpc?: GrpcServer;
  grpcAddress?: string;
}

/**
 * Starts a node: HTTP first, so that it can say that the node is starting, then the store, the engine and gRPC. Throws
 * `InvalidConfig`, the store's errors (`StoreLocked`, `StoreCorrupt`, …), or the system's (`EADDRINUSE`); then nothing
 * is left open.
 */
export async function startNode(settings: NodeConfigInput = {}, options: StartNodeOptions = {}): Promise<RunningNode> {
  const config = completeConfig(settings);
  const log = options.log ?? createLogger(config.logLevel);
  const parts: Parts = {};
  const metrics = createMetrics(config, parts);
  const http = createHttp(config, parts, metrics, log);

  await using opened = new AsyncDisposableStack();
  const httpPort = await http.start();
  opened.defer(() => http.stop());

  const rocks = await openRocksStore({ dir: config.dataDir, ...config.store, log, ...flushOf(config) });
  const store = new MeteredStore(rocks, (bytes, durationMs) => metrics.committed(bytes, durationMs));
  opened.use(store);
  parts.store = store;

  const clock = new SystemClock();
  const engine = await openEngine({ store, clock, random: systemRandom, config: engineConfigOf(config), log });
  opened.defer(() => engine.stop());
  parts.engine = engine;

  const own = createNodeService(createHandlers(engine, log));
  const front = options.front?.(own, { address: () => parts.grpcAddress, log });
  if (front !== undefined) opened.use(front);
  const { host, grpcPort } = config;
  const grpc = new GrpcServer(
    { ...config.grpc, host, port: grpcPort },
    { service: front?.service ?? own, isServing: () => isReady(engine.health), observer: metrics, log },
  );
  // Declared last, so that a stop begins here: long polls end before anything waits for their connections.
  opened.defer(() => stopServing(grpc, front, engine, config.stopGraceMs));
  parts.grpcAddress = hostPort(host, await grpc.start());
  parts.grpc = grpc;

  const running = opened.move();
  const httpAddress = hostPort(host, httpPort);
  log.info({ grpc: parts.grpcAddress, http: httpAddress, dataDir: config.dataDir, version }, 'serving');
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopped ??= running.disposeAsync();
    return stopped;
  };
  return { grpcAddress: parts.grpcAddress, httpAddress, stop, [Symbol.asyncDispose]: stop };
}

async function stopServing(
  grpc: GrpcServer,
  front: Front | undefined,
  engine: TaskEngine,
  graceMs: number,
): Promise<void> {
  grpc.drain();
  front?.stop();
  await engine.stop();
  await grpc.stop(graceMs);
}

function flushOf({ durability, durabilityFlushMs }: NodeConfig): { readonly flushIntervalMs?: number } {
  return durability === 'relaxed' ? { flushIntervalMs: durabilityFlushMs } : {};
}

function healthOf({ engine }: Parts): EngineHealth {
  return engine?.health ?? { kind: 'starting' };
}

function createMetrics(config: NodeConfig, parts: Parts): NodeMetrics {
  return new NodeMetrics({
    version,
    engine: () => parts.engine,
    health: () => healthOf(parts),
    storeSize: () => parts.store?.size(),
    connections: () => parts.grpc?.connections ?? 0,
    unreadReplyBytes: () => parts.grpc?.unreadReplyBytes ?? 0,
    queues: config.http.metricsQueues,
  });
}

function createHttp(config: NodeConfig, parts: Parts, metrics: NodeMetrics, log: Log): HttpServer {
  const began = performance.now();
  const handlers = (): Handlers => {
    if (parts.engine === undefined) throw new Refusal('STARTING', 'the node is opening its data');
    return createHandlers(parts.engine, log);
  };
  const toWireErrorLogged = (thrown: unknown) => toWireError(refusalOf(thrown, log));
  const routes = nodeRoutes({
    health: () => healthOf(parts),
    facts: () => ({ version, grpcAddress: parts.grpcAddress, uptimeMs: performance.now() - began }),
    queues: {
      listQueues: async (request) => handlers().listQueues(request),
      getQueueStats: async (request) => handlers().getQueueStats(request),
    },
    metrics,
    toWireError: toWireErrorLogged,
  });
  return new HttpServer({ host: config.host, port: config.httpPort }, { routes, toWireError: toWireErrorLogged });
}
