import type { PartitionId } from '@taskmaster/engine/domain';
import type { Holder, Membership, RoutedNode, Routes } from '@taskmaster/server/ports';
import type { ClusterAgent } from './agent.ts';

/** The holder of each partition, as a member of the cluster knows it. */
export class MemberRoutes implements Routes {
  readonly partitions: number;
  readonly #agent: ClusterAgent;
  readonly #membership: Membership;
  /** Holders named in refusals of other nodes. The agent learns them later from the holders themselves. */
  readonly #heard = new Map<number, Holder>();
  readonly #listeners = new Set<() => void>();

  constructor(agent: ClusterAgent, membership: Membership) {
    this.#agent = agent;
    this.#membership = membership;
    this.partitions = agent.view.partitions;
  }

  holderOf(partition: number): Holder | undefined {
    const known = this.#agent.view.get(partition as PartitionId);
    const heard = this.#heard.get(partition);
    if (heard !== undefined && heard.epoch > (known?.epoch ?? 0)) return heard;
    const address = known && this.#agent.addressOf(known.nodeId);
    return known && address !== undefined ? { ...known, address } : undefined;
  }

  nodes(): readonly RoutedNode[] {
    const alive = new Set(this.#membership.peers().flatMap((peer) => (peer.alive ? [peer.nodeId] : [])));
    alive.add(this.#agent.nodeId);
    return [...this.#agent.members.values()].flatMap(({ nodeId, name, state }) => {
      const address = this.#agent.addressOf(nodeId);
      return state === 'left' || !address ? [] : [{ nodeId, name, address, alive: alive.has(nodeId) }];
    });
  }

  learn(partition: number, holder: Holder): void {
    if (partition >= this.partitions) return;
    const known = this.holderOf(partition);
    if (known !== undefined && known.epoch >= holder.epoch) return;
    this.#heard.set(partition, holder);
    for (const listener of this.#listeners) listener();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    const ends = [this.#agent.onChange(listener), this.#membership.on('change', listener)];
    return () => {
      this.#listeners.delete(listener);
      for (const end of ends) end();
    };
  }
}
