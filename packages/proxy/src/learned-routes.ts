import { DEFAULT_PARTITIONS } from '@taskmaster/proto';
import type { ProxyConfig } from './config.ts';
import type { Holder, RoutedNode, Routes } from './routes.ts';

/**
 * Routes that know nothing but the addresses they were given, and what nodes say of partitions that they do not hold.
 * A partition that nobody has spoken of yet is looked for at the first address.
 */
export class LearnedRoutes implements Routes, AsyncDisposable {
  readonly partitions: number;
  readonly #given: readonly RoutedNode[];
  readonly #holders = new Map<number, Holder>();
  readonly #listeners = new Set<() => void>();

  constructor(addresses: readonly string[], partitions: number = DEFAULT_PARTITIONS) {
    this.#given = addresses.map((address) => ({ nodeId: address, name: address, address, alive: true }));
    this.partitions = partitions;
  }

  holderOf(partition: number): Holder | undefined {
    const known = this.#holders.get(partition);
    if (known !== undefined) return known;
    const [first] = this.#given;
    return first && { nodeId: first.nodeId, address: first.address, epoch: 0 };
  }

  nodes(): readonly RoutedNode[] {
    const nodes = new Map(this.#given.map((node) => [node.address, node]));
    for (const { nodeId, address } of this.#holders.values()) {
      nodes.set(address, { nodeId, name: nodes.get(address)?.name ?? nodeId, address, alive: true });
    }
    return [...nodes.values()];
  }

  learn(partition: number, holder: Holder): void {
    if (holder.epoch < (this.#holders.get(partition)?.epoch ?? 0)) return;
    this.#holders.set(partition, holder);
    for (const listener of this.#listeners) listener();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear();
  }
}

/** Of the nodes that the settings name. */
export async function openLearnedRoutes({ join, router }: ProxyConfig): Promise<LearnedRoutes> {
  return new LearnedRoutes(join, router.partitions);
}
