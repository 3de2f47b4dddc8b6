import { partitionOf } from '@taskmaster/proto';
import { ClusterAgent } from '../cluster/agent.ts';
import { HandOffs } from '../cluster/handoff/hand-offs.ts';
import { type Identity, MemberStore } from '../cluster/member-store.ts';
import { type MemberRecord, mergeMembers } from '../cluster/members.ts';
import type { Instant, PartitionId } from '../domain/ids.ts';
import type { CallPeer, PeerHandlers, PeerMethod } from '../ports/peer-network.ts';
import { EngineHarness } from './engine-harness.ts';
import { SeededRandom } from './seeded-random.ts';
import { SimGossip, type SimMembership } from './sim-membership.ts';
import { VirtualClock, VirtualTime } from './virtual-clock.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const CLUSTER = 'cluster-1';

export interface SimClusterOptions {
  readonly seed?: number;
  readonly partitions?: number;
  /** What a message between nodes takes at most, in ms. Default 1. */
  readonly latencyMs?: number;
  /** The part of messages between nodes that are lost. Default 0. */
  readonly loss?: number;
}

/** Nodes of one cluster on one virtual time, with simulated disks, gossip and calls between them. */
export class SimCluster {
  readonly time = new VirtualTime();
  readonly random: SeededRandom;
  readonly gossip: SimGossip;
  readonly nodes = new Map<string, SimNode>();
  readonly partitions: number;
  /** Pairs `from>to` of nodes between which nothing passes. */
  readonly cut = new Set<string>();

  readonly #latencyMs: number;
  #loss: number;

  constructor({ seed = 1, partitions = 32, latencyMs = 1, loss = 0 }: SimClusterOptions = {}) {
    this.#latencyMs = latencyMs;
    this.#loss = loss;
    this.random = new SeededRandom(seed);
    this.partitions = partitions;
    this.gossip = new SimGossip({
      reach: (from, to) => ({ drop: this.#isCut(nameOf(from), nameOf(to)), delayMs: 1 }),
    });
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.time.run(promise);
  }

  pass(ms: number): Promise<void> {
    return this.time.advance(ms);
  }

  /** A node that begins a cluster, or joins it by asking the others; not started yet. */
  add(name: string): SimNode {
    const node = new SimNode(name, this);
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

  callFrom(from: string): CallPeer {
    return async (address, method, request, { timeoutMs, signal }) => {
      const expired = this.#after(timeoutMs).then((): never => {
        throw new Error(`${method} to ${address} took more than ${timeoutMs} ms`);
      });
      expired.catch(() => {});
      return Promise.race([expired, this.#carry(from, nameOf(address), method, request, signal)]) as never;
    };
  }

  async #carry(from: string, to: string, method: PeerMethod, request: unknown, signal?: AbortSignal): Promise<unknown> {
    await this.#travel();
    signal?.throwIfAborted();
    const handlers = this.#isLost(from, to) ? undefined : this.nodes.get(to)?.handlers;
    if (!handlers) throw new Error(`${to} cannot be reached from ${from}`);
    const handler = handlers[method] as (r: unknown) => Promise<unknown>;
    const answer = await handler(request);
    await this.#travel();
    if (this.#isLost(to, from)) throw new Error(`the answer of ${to} is lost`);
    return answer;
  }

  /** Nothing is lost or cut any more. */
  heal(): void {
    this.cut.clear();
    this.#loss = 0;
  }

  #travel(): Promise<void> {
    return this.#after(1 + Math.floor(this.random.next() * this.#latencyMs));
  }

  #isLost(from: string, to: string): boolean {
    return this.#isCut(from, to) || this.random.next() < this.#loss;
  }

  #isCut(from: string, to: string): boolean {
    return this.cut.has(`${from}>${to}`);
  }

  #after(ms: number): Promise<void> {
    return new Promise((resolve) => this.time.at((this.time.now() + ms) as Instant, resolve));
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

  constructor(name: string, cluster: SimCluster) {
    this.name = name;
    this.#cluster = cluster;
    this.h = new EngineHarness({
      seed: 1 + Math.floor(cluster.random.next() * 1e6),
      clustered: true,
      writeMs: 1,
      syncMs: 1,
      readMs: 1,
      config: { partitions: cluster.partitions },
      clock: new VirtualClock({ time: cluster.time, machine: name }),
    });
  }

  /** Between the call of `start` and its end, or a loss of power. */
  isStarting = false;

  get isUp(): boolean {
    return this.#agent !== undefined;
  }

  get agent(): ClusterAgent {
    if (!this.#agent) throw new Error(`node ${this.name} is down`);
    return this.#agent;
  }

  get partitions() {
    return this.h.engine.partitions;
  }

  /** Hands a partition to another node, whatever the ring wants. */
  async send(id: PartitionId, to: SimNode): Promise<void> {
    await this.#handOffs?.send(id, { nodeId: `id-${to.name}`, address: `${to.name}:1` });
  }

  get handlers(): PeerHandlers | undefined {
    if (!this.#agent || !this.#handOffs) return undefined;
    return { ...this.#agent.handlers, ...this.#handOffs.handlers };
  }

  /** Starts or restarts; time must be moved meanwhile. The first node of all begins the cluster, others join it. */
  async start(): Promise<void> {
    this.isStarting = true;
    try {
      await this.#start();
    } finally {
      this.isStarting = false;
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
    const call = cluster.callFrom(this.name);
    const common = { partitions, call, clock, random, log: SILENT };
    const { nodeId } = identity;
    let agent: ClusterAgent | undefined;
    const addressOf = (id: string): string | undefined => agent?.addressOf(id);
    const handOffs = new HandOffs({ ...common, nodeId, addressOf, bytesPerSecond: 0 });
    agent = new ClusterAgent({
      ...common,
      identity,
      members,
      memberStore,
      membership,
      handOffs,
      partitionCount: cluster.partitions,
      transfersAtOnce: 4,
    });
    this.#handOffs = handOffs;
    this.#agent = agent;
    if (!known && cluster.nodes.size === 1) {
      await partitions.claim(
        Array.from({ length: cluster.partitions }, (_, id) => ({ id: id as PartitionId, epoch: 1 })),
      );
    }
    agent.start();
    if (!known && cluster.nodes.size > 1) await agent.join(seeds.map((seed) => seed.replace(':2', ':1')));
    if (!known) await agent.activate();
  }

  /** Power loss. */
  async lose(): Promise<void> {
    this.#agent?.stop();
    this.#agent = undefined;
    this.#handOffs = undefined;
    await this.#gossip?.close();
    this.#gossip = undefined;
    this.h.lose();
  }
}
