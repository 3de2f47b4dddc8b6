import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { DEFAULT_ENGINE_CONFIG, type Engine, inspectStore, MemoryStore, openEngine } from '@taskmaster/engine';
import { Refusal } from '@taskmaster/engine/domain';
import { type Log, type Store, StoreLostError, SystemClock, systemRandom } from '@taskmaster/engine/ports';
import { DEFAULT_ROUTER_LIMITS } from '@taskmaster/proxy/router';
import type { Access, CallerAccess } from '@taskmaster/server/access';
import { openAudit } from '@taskmaster/server/audit';
import {
  type Caller,
  hostPort,
  IdentitySeal,
  LateService,
  refusalOf,
  type StreamingHandler,
  toWireError,
} from '@taskmaster/server/calls';
import { LateRoutes, releaseOf } from '@taskmaster/server/cluster-view';
import { assertResolves, type HeldPort, holdPort } from '@taskmaster/server/gossip';
import {
  type ClusterHandlers,
  createBackupService,
  createClusterService,
  createPeerService,
  encodedBackup,
  GrpcServer,
  PeerNetwork,
  PeerSeal,
  plainChannels,
  secureChannels,
} from '@taskmaster/server/grpc';
import {
  consoleFiles,
  explainHealth,
  HttpServer,
  httpOptions,
  isReady,
  meApi,
  type NodeHealth,
  Overview,
  type ServerFacts,
} from '@taskmaster/server/http';
import { type Audit, isPeerAt } from '@taskmaster/server/ports';
import {
  assertSecure,
  createLogger,
  logMemory,
  openConfiguredAccess,
  openTls,
  readClusterKeys,
  warnOfExposure,
  withoutPasswords,
} from '@taskmaster/server/program';
import type { Tls } from '@taskmaster/server/tls';
import { MemberRoutes } from './cluster/member-routes.ts';
import { MemberStore } from './cluster/membership/member-store.ts';
import { takeStartingRole } from './cluster/membership/starting-role.ts';
import { type Member, openMember } from './cluster/open-member.ts';
import { memberSettings, startingRoleSettings } from './cluster-settings.ts';
import { type Colocated, colocate } from './colocated.ts';
import { completeConfig, engineConfigOf, type NodeConfig, type NodeConfigInput } from './config.ts';
import { NodeMetrics } from './http/metrics.ts';
import { nodeRoutes } from './http/node-routes.ts';
import { NodeTroubles } from './http/node-troubles.ts';
import { accessOfPod, ConfigMapRecord, openApi } from './kubernetes/index.ts';
import type { NodeMemory } from './memory.ts';
import { MeteredStore } from './metered-store.ts';
import { LONE_NAME, openSharedStore, type SharedStore, stopWithin } from './open-shared-store.ts';
import { endOfBulkRun } from './service/handlers/bulk-runs.ts';
import { createHandlers, type Handlers } from './service/handlers.ts';
import { createNodeService } from './service/node-service.ts';
import { FairTurns } from './service/turns/fair-turns.ts';
import { type NodeFacts, QueueWatch } from './service/watch/queue-watch.ts';
import { version } from './version.ts';

export interface StartNodeOptions {
  /** Default: JSON lines on standard error, at the level of the settings. */
  readonly log?: Log;
  /** Aborts the start, for example while the node asks to join a cluster. `startNode` rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /**
   * For development. In memory: the data ends with the node, which loads nothing native and uses no directory. And events of all
   * groups are kept from the first task on, with the beginning of its data. Default: neither.
   */
  readonly development?: { readonly inMemory: boolean };
}

/** A running node. Disposing of it stops it. */
export interface RunningNode extends AsyncDisposable {
  /** `host:port` of gRPC, with the actual port. */
  readonly grpcAddress: string;
  /** `host:port` of HTTP. */
  readonly httpAddress: string;
  /** The node as a member of its cluster; undefined for a node without a cluster. */
  readonly member: RunningMember | undefined;
  /** Resolves when the node may use its store no more: it answers nothing from then on, and is to be stopped. */
  readonly lost: Promise<StoreLostError>;
  /** Finishes requests in progress, for at most `shutdownTimeoutMs`, then closes everything. */
  stop(): Promise<void>;
}

