import type { EngineConfig } from '@taskmaster/engine';
import type { PartitionId } from '@taskmaster/engine/domain';
import { type Log, StoreLostError, sleep } from '@taskmaster/engine/ports';
import {
  EngineHarness,
  SeededRandom,
  type SimConditions,
  SimSharedDatabase,
  VirtualClock,
  VirtualTime,
} from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import type { RawService } from '@taskmaster/server/calls';
import { type MemberRecord, mergeMembers, type Observer, openObserver } from '@taskmaster/server/cluster-view';
import type { CallPeer, PeerHandlers } from '@taskmaster/server/ports';
import {
  CALM,
  type ServePeer,
  SimGossip,
  type SimMembership,
  SimNetwork,
  SimPeers,
  servePeer,
} from '@taskmaster/server/testing';
import { ClusterAgent } from '../cluster/agent.ts';
import { type Identity, MemberStore, nextStartNumber } from '../cluster/membership/member-store.ts';
import { HandOffs } from '../cluster/placement/handoff/hand-offs.ts';
import { createHandlers } from '../service/handlers.ts';
import { createNodeService } from '../service/node-service.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const CLUSTER = 'cluster-1';
/** A host name of all nodes. A call to any of them asks a random node that is up. Other calls ask always the same one. */
export const ALL_NODES = 'nodes';
/** How long a stop waits for the calls in flight, and how often it looks whether there are any. */
const STOP_TIMEOUT_MS = 1_000;
const LOOK_MS = 10;

export interface SimClusterOptions {
  readonly seed?: number;
  readonly partitions?: number;
  /** Longest travel time of a message between nodes, in ms. Default 1. */
  readonly latencyMs?: number;
  /** The fraction of the messages between nodes that is lost. Default 0. */
  readonly loss?: number;
  /** Time between two gossip exchanges with each peer, in ms. Default 200. */
  readonly gossipMs?: number;
  /** Conditions of a database that all nodes share. Undefined: each node has a disk of its own. */
  readonly shared?: Partial<SimConditions> | undefined;
  /** The log of a node, by its name. Default: a log that keeps nothing. */
  readonly log?: (node: string) => Log;
}

export interface SimNodeOptions {
  /** How far the node's clock is ahead of the virtual time, in ms. Default 0. */
  readonly wallAheadMs?: number;
  /** See `Store.atomicBatches`. Default true. */
  readonly atomicBatches?: boolean;
  /** Settings of its engine that differ from the harness's defaults. */
  readonly config?: Partial<EngineConfig>;
}

/** The nodes of one cluster on one virtual time, with simulated disks, gossip and calls. */
export class SimCluster {
  readonly time = new VirtualTime();
  readonly random: SeededRandom;
  readonly gossip: SimGossip;
  readonly network: SimNetwork;
  readonly nodes = new Map<string, SimNode>();
  readonly #peers: SimPeers;
  readonly partitions: number;
  readonly log: (node: string) => Log;
  /** The database that the nodes share. Undefined: each has a disk. */
  readonly database: SimSharedDatabase | undefined;
  /** Called when a node may use its store no more. */
  onLost: ((node: SimNode) => void) | undefined;
  /** Called when a node starts and when its partitions have changed. */
  onHoldings: ((node: SimNode) => void) | undefined;

