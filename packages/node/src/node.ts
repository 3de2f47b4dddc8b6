import { createRequire } from 'node:module';
import { LateRoutes } from '@taskmaster/server/cluster-view';
import { Refusal, type TaskEngine } from '@taskmaster/server/domain';
import { assertResolves, type HeldPort, holdPort } from '@taskmaster/server/gossip';
import {
  type ClusterHandlers,
  createClusterService,
  createPeerService,
  GrpcServer,
  PeerNetwork,
  PeerSeal,
} from '@taskmaster/server/grpc';
import { explainHealth, HttpServer, isReady, type NodeHealth } from '@taskmaster/server/http';
import { type Log, SystemClock, systemRandom } from '@taskmaster/server/ports';
import { createLogger, readClusterKeys } from '@taskmaster/server/program';
import {
  createHandlers,
  createNodeService,
  FairTurns,
  type Handlers,
  hostPort,
  LateService,
  refusalOf,
  toWireError,
} from '@taskmaster/server/service';
import { MemberRoutes } from './cluster/member-routes.ts';
import { MemberStore } from './cluster/membership/member-store.ts';
import { takeStartingRole } from './cluster/membership/starting-role.ts';
import { type Member, openMember } from './cluster/open-member.ts';
import { memberSettings, startingRoleSettings } from './cluster-settings.ts';
import { type Colocated, colocate } from './colocated.ts';
import { completeConfig, engineConfigOf, type NodeConfig, type NodeConfigInput } from './config.ts';
import { openEngine } from './engine/engine.ts';
import { inspectStore } from './engine/open-state.ts';
import { NodeMetrics } from './http/metrics.ts';
import { nodeRoutes } from './http/node-routes.ts';
import { MeteredStore } from './metered-store.ts';
import type { Store } from './ports/store.ts';
import { openRocksStore } from './store/rocks-store.ts';

const { version } = createRequire(import.meta.url)('../package.json') as { readonly version: string };