/** A running node as a member of its cluster. */
export interface RunningMember {
  readonly name: string;
  readonly clusterId: string;
  /** gRPC address (`host:port`) that other nodes use for this node. */
  readonly rpcAddress: string;
  readonly gossipAddress: string;
  /** Hands all partitions over and leaves the cluster. Resolves when both are done; the node serves nothing afterwards. */
  drain(signal?: AbortSignal): Promise<void>;
  /** Resolves when the node has left the cluster, for any reason. */
  readonly left: Promise<void>;
  /**
   * Resolves when another member has confirmed that this node is still a member. Until then the node serves nothing. Rejects
   * if the node is no longer a member.
   */
  readonly confirmed: Promise<void>;
  /**
   * Resolves when the node learns that it was removed, or that its data directory is an older copy. The node serves nothing
   * afterwards.
   */
  readonly barred: Promise<void>;
  /** Why the node serves nothing now, as text for operators; undefined while it serves. */
  readonly problem: string | undefined;
}

/** The open parts of a node. A part that is not open yet is undefined. */
interface Parts {
  tls?: Tls | undefined;
  readonly access: Access | undefined;
  store?: Store;
  /** The store, if it is in a database. */
  database?: SharedStore | undefined;
  engine?: Engine;
  backup?: StreamingHandler;
  grpc?: GrpcServer;
  grpcAddress?: string;
  member?: Member;
  routes?: LateRoutes;
  /** What the node waits for before it is a member, as text for operators; undefined afterwards. */
  joining?: string | undefined;
  /** For a node without a cluster: tells it from all others. */
  alone?: string;
  /** Entries of the commit log that were replayed at the start. */
  replayedAtoms?: number;
}

/**
 * Starts a node. HTTP starts first, so that `/readyz` can report the start; then the store, the engine, gRPC and, in a cluster,
 * the membership. Rejects with `InvalidConfigError`, `ClusterStartError`, errors of the store (`StoreNewerError`,
 * `StoreLockedError`, `StoreCorruptError`, …) or of the system (`EADDRINUSE`). Then everything is closed again.
 */