  constructor(options: SimClusterOptions = {}) {
    const { seed = 1, partitions = 32, latencyMs = 1, loss = 0, gossipMs = 200, shared } = options;
    this.log = options.log ?? (() => SILENT);
    this.random = new SeededRandom(seed);
    this.partitions = partitions;
    const { time } = this;
    this.database =
      shared && new SimSharedDatabase({ time, random: this.random.fork(), partitions, conditions: shared });
    const weather = { ...CALM, latencyMs, lossRate: loss };
    this.network = new SimNetwork(this.time, this.random.fork(), (name) => this.nodes.get(name), weather);
    this.#peers = new SimPeers({
      network: this.network,
      hostAt: (address, anyNode) => this.#resolve(nameOf(address), anyNode),
      serveAt: (name) => this.nodes.get(name)?.serve,
    });
    this.gossip = new SimGossip({
      intervalMs: gossipMs,
      reach: (from, to) => ({ drop: this.network.isCut(nameOf(from), nameOf(to)), delayMs: 1 }),
    });
  }

  /** Cut links, as `from>to`. */
  get cut(): Set<string> {
    return this.network.cut;
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.time.run(promise);
  }

  pass(ms: number): Promise<void> {
    return this.time.advance(ms);
  }

  /** Adds a node that is not started yet. The first node begins the cluster; the others join it. */
  add(name: string, options: SimNodeOptions = {}): SimNode {
    const node = new SimNode(name, this, options);
    this.nodes.set(name, node);
    return node;
  }

  node(name: string): SimNode {
    const node = this.nodes.get(name);
    if (!node) throw new Error(`there is no node ${name}`);
    return node;
  }

  get up(): SimNode[] {
    return [...this.nodes.values()].filter(({ isUp }) => isUp);
  }

  /** Names of the nodes that serve the partition now. */
  serving(id: PartitionId): string[] {
    return this.up.filter(({ partitions }) => partitions.holding(id)?.kind === 'serving').map(({ name }) => name);
  }

  /** Number of partitions that each node serves, by its name. */
  shares(): Record<string, number> {
    const shares: Record<string, number> = {};
    for (const { name, partitions } of this.up) {
      shares[name] = partitions.held().filter(({ state }) => state === 'serving').length;
    }
    return shares;
  }

  /** The node that serves the group; undefined if none does. */
  holderOf(group: string): SimNode | undefined {
    const [name] = this.serving(partitionOf(group, this.partitions) as PartitionId);
    return name === undefined ? undefined : this.node(name);
  }

  /** The calls of one run of a node. After its clock has stopped they never settle. */
  callFrom(from: string, clock: VirtualClock): CallPeer {
    return this.#peers.callFrom(from, clock);
  }

  #resolve(name: string, anyNode: boolean): string {
    const { up } = this;
    const [first] = up;
    if (name !== ALL_NODES || first === undefined) return name;
    return anyNode ? this.random.pick(up).name : first.name;
  }

  /** The routes of a proxy. It looks for the cluster at `contacts`, and starts to gossip with `seeds`. */
  observe(
    name: string,
    clock: VirtualClock,
    { contacts, seeds }: { readonly contacts: readonly string[]; readonly seeds: readonly string[] },
    log: Log = SILENT,
  ): Observer {
    const meta = {
      nodeId: `id-${name}`,
      name,
      role: 'proxy' as const,
      rpcAddress: `${name}:1`,
      version: '0',
      stateVersion: 1,
      incarnation: 1,
    };
    return openObserver({
      membership: this.gossip.open(
        meta,
        `${name}:2`,
        seeds.map((seed) => `${seed}:2`),
        clock,
      ),
      call: this.callFrom(name, clock),
      clock,
      random: this.random.fork(),
      log,
      clusterId: CLUSTER,
      partitions: this.partitions,
      contacts: contacts.map((contact) => `${contact}:1`),
    });
  }

  /** Ends all faults of the network. */
  heal(): void {
    this.cut.clear();
    Object.assign(this.network.weather, { lossRate: 0, duplicateRate: 0, lateRate: 0 });
  }
}

const nameOf = (address: string): string => address.slice(0, address.indexOf(':'));

/** A node of a simulated cluster. It outlives its crashes. */
export class SimNode {
  readonly name: string;
  readonly h: EngineHarness;
  readonly #cluster: SimCluster;
  #agent: ClusterAgent | undefined;
  #handOffs: HandOffs | undefined;
  #gossip: SimMembership | undefined;
  #service: RawService | undefined;
  #serve: ServePeer | undefined;
  /**
   * Resolves when the last stop has ended: a new process cannot open the store before. Undefined: no stop since the last start.
   */
  #stopping: Promise<void> | undefined;
  #started: Promise<void> | undefined;
  /** Functions that end the calls which this node is serving. */
  readonly serving = new Set<() => void>();

