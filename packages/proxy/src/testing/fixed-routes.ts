import type { Holder, RoutedNode, Routes } from '../router/routing/routes.ts';

export interface FixedRoutesOptions {
  readonly nodes: readonly RoutedNode[];
  readonly partitions: number;
  /** Index of the holder among the nodes; undefined: unknown. Default: the nodes in turn. */
  readonly holder?: (partition: number) => number | undefined;
}

/** Routes that a test chooses. They learn like real routes. */
export class FixedRoutes implements Routes {
  readonly partitions: number;
  readonly learned: { readonly partition: number; readonly holder: Holder }[] = [];
  readonly #nodes: RoutedNode[];
  readonly #holders = new Map<number, Holder>();
  readonly #listeners = new Set<() => void>();

  constructor({ nodes, partitions, holder = (partition) => partition % nodes.length }: FixedRoutesOptions) {
    this.#nodes = [...nodes];
    this.partitions = partitions;
    for (let partition = 0; partition < partitions; partition++) this.set(partition, holder(partition), 1);
  }

  holderOf(partition: number): Holder | undefined {
    return this.#holders.get(partition);
  }

  nodes(): readonly RoutedNode[] {
    return this.#nodes;
  }

  learn(partition: number, holder: Holder): void {
    this.learned.push({ partition, holder });
    if (partition >= this.partitions) return;
    const { nodeId = '', epoch = 0 } = this.#holders.get(partition) ?? {};
    // As in `HolderView`: at one epoch, the larger node id counts.
    if (holder.epoch < epoch || (holder.epoch === epoch && holder.nodeId <= nodeId)) return;
    this.#holders.set(partition, holder);
    this.#changed();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Sets the holder of a partition. `place`: index of the node; undefined: unknown. */
  set(partition: number, place: number | undefined, epoch: number): void {
    const node = place === undefined ? undefined : this.#nodes[place];
    if (node === undefined) this.#holders.delete(partition);
    else this.#holders.set(partition, { nodeId: node.nodeId, address: node.address, epoch });
    this.#changed();
  }

  /** Changes a node, for example its address, or whether it is alive. */
  change(place: number, change: Partial<RoutedNode>): void {
    const node = this.#nodes[place];
    if (node === undefined) throw new RangeError(`there is no node ${place}`);
    const changed = { ...node, ...change };
    const { nodeId, address } = changed;
    this.#nodes[place] = changed;
    for (const [partition, holder] of this.#holders) {
      if (holder.nodeId === nodeId) this.#holders.set(partition, { ...holder, address });
    }
    this.#changed();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}