export async function startNode(settings: NodeConfigInput = {}, options: StartNodeOptions = {}): Promise<RunningNode> {
  const { config, memory } = completeConfig(settings);
  assertSecure(config);
  const keys = readClusterKeys(config.cluster.keyFile);
  const log = options.log ?? createLogger(config.logLevel);
  logMemory(memory, log);
  warnOfExposure(config, log);
  await using opened = new AsyncDisposableStack();
  const { access } = opened.use(await openConfiguredAccess(config.access, log));
  const identities = new IdentitySeal(keys);
  const parts: Parts = { access };
  const metrics = createMetrics(config, memory, parts);
  const tls = openTls(config.tls, log);
  if (tls !== undefined) opened.use(tls);
  parts.tls = tls;
  const channels = tls === undefined ? plainChannels : secureChannels(tls);
  const audit = opened.use(openAudit(config.audit.file, new SystemClock(), log));
  const { http, overview } = createHttp(config, { parts, metrics, tls, audit, log });
  opened.use(overview.watch());
  const httpPort = await http.start();
  opened.defer(() => http.stop());

  const shared = await openShared(config, log, metrics);
  parts.database = shared;
  const clock = new SystemClock({
    correction: config.clock.correctionMsPerSecond / 1000,
    catchesUp: config.clock.catchUpAtStart,
    // Machines that take each other's place agree about the time.
    wall: shared && (() => shared.time()),
  });
  const inDirectory = async (): Promise<Store> => {
    // Loaded only here, because it is native.
    const { openRocksStore } = await import('./store/rocks-store.ts');
    return openRocksStore({ dir: config.dataDir, release: version, ...config.store, log, ...flushOf(config) });
  };
  const inMemory = options.development?.inMemory ? new MemoryStore() : undefined;
  const turns = new FairTurns({ maxWaitingBytes: config.engine.maxInFlightBytes });
  const store = new MeteredStore(shared ?? inMemory ?? (await inDirectory()), (bytes, durationMs) => {
    metrics.committed(bytes, durationMs);
    turns.synced(durationMs);
  });
  opened.use(store);
  parts.store = store;
  const lost = Promise.withResolvers<StoreLostError>();
  store.onStateChange((state) => {
    if (state.kind === 'failed' && state.cause instanceof StoreLostError) lost.resolve(state.cause);
  });

  const seal = new PeerSeal(keys);
  const { call } = opened.use(new PeerNetwork(seal, undefined, channels));
  const isShared = shared !== undefined && sharesStore(config);
  const memberStore = new MemberStore(store, isShared ? shared.holders.self : undefined);
  const { host, grpcPort } = config;
  const service = new LateService(() => new Refusal('STARTING', explainHealth(healthOf(parts))));
  const grpc: GrpcServer = new GrpcServer(
    {
      ...config.grpc,
      host,
      port: grpcPort,
      maxReceivingBytes: config.engine.maxInFlightBytes,
      isReflectionGuarded: config.access.reflection,
    },
    {
      service,
      access,
      identities,
      others: [
        createClusterService(() => parts.member?.administration ?? joiningOf(parts)),
        createPeerService(() => parts.member?.handlers, seal, {
          name: tls?.settings.peerName ?? '',
          namesOf: (connection) => grpc.certificateNames(connection),
        }),
      ],
      streaming: [createBackupService(lateBackup(parts))],
      cluster: () => parts.member?.identity.clusterId ?? parts.alone ?? '',
      isServing: () => isReady(healthOf(parts)),
      isMember: (address) => isPeerAt(parts.member?.membership.peers() ?? [], address),
      observer: metrics,
      tls,
      log,
      audit,
    },
  );
  const listen = async (): Promise<number> => {
    const port = await grpc.start();
    parts.grpc = grpc;
    parts.grpcAddress = hostPort(host, port);
    return port;
  };
  let listening: number | undefined;
  let gossipPort: HeldPort | undefined;
  opened.defer(() => gossipPort?.release());
  // For a start that fails before the node serves. Otherwise gRPC has stopped already.
  opened.defer(() => (parts.grpc ? grpc.stop(config.shutdownTimeoutMs) : undefined));
  const role = await takeStartingRole(startingRoleSettings(config), {
    memberStore,
    call,
    clock,
    log,
    release: releaseOf(version),
    record: isShared ? shared : recordOf(config),
    inspect: async () => {
      const contents = await inspectStore(store);
      // Queues in a shared store are those of all members.
      return isShared ? { ...contents, hasQueues: false } : contents;
    },
    // gRPC listens before the node asks to join, so that callers learn what the node waits for.
    prepare: async () => {
      parts.joining = 'it asks a member to admit it';
      if (config.cluster.advertiseHost !== '') await assertResolves(config.cluster.advertiseHost);
      gossipPort = await holdPort(host, config.gossipPort);
      listening = await listen();
    },
    signal: options.signal ?? new AbortController().signal,
    onAsking: (problem) => {
      parts.joining = `no member admits it: ${problem}`;
    },
  });
  const clustered = role.kind === 'member';
  if (!clustered) parts.alone = `alone-${randomBytes(8).toString('hex')}`;
  parts.joining = undefined;
  const engineConfig = engineConfigOf(config, clustered ? role.partitions : undefined);
  const engine = await openEngine({
    store,
    clock,
    random: systemRandom,
    config: engineConfig,
    clustered,
    shared: isShared ? shared.holders : undefined,
    log,
    groupLimits: (group) => parts.access?.table.limitsOfGroup(group),
    onReplay: (atoms) => {
      parts.replayedAtoms = atoms;
    },
    onRun: (lateMs) => metrics.ran(lateMs),
    onBulkRunEnd: (run) => audit.record(endOfBulkRun(run)),
    tellsAll: options.development !== undefined,
  });
  if (clustered) parts.joining = 'it becomes active';
  opened.defer(() => engine.stop());
  warnOfPartitions(config.engine.partitions, engine.partitions.count, log);
  // Commits wait until the agent guards the partitions of this node.
  if (clustered) {
    const refused = Promise.reject(new Refusal('STARTING', 'the node is joining its cluster'));
    // Not every caller awaits it, and Node.js reports unhandled rejections.
    refused.catch(() => {});
    engine.partitions.guard(() => refused);
  }
  parts.engine = engine;

  const watch = new QueueWatch(engine, { facts: createFacts(config, parts, audit.recent) });
  opened.use(watch.start((err) => log.error({ err }, 'the queues could not be looked at')));
  const own = createNodeService(createHandlers(engine, log, watch), turns);
  if (clustered) engine.backups.identify(role.identity);
  const ownBackup = encodedBackup((request, { signal }) => engine.backups.backup(request, signal));
  const routes = new LateRoutes();
  parts.routes = routes;
  const address = (): string | undefined => parts.member?.rpcAddress;
  // Requests that the router forwards are in flight, too.
  const holdTimeoutMs = isShared ? SHARED_HOLD_TIMEOUT_MS : DEFAULT_ROUTER_LIMITS.holdTimeoutMs;
  const limits = { ...DEFAULT_ROUTER_LIMITS, holdTimeoutMs, maxInFlightBytes: engineConfig.maxInFlightBytes };
  const router =
    clustered && config.withRouter
      ? colocate({ own, ownBackup, address, routes, log, limits, identities, channels })
      : undefined;
  if (router !== undefined) opened.use(router);
  // Deferred after all but the member, so that a stop begins here: long polls must end before anything waits for their
  // connections.
  opened.defer(() => stopServing(grpc, router, engine, config.shutdownTimeoutMs));
  service.become(router?.service ?? own);
  parts.backup = router?.backup ?? ownBackup;
  const takenPort = listening ?? (await listen());
  const grpcAddress = hostPort(host, takenPort);

  if (clustered) {
    await gossipPort?.release();
    const member = await openMember(memberSettings(config, { grpcPort: takenPort, httpPort, keys, version }), {
      role,
      memberStore,
      partitions: engine.partitions,
      holders: isShared ? shared.holders : undefined,
      call,
      clock,
      log,
      audit,
      random: systemRandom,
      handedOver: (frozenMs) => metrics.handedOver(frozenMs),
    });
    opened.use(member);
    routes.become(new MemberRoutes(member.agent, member.membership));
    parts.member = member;
    await unlessAborted(member.enter(), options.signal);
    delete parts.joining;
  }

  const running = opened.move();
  const httpAddress = hostPort(host, httpPort);
  const member = parts.member && describeMember(parts.member);
  const data = shared === undefined ? { dataDir: config.dataDir } : { store: withoutPasswords(config.store.url) };
  const facts = { grpc: grpcAddress, http: httpAddress, ...data, version };
  const serving = (): void => {
    grpc.becameReady();
    log.info(facts, 'serving');
  };
  // A node that is never confirmed logs the reason elsewhere.
  if (member) member.confirmed.then(serving).catch(() => {});
  else serving();
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopped ??= stopWithin(config.shutdownTimeoutMs, shared, () => running.disposeAsync());
    return stopped;
  };
  return { grpcAddress, httpAddress, member, lost: lost.promise, stop, [Symbol.asyncDispose]: stop };
}