  constructor(name: string, cluster: SimCluster, options: SimNodeOptions = {}) {
    const { wallAheadMs = 0, atomicBatches = true, config } = options;
    this.name = name;
    this.#cluster = cluster;
    this.h = new EngineHarness({
      seed: 1 + Math.floor(cluster.random.next() * 1e6),
      clustered: true,
      atomicBatches,
      ...(cluster.database && { shared: { database: cluster.database, name } }),
      writeMs: 1,
      syncMs: 1,
      readMs: 1,
      config: { ...config, partitions: cluster.partitions },
      clock: new VirtualClock({ time: cluster.time, machine: name, wallAheadMs }),
    });
  }

  /** True from the call of `start` until it settles or the process ends. */
  isStarting = false;

  /** True while the process takes calls. The node may not have joined yet. */
  get isUp(): boolean {
    return this.#agent !== undefined;
  }

  get outside() {
    return this.h.clock.outside;
  }

  get agent(): ClusterAgent {
    if (!this.#agent) throw new Error(`node ${this.name} is down`);
    return this.#agent;
  }

  get membership(): SimMembership {
    if (!this.#gossip) throw new Error(`node ${this.name} is down`);
    return this.#gossip;
  }

  get partitions() {
    return this.h.engine.partitions;
  }

  /** Hands a partition to another node, even if the ring assigns it elsewhere. */
  async send(id: PartitionId, to: SimNode): Promise<void> {
    const next = { name: to.name, nodeId: `id-${to.name}` };
    if (this.#cluster.database !== undefined) {
      await this.partitions.shared?.leave([id], next);
      return;
    }
    await this.#handOffs?.send(id, { nodeId: `id-${to.name}`, address: `${to.name}:1` });
  }

  /** The service of this node for its callers; undefined while it is down. */
  get service(): RawService | undefined {
    return this.#service;
  }

  get handlers(): PeerHandlers | undefined {
    if (!this.#agent || !this.#handOffs) return undefined;
    return { ...this.#agent.handlers, ...this.#handOffs.handlers };
  }

  /** Answers the calls of other nodes; undefined while the node is down. */
  get serve(): ServePeer | undefined {
    return this.#serve;
  }

  /**
   * Starts or restarts the node. The caller must advance the time until it resolves. The first node begins the cluster; the
   * others join it. A start that fails leaves the node down. A start that a crash interrupts never settles.
   */
  start(): Promise<void> {
    this.#started = this.#startOnce();
    return this.#started;
  }

  async #startOnce(): Promise<void> {
    if (this.isUp || this.isStarting) throw new Error(`node ${this.name} is started already`);
    this.isStarting = true;
    const stopping = this.#stopping;
    if (stopping) {
      await stopping;
      if (this.#stopping !== stopping) await new Promise(() => {});
    }
    const { clock } = this.h;
    try {
      await this.#start();
      if (clock.isStopped) await new Promise(() => {});
      this.isStarting = false;
    } catch (error) {
      if (clock.isStopped) await new Promise(() => {});
      await this.lose();
      throw error;
    }
  }

  async #start(): Promise<void> {
    const cluster = this.#cluster;
    const { partitions } = await this.h.start();
    const { store, clock, random } = this.h;
    if (!store) throw new Error('the store is closed');
    store.onStateChange((state) => {
      if (state.kind === 'failed' && state.cause instanceof StoreLostError) cluster.onLost?.(this);
    });
    const holders = this.h.process?.holders;
    const memberStore = new MemberStore(store, holders?.self);
    const known = await memberStore.readIdentity();
    const identity: Identity = {
      clusterId: known?.clusterId ?? CLUSTER,
      nodeId: `id-${this.name}`,
      name: this.name,
      startNumber: nextStartNumber(known?.startNumber, clock),
    };
    await memberStore.writeIdentity(identity);
    const own: MemberRecord = {
      nodeId: identity.nodeId,
      name: this.name,
      state: 'joining',
      version: 1,
      rpcAddress: `${this.name}:1`,
      gossipAddress: `${this.name}:2`,
      removedBy: '',
    };
    const stored = await memberStore.readMembers();
    if (stored.get(own.nodeId)?.state === 'left') throw new Error(`${this.name} has left the cluster`);
    const members = stored.has(own.nodeId) ? stored : mergeMembers(stored, [own]);
    await memberStore.writeMembers(members.values());
    const seeds = [...cluster.nodes.values()].filter((node) => node !== this).map(({ name }) => `${name}:2`);
    const meta = {
      nodeId: identity.nodeId,
      name: this.name,
      role: 'node' as const,
      rpcAddress: own.rpcAddress,
      version: '0',
      stateVersion: 1,
      incarnation: identity.startNumber,
    };
    const membership = cluster.gossip.open(meta, own.gossipAddress, seeds, clock);
    this.#gossip = membership;
    const call = cluster.callFrom(this.name, clock);
    const log = cluster.log(this.name);
    const common = { partitions, call, clock, random, log };
    const { nodeId } = identity;
    let agent: ClusterAgent | undefined;
    const addressOf = (id: string): string | undefined => agent?.addressOf(id);
    const handOffs = new HandOffs({ ...common, nodeId, addressOf, bytesPerSecond: 0 });
    agent = new ClusterAgent({
      ...common,
      acceptedLossAt: await memberStore.readAcceptedLoss(),
      identity,
      members,
      memberStore,
      membership,
      handOffs,
      holders,
      partitionCount: cluster.partitions,
      maxConcurrentTransfers: 4,
      contacts: [`${ALL_NODES}:1`],
    });
    this.#handOffs = handOffs;
    this.#agent = agent;
    const error: Log['error'] = (details, message) => {
      // A process that has ended logs nothing.
      if (this.#agent === agent) log.error(details, message);
    };
    this.#serve = servePeer(() => this.handlers, { ...log, error });
    partitions.onChange(() => cluster.onHoldings?.(this));
    cluster.onHoldings?.(this);
    this.#service = createNodeService(createHandlers(this.h.engine, log));
    if (!known && cluster.nodes.size === 1 && holders === undefined) {
      await partitions.claim(
        Array.from({ length: cluster.partitions }, (_, id) => ({ id: id as PartitionId, epoch: 1 })),
      );
    }
    agent.start();
    // An earlier run may have ended before it had joined.
    const isJoining = members.get(nodeId)?.state === 'joining';
    if (isJoining && cluster.nodes.size > 1) await agent.join(seeds.map((seed) => seed.replace(':2', ':1')));
    if (isJoining) await agent.activate();
  }

  /** Simulates a power loss. */
  async lose(): Promise<void> {
    this.#end();
    this.h.lose();
  }

  /**
   * Stops the node in good order; no partition moves. Finishes the calls in flight, for up to a second. Waits for a start
   * that is under way. The caller must advance the time until it resolves.
   */
  async stop(): Promise<void> {
    if (this.isStarting) await this.#started?.catch(() => {});
    if (this.isUp) {
      const stopped = this.#stop();
      // The caller handles a rejection.
      this.#stopping = stopped.catch(() => {});
      return stopped;
    }
    await this.#stopping;
  }

  async #stop(): Promise<void> {
    const { clock, engine } = this.h;
    this.#leave();
    await engine.stop();
    for (let waited = 0; this.serving.size > 0 && waited < STOP_TIMEOUT_MS; waited += LOOK_MS) {
      await sleep(clock, LOOK_MS);
    }
    // A crash has ended the process meanwhile.
    if (clock.isStopped) await new Promise(() => {});
    this.#breakCalls();
    await this.h.close();
  }

  /** Simulates a kill of the process: unsynced writes survive, unless a power loss follows. */
  kill(): void {
    this.#end();
    this.h.kill();
  }

  #end(): void {
    this.#stopping = undefined;
    this.#leave();
    this.#breakCalls();
  }

  /** Takes no more calls. */
  #leave(): void {
    this.isStarting = false;
    this.#agent?.stop();
    this.#agent = undefined;
    this.#handOffs = undefined;
    this.#service = undefined;
    this.#serve = undefined;
    void this.#gossip?.close();
    this.#gossip = undefined;
  }

  #breakCalls(): void {
    const broken = [...this.serving];
    this.serving.clear();
    for (const end of broken) end();
  }
}
