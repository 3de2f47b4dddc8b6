import type { PartitionId } from '@taskmaster/engine/domain';
import type { Clock, Log, Random } from '@taskmaster/engine/ports';
import type { ClusterKnowledge } from '@taskmaster/proto';
import type { Membership } from '../ports/membership.ts';
import type { CallPeer } from '../ports/peer-network.ts';
import type { Holder, RoutedNode, Routes } from '../ports/routes.ts';
import type { ClockDifference } from './clock-watch.ts';
import { addressOf, Exchanger } from './exchange.ts';
import { HolderView } from './holder-view.ts';
import { learnFrom } from './knowledge-codec.ts';
import { isRemoved, type Members, mergeMembers } from './members.ts';

export interface ObserverOptions {
  /** The gossip of the proxy. */
  readonly membership: Membership;
  readonly call: CallPeer<'exchange'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** See `askCluster`. */
  readonly clusterId: string;
  readonly partitions: number;
  /** `host:port` of nodes to ask while no node is known to be alive. */
  readonly contacts: readonly string[];
  /** The knowledge of a node at the start. */
  readonly knowledge?: ClusterKnowledge | undefined;
}

const NOTHING: ClusterKnowledge = { members: [], holders: [] };

/** Learns the holders of partitions for a process that holds none. It asks nodes, tells them nothing, and is not a member. */
export class Observer implements Routes {
  readonly partitions: number;
  readonly #membership: Membership;
  readonly #view: HolderView;
  readonly #exchanger: Exchanger;
  /** Addresses of nodes that were named as holders before their records arrived, by node id. */
  readonly #heardOf = new Map<string, string>();
  readonly #listeners = new Set<() => void>();
  #members: Members = new Map();

  constructor(options: ObserverOptions) {
    this.partitions = options.partitions;
    this.#membership = options.membership;
    this.#view = new HolderView(options.partitions);
    this.#learn(options.knowledge, '');
    this.#exchanger = new Exchanger({
      ...options,
      from: '',
      contacts: options.contacts,
      members: () => this.#members,
      knowledge: () => NOTHING,
      learn: async (knowledge, from) => this.#learn(knowledge, from),
      onBeat: () => this.#changed(),
    });
    this.#exchanger.start();
  }

  /** How far the system clocks of members are ahead of this one. */
  get clockDifferences(): readonly ClockDifference[] {
    return this.#exchanger.clockDifferences;
  }

  stop(): void {
    this.#exchanger.stop();
    this.#listeners.clear();
  }

  holderOf(partition: number): Holder | undefined {
    const known = this.#view.get(partition as PartitionId);
    const address = known && this.#addressOf(known.nodeId);
    return known && address !== undefined ? { ...known, address } : undefined;
  }

  nodes(): readonly RoutedNode[] {
    const alive = new Set(this.#membership.peers().flatMap((peer) => (peer.alive ? [peer.nodeId] : [])));
    return [...this.#members.values()].flatMap(({ nodeId, name, state }) => {
      const address = this.#addressOf(nodeId);
      return state === 'left' || address === undefined ? [] : [{ nodeId, name, address, alive: alive.has(nodeId) }];
    });
  }

  learn(partition: number, { nodeId, address, epoch }: Holder): void {
    if (!this.#view.learn(partition as PartitionId, { nodeId, epoch })) return;
    if (!this.#members.has(nodeId)) this.#heardOf.set(nodeId, address);
    this.#changed();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #addressOf(nodeId: string): string | undefined {
    return addressOf(nodeId, this.#membership, this.#members) ?? this.#heardOf.get(nodeId);
  }

  #learn(knowledge: ClusterKnowledge | undefined, from: string): void {
    if (isRemoved(this.#members.get(from))) return;
    const { records, news } = learnFrom(knowledge, this.#view);
    const merged = mergeMembers(this.#members, records);
    if (!news && merged === this.#members) return;
    this.#members = merged;
    this.#membership.seek(
      [...merged.values()].flatMap(({ state, gossipAddress }) => (state === 'left' ? [] : gossipAddress || [])),
    );
    for (const nodeId of merged.keys()) this.#heardOf.delete(nodeId);
    this.#changed();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Begins to observe. */
export const openObserver = (options: ObserverOptions): Observer => new Observer(options);