/** The store in a database. Undefined: the data is in a directory. */
async function openShared(config: NodeConfig, log: Log, { database }: NodeMetrics): Promise<SharedStore | undefined> {
  const { url, schema } = config.store;
  if (url === '') return undefined;
  const isShared = sharesStore(config);
  const name = config.name || (isShared ? hostname() : LONE_NAME);
  const onStatement = database.answered.bind(database);
  const shared = isShared ? { shared: { requestIdWindowMs: config.engine.requestIdWindowMs } } : {};
  return openSharedStore({ url, schema, name, ...shared, release: version, log, onStatement });
}

/** Whether a node whose store is a database shares it with the members of a cluster. */
const sharesStore = ({ bootstrap, join }: NodeConfig): boolean => bootstrap || join.length > 0;

/** Longer than it takes until another member serves the partitions of one that died. */
const SHARED_HOLD_TIMEOUT_MS = 6_000;

/** Where the id of the cluster is recorded outside of the data directory. */
function recordOf({ kubernetes: { clusterConfigMap } }: NodeConfig): ConfigMapRecord | undefined {
  if (clusterConfigMap === '') return undefined;
  return new ConfigMapRecord(async () => openApi(await accessOfPod(process.env)), clusterConfigMap);
}

function warnOfPartitions(wanted: number, count: number, log: Log): void {
  if (wanted === count || wanted === DEFAULT_ENGINE_CONFIG.partitions) return;
  log.warn({ wanted, count }, `--engine-partitions has no effect on existing data: there are ${count} partitions`);
}

