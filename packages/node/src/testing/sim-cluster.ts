import { partitionOf } from '@taskmaster/proto';
import { type MemberRecord, mergeMembers, type Observer, openObserver } from '@taskmaster/server/cluster-view';
import type { PartitionId } from '@taskmaster/server/domain';
import type { CallPeer, Log, PeerHandlers } from '@taskmaster/server/ports';
import { createHandlers, createNodeService, type RawService } from '@taskmaster/server/service';
import {
  CALM,
  SeededRandom,
  SimGossip,
  type SimMembership,
  SimNetwork,
  VirtualClock,
  VirtualTime,
} from '@taskmaster/server/testing';
import { ClusterAgent } from '../cluster/agent.ts';
import { type Identity, MemberStore } from '../cluster/membership/member-store.ts';
import { HandOffs } from '../cluster/placement/handoff/hand-offs.ts';
import type { EngineConfig } from '../engine/config.ts';
import { EngineHarness } from './engine-harness.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const CLUSTER = 'cluster-1';
/** A name for all nodes, which the name service keeps at those that are up. */
export const ALL_NODES = 'nodes';

export interface SimClusterOptions {
  readonly seed?: number;
  readonly partitions?: number;
  /** What a message between nodes takes at most, in ms. Default 1. */
  readonly latencyMs?: number;
  /** The part of messages between nodes that are lost. Default 0. */
  readonly loss?: number;
  /** Between gossip's exchanges with every peer, in ms. Default 200. */
  readonly gossipMs?: number;
  /** Of all nodes. Default: nothing is kept. */
  readonly log?: (node: string) => Log;
}

export interface SimNodeOptions {
  /** How far its clock is ahead of true time, in ms. Default 0. */
  readonly wallAheadMs?: number;
  /** Whether a crash leaves batches whole. Default true. */
  readonly atomicBatches?: boolean;
  /** Of its engine. */
  readonly config?: Partial<EngineConfig>;
}

/** Nodes of one cluster on one virtual time, with simulated disks, gossip and calls between them. */
export class SimCluster {
  readonly time = new VirtualTime();
  readonly random: SeededRandom;
  readonly gossip: SimGossip;
  readonly network: SimNetwork;
  readonly nodes = new Map<string, SimNode>();
  readonly partitions: number;
  readonly log: (node: string) => Log;
  /** Told when what a node holds has changed, and of what it holds when it starts. */
  onHoldings: ((node: SimNode) => void) | undefined;

  constructor(options: SimClusterOptions = {}) {
    const { seed = 1, partitions = 32, latencyMs = 1, loss = 0, gossipMs = 200 } = options;
    this.log = options.log ?? (() => SILENT);
    this.random = new SeededRandom(seed);
    this.partitions = partitions;
    const weather = { ...CALM, latencyMs, lossRate: loss };
    this.network = new SimNetwork(this.time, this.random.fork(), (name) => this.nodes.get(name), weather);
    this.gossip = new SimGossip({
      intervalMs: gossipMs,
      reach: (from, to) => ({ drop: this.network.isCut(nameOf(from), nameOf(to)), delayMs: 1 }),
    });
  }

  /** Pairs `from>to` of nodes between which nothing passes. */
  get cut(): Set<string> {
    return this.network.cut;
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.time.run(promise);
  }

  pass(ms: number): Promise<void> {
    return this.time.advance(ms);
  }

  /** A node that begins a cluster, or joins it by asking the others; not started yet. */
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

  /** How many partitions each node serves. */
  shares(): Record<string, number> {
    const shares: Record<string, number> = {};
    for (const { name, partitions } of this.up) {
      shares[name] = partitions.held().filter(({ state }) => state === 'serving').length;
    }
    return shares;
  }

  /** The node that serves a queue of this group. */
  holderOf(group: string): SimNode | undefined {
    const [name] = this.serving(partitionOf(group, this.partitions) as PartitionId);
    return name === undefined ? undefined : this.node(name);
  }

  /** The calls of one run of a node: with its clock they end, and nobody hears of the answers any more. */
  callFrom(from: string, clock: VirtualClock): CallPeer {
    const { network } = this;
    return (async (address, method, request, { timeoutMs, signal }) => {
      if (clock.isStopped) return new Promise(() => {});
      const to = this.#resolve(nameOf(address));
      const options = { from, to, what: method, timeoutMs, signal, caller: clock, mayDouble: true };
      return network.carry(options, () => {
        const handler = this.nodes.get(to)?.handlers?.[method] as ((r: unknown) => Promise<unknown>) | undefined;
        return handler ? handler(request) : Promise.reject(new Error(`${to} serves no ${method}`));
      });
    }) as CallPeer;
  }