export interface StartNodeOptions {
  /** Default: JSON lines on standard error, at the level of the settings. */
  readonly log?: Log;
  /** Gives the start up: of use while the node asks to join a cluster. `startNode` rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** A node that serves. Disposing of it stops it. */
export interface RunningNode extends AsyncDisposable {
  /** `host:port` of gRPC, with the port that was really taken. */
  readonly grpcAddress: string;
  /** `host:port` of HTTP. */
  readonly httpAddress: string;
  /** Its place in a cluster; undefined for a node that stands alone. */
  readonly member: RunningMember | undefined;
  /** Finishes what is in flight, for at most `stopGraceMs`, then closes everything. */
  stop(): Promise<void>;
}

/** A running node's place in its cluster. */
export interface RunningMember {
  readonly name: string;
  readonly clusterId: string;
  /** `host:port` that others reach it at. */
  readonly rpcAddress: string;
  readonly gossipAddress: string;
  /** Hands everything over and leaves the cluster; resolves when that is done. The node is of no more use then. */
  drain(signal?: AbortSignal): Promise<void>;
  /** Resolves when it has left, however it came to that; never if it stays. */
  readonly left: Promise<void>;
  /**
   * Resolves once another member has said that this one still is a member: until then it serves nothing. Rejects where that
   * cannot be any more.
   */
  readonly confirmed: Promise<void>;
  /**
   * Resolves when it learns that an operator gave it up, or that its data directory is an older copy: it is of no more use
   * then. Never otherwise.
   */
  readonly barred: Promise<void>;
  /** Why it serves nothing at present, for people; undefined while it does. */
  readonly problem: string | undefined;
}

/** The parts that are open; those that are not are undefined. */
interface Parts {
  store?: Store;
  engine?: TaskEngine;
  grpc?: GrpcServer;
  grpcAddress?: string;
  member?: Member;
  /** Why it is not a member yet. */
  joining?: string;
}

/**
 * Starts a node: HTTP first, so that it can say that the node is starting, then the store, the engine, gRPC and, in a
 * cluster, its place there. Throws `InvalidConfigError`, `ClusterStartError`, the store's errors (`StoreLockedError`,
 * `StoreCorruptError`, …), or the system's (`EADDRINUSE`); then nothing is left open.
 */
export async function startNode(settings: NodeConfigInput = {}, options: StartNodeOptions = {}): Promise<RunningNode> {
  const config = completeConfig(settings);
  const keys = readClusterKeys(config.cluster.keyFile);
  const log = options.log ?? createLogger(config.logLevel);
  const parts: Parts = {};
  const metrics = createMetrics(config, parts);
  const http = createHttp(config, parts, metrics, log);

  await using opened = new AsyncDisposableStack();
  const httpPort = await http.start();
  opened.defer(() => http.stop());

  const rocks = await openRocksStore({ dir: config.dataDir, ...config.store, log, ...flushOf(config) });
  const turns = new FairTurns();
  const store = new MeteredStore(rocks, (bytes, durationMs) => {
    metrics.committed(bytes, durationMs);
    turns.synced(durationMs);
  });
  opened.use(store);
  parts.store = store;

  const clock = new SystemClock();
  const seal = new PeerSeal(keys);
  const { call } = opened.use(new PeerNetwork(seal));
  const memberStore = new MemberStore(store);
  const { host, grpcPort } = config;
  const service = new LateService(() => new Refusal('STARTING', explainHealth(healthOf(parts))));
  const grpc = new GrpcServer(
    { ...config.grpc, host, port: grpcPort },
    {
      service,
      others: [
        createClusterService(() => parts.member?.administration ?? joiningOf(parts)),
        createPeerService(() => parts.member?.handlers, seal),
      ],
      isServing: () => isReady(healthOf(parts)),
      observer: metrics,
      log,
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
  // Of use where the start ends before the node serves; otherwise it has been stopped already.
  opened.defer(() => (parts.grpc ? grpc.stop(config.stopGraceMs) : undefined));
  const role = await takeStartingRole(startingRoleSettings(config), {
    ...{ memberStore, call, clock, log },
    inspect: () => inspectStore(store),
    // Callers learn meanwhile what the node waits for.
    prepare: async () => {
      parts.joining = 'it asks for its place';
      if (config.cluster.advertiseHost !== '') await assertResolves(config.cluster.advertiseHost);
      gossipPort = await holdPort(host, config.gossipPort);
      listening = await listen();
    },
    signal: options.signal ?? new AbortController().signal,
    onAsking: (problem) => {
      parts.joining = `no member takes it in: ${problem}`;
    },
  });
  const clustered = role.kind === 'member';
  if (clustered) parts.joining = 'it takes its place';
  const engineConfig = engineConfigOf(config, clustered ? role.partitions : undefined);
  const engine = await openEngine({ store, clock, random: systemRandom, config: engineConfig, clustered, log });
  opened.defer(() => engine.stop());
  warnOfPartitions(config.engine.partitions, engine.partitions.count, log);
  // Nothing is committed before the agent watches over what is held.
  if (clustered) {
    const refused = Promise.reject(new Refusal('STARTING', 'the node takes its place'));
    // Not everybody who is told waits for it.
    refused.catch(() => {});
    engine.partitions.guard(() => refused);
  }
  parts.engine = engine;

  const own = createNodeService(createHandlers(engine, log), turns);
  const routes = new LateRoutes();
  const address = (): string | undefined => parts.member?.rpcAddress;
  const router = clustered && config.withProxy ? colocate({ own, address, routes, log }) : undefined;
  if (router !== undefined) opened.use(router);
  // Declared last but for the member, so that a stop begins here: long polls end before anything waits for their
  // connections.
  opened.defer(() => stopServing(grpc, router, engine, config.stopGraceMs));
  service.become(router?.service ?? own);
  const takenPort = listening ?? (await listen());
  const grpcAddress = hostPort(host, takenPort);

  if (clustered) {
    await gossipPort?.release();
    const member = await openMember(memberSettings(config, { grpcPort: takenPort, httpPort, keys, version }), {
      ...{ role, memberStore, partitions: engine.partitions, call, clock, log },
      random: systemRandom,
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
  const facts = { grpc: grpcAddress, http: httpAddress, dataDir: config.dataDir, version };
  const serving = (): void => {
    grpc.becameReady();
    log.info(facts, 'serving');
  };
  // Who never is confirmed says why elsewhere.
  if (member) member.confirmed.then(serving).catch(() => {});
  else serving();
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopped ??= running.disposeAsync();
    return stopped;
  };
  return { grpcAddress, httpAddress, member, stop, [Symbol.asyncDispose]: stop };
}

function warnOfPartitions(wanted: number, count: number, log: Log): void {
  if (wanted === count || wanted === completeConfig({}).engine.partitions) return;
  log.warn({ wanted, count }, `--engine-partitions counts only at the very beginning: there are ${count} partitions`);
}

/** What operators are told by a node that has no place yet. Undefined: it is not to have one. */
function joiningOf(parts: Parts): ClusterHandlers | undefined {
  if (parts.joining === undefined) return undefined;
  const refuse = () => Promise.reject(new Refusal('STARTING', explainHealth(healthOf(parts))));
  return { listMembers: refuse, listPartitions: refuse, drainMember: refuse, removeMember: refuse };
}

function describeMember({ agent, membership, rpcAddress, identity }: Member): RunningMember {
  return {
    ...{ name: identity.name, clusterId: identity.clusterId, rpcAddress, gossipAddress: membership.gossipAddress },
    drain: (signal) => agent.drain(signal),
    ...{ left: agent.left, confirmed: agent.confirmed, barred: agent.barred },
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
  engine: TaskEngine,
  graceMs: number,
): Promise<void> {
  grpc.drain();
  router?.stop();
  await engine.stop();
  await grpc.stop(graceMs);
}

function flushOf({ durability, durabilityFlushMs }: NodeConfig): { readonly flushIntervalMs?: number } {
  return durability === 'relaxed' ? { flushIntervalMs: durabilityFlushMs } : {};
}

function healthOf({ engine, joining, member }: Parts): NodeHealth {
  if (joining !== undefined) return { kind: 'joining', problem: joining };
  const health = engine?.health ?? { kind: 'starting' };
  const problem = member?.agent.problem;
  return problem !== undefined && isReady(health) ? { kind: 'waiting', problem } : health;
}

function createMetrics(config: NodeConfig, parts: Parts): NodeMetrics {
  return new NodeMetrics({
    version,
    engine: () => parts.engine,
    health: () => healthOf(parts),
    storeSize: () => parts.store?.size(),
    cluster: () => parts.member?.figures(),
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