/** Refuses backups until the engine is open. */
function lateBackup(parts: Parts): StreamingHandler {
  return async function* (request, caller) {
    if (parts.backup === undefined) throw new Refusal('STARTING', explainHealth(healthOf(parts)));
    yield* parts.backup(request, caller);
  };
}

/** Refuses the calls of operators while the node is joining; undefined for a node without a cluster. */
function joiningOf(parts: Parts): ClusterHandlers | undefined {
  if (parts.joining === undefined) return undefined;
  const refuse = () => Promise.reject(new Refusal('STARTING', explainHealth(healthOf(parts))));
  return {
    listMembers: refuse,
    listPartitions: refuse,
    drainMember: refuse,
    resumeMember: refuse,
    removeMember: refuse,
  };
}

function describeMember({ agent, membership, rpcAddress, identity }: Member): RunningMember {
  return {
    name: identity.name,
    clusterId: identity.clusterId,
    rpcAddress,
    gossipAddress: membership.gossipAddress,
    drain: (signal) => agent.drain(signal),
    left: agent.left,
    confirmed: agent.confirmed,
    barred: agent.barred,
    get problem() {
      return agent.problem;
    },
  };
}

function unlessAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (!signal) return work;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = (): void => reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  return promise;
}

async function stopServing(
  grpc: GrpcServer,
  router: Colocated | undefined,
  engine: Engine,
  graceMs: number,
): Promise<void> {
  grpc.drain();
  router?.stop();
  await engine.stop();
  await grpc.stop(graceMs);
}

function flushOf({ durability, durabilityFlushIntervalMs }: NodeConfig): { readonly flushIntervalMs?: number } {
  return durability === 'relaxed' ? { flushIntervalMs: durabilityFlushIntervalMs } : {};
}

/** After this time without an answer of its database, a node is not ready, in ms. A failover may be faster. */
const SILENT_DATABASE_MS = 5_000;

function healthOf({ engine, joining, member, database, access, replayedAtoms = 0 }: Parts): NodeHealth {
  if (joining !== undefined) return { kind: 'joining', problem: joining };
  const health = engine?.health ?? { kind: 'starting', replayedAtoms };
  const problem = member?.agent.problem;
  if (!isReady(health)) return health;
  if (problem !== undefined) return { kind: 'waiting', problem };
  const silentMs = database?.figures().waitingMs ?? 0;
  if (silentMs > SILENT_DATABASE_MS) {
    const seconds = Math.floor(silentMs / 1000);
    return { kind: 'waiting', problem: `the database has not answered for ${seconds} s, and calls wait for it` };
  }
  // Without rules no member refuses a caller.
  const refused = access && member?.agent.forwardingProblem;
  return refused === undefined ? health : { kind: 'skewed', problem: refused };
}

