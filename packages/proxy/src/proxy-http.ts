import { Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import {
  encodeToBuffer,
  ListQueuesRequest,
  ListQueuesResponse,
  ListSchedulesRequest,
  ListSchedulesResponse,
} from '@taskmaster/proto';
import type { Access, CallerAccess } from '@taskmaster/server/access';
import { type RawService, refusalOf, toWireError, type UnaryCaller, type UnaryHandler } from '@taskmaster/server/calls';
import type { ClockDifference } from '@taskmaster/server/cluster-view';
import {
  addClockMetrics,
  addGossipMetrics,
  addPrincipalQuotaMetrics,
  consoleFiles,
  HttpServer,
  type HttpServerOptions,
  jsonReply,
  livez,
  meApi,
  Overview,
  type QueueReads,
  queuesApi,
  type Route,
  RpcMetrics,
  type RpcMetricsSources,
  type ScheduleReads,
  type ServerFacts,
  schedulesApi,
} from '@taskmaster/server/http';
import type { Audit, MembershipFigures } from '@taskmaster/server/ports';
import type { Tls } from '@taskmaster/server/tls';
import type { RouterFigures } from './router/routing/router.ts';
import type { Routes } from './router/routing/routes.ts';

export interface ProxyHttpDeps {
  readonly version: string;
  /** Its name in the cluster. Empty: it has none before gRPC listens. */
  readonly name: () => string;
  /** Id of the cluster. Empty: unknown. */
  readonly cluster: () => string;
  /** `host:port`. Empty: gRPC does not listen yet. */
  readonly grpcAddress: () => string;
  readonly memory: RpcMetricsSources['memory'];
  readonly tls: Tls | undefined;
  readonly audit: Audit;
  /** The last lines of the audit log about changes. */
  readonly changes: () => readonly string[];
  readonly grpc: RpcMetricsSources['grpc'];
  readonly routes: () => Routes | undefined;
  readonly figures: () => RouterFigures | undefined;
  readonly service: () => RawService | undefined;
  /** What gRPC serves with one reply, by name. Undefined: not yet. */
  readonly methods: () => Readonly<Record<string, UnaryHandler>> | undefined;
  readonly isReady: () => boolean;
  /** Number of nodes that could be reached in the last try. */
  readonly reachable: () => number;
  /** The reason why no node is known, as text. Undefined if the reason is unknown. */
  readonly problem: () => string | undefined;
  /** Number of open streams of autoscalers. */
  readonly scalerStreams: () => number;
  readonly gossip: () => MembershipFigures | undefined;
  readonly clocks: () => readonly ClockDifference[];
  /** The rules of access. Undefined: every caller may do everything. */
  readonly access: Access | undefined;
  /** Whether metrics need a credential. */
  readonly guardsMetrics: boolean;
  readonly log: Log;
}

/** Creates the HTTP server of a proxy: health, metrics and queues. */
export function createProxyHttp(
  options: HttpServerOptions,
  deps: ProxyHttpDeps,
): { readonly http: HttpServer; readonly metrics: RpcMetrics; readonly overview: Overview } {
  const metrics = createMetrics(deps);
  const began = performance.now();
  const methods = (): Readonly<Record<string, UnaryHandler>> => {
    const known = deps.methods();
    if (known === undefined) throw new Refusal('STARTING', 'the proxy is starting');
    return known;
  };
  const overview = new Overview({
    servedBy: () => ({ role: 'proxy', name: deps.name() }),
    methods,
    nodes: () => deps.routes()?.nodes() ?? [],
    clocks: deps.clocks,
    wall: () => Date.now(),
    changes: deps.changes,
  });
  const me: Route = (_query, caller, address) =>
    meApi(deps.access, caller, address, () => factsOf(deps, performance.now() - began));
  const routes = new Map<string, Route>([
    ['/livez', livez],
    ['/readyz', () => readyz(deps)],
    ['/metrics', async () => ({ status: 200, type: metrics.contentType, body: await metrics.text() })],
    ['/api/me', me],
    ['/api/overview', (query, access) => overview.reply(query, access)],
    ['/api/queues', (query, access) => queuesApi(readsOf(deps), query, access)],
    ['/api/schedules', (query, access) => schedulesApi(readsOf(deps), query, access)],
  ]);
  const http = new HttpServer(options, {
    routes,
    tls: deps.tls,
    audit: deps.audit,
    access: deps.access,
    guardsMetrics: deps.guardsMetrics,
    toWireError: (thrown) => toWireError(refusalOf(thrown, deps.log)),
    files: consoleFiles(),
    rpc: {
      handlers: methods,
      observer: metrics,
      log: deps.log,
    },
  });
  return { http, metrics, overview };
}

function factsOf(deps: ProxyHttpDeps, uptimeMs: number): ServerFacts {
  const ready = deps.isReady();
  return {
    role: 'proxy',
    name: deps.name(),
    version: deps.version,
    cluster: deps.cluster(),
    grpcAddress: deps.grpcAddress(),
    uptimeMs: Math.round(uptimeMs),
    health: ready ? 'serving' : 'waiting',
    healthMessage: ready ? 'nodes of the cluster can be reached' : notReadyBecause(deps),
  };
}

function notReadyBecause({ routes, problem }: ProxyHttpDeps): string {
  if ((routes()?.nodes().length ?? 0) > 0) return 'no node of the cluster can be reached';
  const found = problem();
  return found === undefined ? 'the proxy is looking for its cluster' : `no node of the cluster answers: ${found}`;
}

function readyz(deps: ProxyHttpDeps) {
  const { isReady, routes, reachable } = deps;
  const nodes = routes()?.nodes().length ?? 0;
  if (isReady()) return jsonReply({ status: 'ready', nodes, reachable: reachable() });
  const reason = notReadyBecause(deps);
  return jsonReply({ status: 'not ready', reason, nodes, reachable: 0 }, 503);
}

function createMetrics({
  version,
  memory,
  routes,
  figures,
  scalerStreams,
  gossip,
  clocks,
  grpc,
  tls,
  access,
}: ProxyHttpDeps): RpcMetrics {
  const metrics = new RpcMetrics({ version, memory, grpc, tls: () => tls, access: () => access });
  metrics.gauge(
    'proxy_nodes',
    'Members that may hold partitions. Label alive: whether gossip reaches the member.',
    ['alive'],
    (gauge) => {
      const nodes = routes()?.nodes() ?? [];
      const alive = nodes.filter((node) => node.alive).length;
      gauge.labels('true').set(alive);
      gauge.labels('false').set(nodes.length - alive);
    },
  );
  metrics.gauge(
    'proxy_held_calls',
    'Calls that wait for a group that moves or for a node that restarts.',
    [],
    (gauge) => gauge.set(figures()?.held ?? 0),
  );
  metrics.counter(
    'proxy_rerouted_total',
    'Calls sent to another node because their group had moved.',
    () => figures()?.rerouted,
  );
  metrics.counter('proxy_repeated_total', 'Calls repeated after a delay.', () => figures()?.repeated);
  metrics.gauge('proxy_scaler_streams', 'Open streams of autoscalers.', [], (gauge) => gauge.set(scalerStreams()));
  addGossipMetrics(metrics, gossip);
  addClockMetrics(metrics, clocks);
  addPrincipalQuotaMetrics(metrics, () => access);
  return metrics;
}

/** The caller of calls over HTTP. It is unknown whether the browser still waits. */
const httpCaller = (access: CallerAccess): UnaryCaller => ({
  address: 'http',
  access,
  gone: false,
  signal: undefined,
  routed: false,
  forwarded: false,
  deadline: Number.POSITIVE_INFINITY,
});

function readsOf({ service }: ProxyHttpDeps): QueueReads & ScheduleReads {
  const ask = async (method: string, request: Buffer, access: CallerAccess): Promise<Uint8Array> => {
    const handler = service()?.unary[method];
    if (handler === undefined) throw new Refusal('STARTING', 'the proxy is starting');
    return handler(request, httpCaller(access));
  };
  return {
    listQueues: async (request, access) =>
      ListQueuesResponse.decode(await ask('ListQueues', encodeToBuffer(ListQueuesRequest, request), access)),
    listSchedules: async (request, access) =>
      ListSchedulesResponse.decode(await ask('ListSchedules', encodeToBuffer(ListSchedulesRequest, request), access)),
  };
}