  #resolve(name: string): string {
    const { up } = this;
    return name === ALL_NODES && up.length > 0 ? this.random.pick(up).name : name;
  }

  /** The routes of a proxy, which looks for the cluster at `contacts`, and learns the others by gossip, first with `seeds`. */
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

  /** Nothing is lost or cut any more. */
  heal(): void {
    this.cut.clear();
    Object.assign(this.network.weather, { lossRate: 0, duplicateRate: 0, lateRate: 0 });
  }
}

const nameOf = (address: string): string => address.slice(0, address.indexOf(':'));

/** A node of a simulated cluster: what survives its crashes, and what runs of it. */
export class SimNode {
  readonly name: string;
  readonly h: EngineHarness;
  readonly #cluster: SimCluster;
  #agent: ClusterAgent | undefined;
  #handOffs: HandOffs | undefined;
  #gossip: SimMembership | undefined;
  #service: RawService | undefined;
  /** Ends of the calls that this node is serving. */
  readonly serving = new Set<() => void>();

  constructor(name: string, cluster: SimCluster, options: SimNodeOptions = {}) {
    const { wallAheadMs = 0, atomicBatches = true, config } = options;
    this.name = name;
    this.#cluster = cluster;
    this.h = new EngineHarness({
      seed: 1 + Math.floor(cluster.random.next() * 1e6),
      clustered: true,
      atomicBatches,
      writeMs: 1,
      syncMs: 1,
      readMs: 1,
      config: { ...config, partitions: cluster.partitions },
      clock: new VirtualClock({ time: cluster.time, machine: name, wallAheadMs }),
    });
  }

  /** Between the call of `start` and its end, or that of its process. */
  isStarting = false;

  /** Takes calls; perhaps it has not joined yet. */
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

  /** Hands a partition to another node, whatever the ring wants. */
  async send(id: PartitionId, to: SimNode): Promise<void> {
    await this.#handOffs?.send(id, { nodeId: `id-${to.name}`, address: `${to.name}:1` });
  }

  /** What callers of this node reach, while it is up. */
  get service(): RawService | undefined {
    return this.#service;
  }

  get handlers(): PeerHandlers | undefined {
    if (!this.#agent || !this.#handOffs) return undefined;
    return { ...this.#agent.handlers, ...this.#handOffs.handlers };
  }

  /**
   * Starts or restarts; time must be moved meanwhile. The first node of all begins the cluster, others join it. A start
   * that fails leaves the node down; one that is cut short by a crash never ends.
   */
  async start(): Promise<void> {
    if (this.isUp || this.isStarting) throw new Error(`node ${this.name} is started already`);
    this.isStarting = true;
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
    const memberStore = new MemberStore(store);
    const known = await memberStore.readIdentity();
    const identity: Identity = {
      clusterId: known?.clusterId ?? CLUSTER,
      nodeId: `id-${this.name}`,
      name: this.name,
      boots: (known?.boots ?? 0) + 1,
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
      incarnation: identity.boots,
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
      partitionCount: cluster.partitions,
      transfersAtOnce: 4,
      contacts: [`${ALL_NODES}:1`],
    });
    this.#handOffs = handOffs;
    this.#agent = agent;
    partitions.onChange(() => cluster.onHoldings?.(this));
    cluster.onHoldings?.(this);
    this.#service = createNodeService(createHandlers(this.h.engine, log));
    if (!known && cluster.nodes.size === 1) {
      await partitions.claim(
        Array.from({ length: cluster.partitions }, (_, id) => ({ id: id as PartitionId, epoch: 1 })),
      );
    }
    agent.start();
    // A run before may have ended before it was in.
    const isJoining = members.get(nodeId)?.state === 'joining';
    if (isJoining && cluster.nodes.size > 1) await agent.join(seeds.map((seed) => seed.replace(':2', ':1')));
    if (isJoining) await agent.activate();
  }

  /** Power loss. */
  async lose(): Promise<void> {
    this.#end();
    this.h.lose();
  }

  /** Ends in good order; nothing moves. Time must be moved meanwhile. */
  async stop(): Promise<void> {
    this.#end();
    await this.h.close();
  }

  /** The process is killed; what it wrote stays on the machine. */
  kill(): void {
    this.#end();
    this.h.kill();
  }

  #end(): void {
    this.isStarting = false;
    this.#agent?.stop();
    this.#agent = undefined;
    this.#handOffs = undefined;
    this.#service = undefined;
    void this.#gossip?.close();
    this.#gossip = undefined;
    const broken = [...this.serving];
    this.serving.clear();
    for (const end of broken) end();
  }
}