/** What the node says of itself in an overview. */
function createFacts({ name }: NodeConfig, parts: Parts, changes: () => readonly string[]): () => NodeFacts {
  const troubles = new NodeTroubles();
  return () => {
    const { member, tls, access, engine } = parts;
    const health = healthOf(parts);
    const space = parts.store?.size().space;
    const reloads = { tls: tls?.reloadFailed, access: access?.reloadFailed };
    const reloadsFailed = Object.entries(reloads).flatMap(([what, failed]) => (failed === true ? [what] : []));
    const state = { health, space, expiresAt: tls?.material.expiresAt, reloadsFailed, figures: engine?.figures() };
    return {
      nodeId: member?.identity.nodeId ?? '',
      name: member?.identity.name ?? name,
      version,
      health: health.kind,
      troubles: troubles.look(state, Date.now()),
      diskFreeBytes: space?.freeBytes,
      diskFullBelowBytes: space?.fullBelowBytes,
      changes: [...changes()],
    };
  };
}

function createMetrics(config: NodeConfig, memory: NodeMemory, parts: Parts): NodeMetrics {
  return new NodeMetrics({
    version,
    memory,
    engine: () => parts.engine,
    health: () => healthOf(parts),
    storeSize: () => parts.store?.size(),
    database: () => parts.database?.figures(),
    cluster: () => parts.member?.figures(),
    grpc: () => parts.grpc,
    tls: () => parts.tls,
    access: () => parts.access,
    limitedGroups: () => parts.engine?.limitedGroups() ?? [],
    maxQueues: config.http.maxQueueMetrics,
  });
}

/** The caller of requests over HTTP. It is unknown whether the browser still waits. */
const httpCaller = (access: CallerAccess): Caller => ({ address: 'http', access, gone: false, signal: undefined });

interface HttpParts {
  readonly parts: Parts;
  readonly metrics: NodeMetrics;
  readonly tls: Tls | undefined;
  readonly audit: Audit;
  readonly log: Log;
}

function createHttp(
  config: NodeConfig,
  { parts, metrics, tls, audit, log }: HttpParts,
): { readonly http: HttpServer; readonly overview: Overview } {
  const began = performance.now();
  const handlers = (): Handlers => {
    if (parts.engine === undefined) throw new Refusal('STARTING', 'the node is opening its data');
    return createHandlers(parts.engine, log);
  };
  const { host, httpPort: port, name } = config;
  const { access } = parts;
  const facts = (): ServerFacts => {
    const { member, alone = '', grpcAddress = '' } = parts;
    const health = healthOf(parts);
    return {
      role: 'node',
      name: member?.identity.name ?? name,
      version,
      cluster: member?.identity.clusterId ?? alone,
      grpcAddress,
      uptimeMs: Math.round(performance.now() - began),
      health: health.kind,
      healthMessage: explainHealth(health),
    };
  };
  const toWireErrorLogged = (thrown: unknown) => toWireError(refusalOf(thrown, log));
  const methods = (): GrpcServer['methods'] => {
    if (parts.grpc === undefined) throw new Refusal('STARTING', 'the node is opening its data');
    return parts.grpc.methods;
  };
  const overview = new Overview({
    servedBy: () => ({ role: 'node', name: facts().name }),
    methods,
    nodes: () => parts.routes?.nodes() ?? [],
    clocks: () => parts.member?.figures().clocks ?? [],
    wall: () => Date.now(),
  });
  const routes = nodeRoutes({
    health: () => healthOf(parts),
    reads: {
      listQueues: async (request, access) => handlers().listQueues(request, httpCaller(access)),
      listSchedules: async (request, access) => handlers().listSchedules(request, httpCaller(access)),
    },
    me: (_query, caller, address) => meApi(access, caller, address, facts),
    overview: (query, caller) => overview.reply(query, caller),
    metrics,
  });
  const names = [host, name, hostname(), config.cluster.advertiseHost];
  const options = { host, port, ...httpOptions(config.http, names) };
  const guardsMetrics = config.access.metrics;
  const http = new HttpServer(options, {
    routes,
    toWireError: toWireErrorLogged,
    tls,
    audit,
    access,
    guardsMetrics,
    files: consoleFiles(),
    rpc: {
      handlers: methods,
      observer: metrics,
      log,
    },
  });
  return { http, overview };
}
