import { type Engine, openEngine } from '@taskmaster/engine';
import { SystemClock, systemRandom } from '@taskmaster/engine/ports';
import { type KeptLog, keptLog, SeededRandom, SimDisk } from '@taskmaster/engine/testing';
import { type Colocated, type ColocatedOptions, colocate } from '@taskmaster/node';
import { startNodeServer } from '@taskmaster/node/testing';
import { partitionOf } from '@taskmaster/proto';
import {
  createBackupForwarding,
  createRouterService,
  DEFAULT_ROUTER_LIMITS,
  NodePool,
  Router,
  type RouterLimits,
} from '@taskmaster/proxy/router';
import { FixedRoutes } from '@taskmaster/proxy/testing';
import type { RawService } from '@taskmaster/server/calls';
import {
  createBackupService,
  encodedBackup,
  GrpcServer,
  type GrpcServerDeps,
  type GrpcServerOptions,
} from '@taskmaster/server/grpc';
import type { TestServer } from '@taskmaster/server/testing';

export interface TestClusterOptions {
  /** Number of nodes. Default 3. */
  readonly nodes?: number;
  readonly limits?: Partial<RouterLimits>;
  readonly server?: Partial<GrpcServerOptions>;
  /** Rules, a key and an audit log, which the nodes and the proxy share. */
  readonly guard?: Required<Pick<GrpcServerDeps, 'access' | 'audit' | 'identities'>>;
  /** True if every node has its own router. */
  readonly colocated?: boolean;
  /** The index of the node that the proxy believes to hold a partition. Default: its real holder. */
  readonly believed?: (partition: number) => number | undefined;
}

interface TestNode {
  readonly engine: Engine;
  readonly server: TestServer;
  readonly address: string;
  readonly nodeId: string;
}

/** Nodes that hold the partitions in turn, and a proxy. gRPC is real, disks are simulated. */
export interface TestCluster extends AsyncDisposable {
  readonly nodes: readonly TestNode[];
  readonly routes: FixedRoutes;
  readonly router: Router;
  readonly pool: NodePool;
  /** gRPC port of the proxy. */
  readonly port: number;
  readonly server: GrpcServer;
  readonly log: KeptLog;
  /** A group that the node with this index holds. Different numbers give different groups. */
  groupAt(place: number, number?: number): string;
}

const PARTITIONS = 16;
/** The epoch of every holder. What the routes believe at first is one epoch older. */
const EPOCH = 2;

const SERVER: GrpcServerOptions = {
  host: '127.0.0.1',
  port: 0,
  keepaliveTimeMs: 60_000,
  keepaliveTimeoutMs: 20_000,
  maxConnectionAgeMs: 0,
  maxConnectionAgeGraceMs: 1_000,
  maxConcurrentCallsPerConnection: 1_000,
  maxConnections: 1_000,
  maxConnectionsPerAddress: 1_000,
  maxUnreadReplyBytes: 64 * 1024 * 1024,
  maxReceivingBytes: 64 * 1024 * 1024,
  maxWaitingBytes: 64 * 1024 * 1024,
  receiveTimeoutMs: 60_000,
  reflection: true,
};

export async function startTestCluster(options: TestClusterOptions = {}): Promise<TestCluster> {
  const count = options.nodes ?? 3;
  await using opened = new AsyncDisposableStack();
  const routes = new FixedRoutes({
    nodes: Array.from({ length: count }, (_, place) => `node-${place}`).map((name) => ({
      nodeId: name,
      name,
      address: 'not yet known:1',
      alive: true,
    })),
    partitions: PARTITIONS,
    holder: options.believed,
  });
  const front: Front | undefined = options.colocated
    ? (own) => opened.use(colocate({ ...own, routes, log: keptLog(), identities: options.guard?.identities }))
    : undefined;
  const nodes: TestNode[] = [];
  for (let place = 0; place < count; place++) {
    const node = await startNode(place, options, opened, front);
    routes.change(place, { address: node.address });
    nodes.push(node);
  }
  for (const { engine } of nodes) engine.partitions.locate((id) => locationOf(nodes, id));

  const log = keptLog();
  const pool = opened.use(new NodePool({ seal: options.guard?.identities }));
  const clock = new SystemClock();
  const limits = {
    ...DEFAULT_ROUTER_LIMITS,
    holdTimeoutMs: 2_000,
    maxHeldCalls: 1_000,
    fanOutTimeoutMs: 2_000,
    ...options.limits,
  };
  const router = new Router({ routes, upstream: pool, clock, random: systemRandom, log, limits });
  const server = new GrpcServer(
    { ...SERVER, ...options.server },
    {
      service: createRouterService(router),
      streaming: [createBackupForwarding(router, pool)],
      isServing: () => true,
      observer: { callEnded: () => {} },
      log,
      ...options.guard,
    },
  );
  const port = await server.start();
  opened.defer(async () => {
    router.stop();
    await server.stop(0);
  });
  const running = opened.move();
  return {
    nodes,
    routes,
    router,
    pool,
    port,
    server,
    log,
    groupAt: (place, number = 0) => groupIn((partition) => partition % count === place, number),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

async function startNode(
  place: number,
  { nodes: count = 3, guard }: TestClusterOptions,
  opened: AsyncDisposableStack,
  front: Front | undefined,
): Promise<TestNode> {
  const nodeId = `node-${place}`;
  const disk = new SimDisk({ random: new SeededRandom(place + 1) });
  const engine = await openEngine({
    store: disk.open(),
    clock: new SystemClock(),
    random: systemRandom,
    config: { partitions: PARTITIONS },
    clustered: true,
  });
  opened.defer(() => engine.stop());
  const mine = Array.from({ length: PARTITIONS }, (_, id) => id).filter((id) => id % count === place);
  await engine.partitions.claim(mine.map((id) => ({ id: id as never, epoch: EPOCH })));
  let address: string | undefined;
  const ownBackup = encodedBackup((request, { signal }) => engine.backups.backup(request, signal));
  engine.backups.identify({ clusterId: 'the-cluster', nodeId });
  let backup = ownBackup;
  const late = createBackupService((request, caller) => backup(request, caller));
  const inFront = (own: RawService): RawService => {
    const router = front?.({ own, ownBackup, address: () => address });
    backup = router?.backup ?? ownBackup;
    return router?.service ?? own;
  };
  const server = await startNodeServer(engine, { ...guard }, inFront, [], [late]);
  address = `127.0.0.1:${server.port}`;
  opened.defer(async () => {
    await server[Symbol.asyncDispose]();
  });
  return { engine, server, nodeId, address };
}

type Front = (own: Pick<ColocatedOptions, 'own' | 'ownBackup' | 'address'>) => Colocated;

function locationOf(nodes: readonly TestNode[], id: number) {
  const holder = nodes[id % nodes.length];
  return holder && { nodeId: holder.nodeId, address: holder.address, epoch: EPOCH };
}

function groupIn(wanted: (partition: number) => boolean, number: number): string {
  let left = number;
  for (let i = 0; ; i++) {
    const group = `g${i}`;
    if (wanted(partitionOf(group, PARTITIONS)) && left-- === 0) return group;
  }
}
