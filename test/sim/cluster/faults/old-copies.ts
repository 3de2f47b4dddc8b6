import type { PartitionId } from '@taskmaster/engine/domain';
import type { SeededRandom } from '@taskmaster/engine/testing';
import type { SimNode } from '@taskmaster/node/testing';
import type { Fault } from './fault.ts';

/** Share of the possible cases in which a copy is put back. */
const RATE = 0.6;

type Held = ReadonlyMap<PartitionId, { readonly epoch: number; readonly ticket: number }>;

interface Copy {
  readonly rows: ReturnType<SimNode['h']['disk']['copy']>;
  readonly held: Held;
}

export interface OldCopiesOptions {
  readonly random: SeededRandom;
  readonly count: (fault: Fault, details: string) => void;
  /** Removes a node that has noticed that its directory is an older copy, like an operator. */
  readonly remove: (node: SimNode) => void;
}

/** Makes backups of stopped nodes, and puts a backup back later although the cluster has changed since. */
export class OldCopies {
  /** Partitions in old copies that were put back. */
  readonly partitions = new Set<number>();
  readonly #options: OldCopiesOptions;
  readonly #held = new Map<string, Held>();
  readonly #copies = new Map<string, Copy>();
  /** Nodes that were put back, by name. */
  readonly #old = new Set<string>();

  constructor(options: OldCopiesOptions) {
    this.#options = options;
  }

  has(name: string): boolean {
    return this.#old.has(name);
  }

  /** Call this just before the node stops in good order. */
  stops(node: SimNode): void {
    this.#held.set(node.name, heldBy(node));
  }

  /** Call this just after the node has stopped, when its disk is not open. */
  stopped({ name, isUp, isStarting, h }: SimNode): void {
    const held = this.#held.get(name);
    if (isUp || isStarting || h.store || !held?.size || this.#old.has(name)) return;
    this.#copies.set(name, { rows: h.disk.copy(), held });
  }

  /**
   * Kills a node and replaces its disk by its last backup. Returns false if it does nothing. Another node must know that the
   * node had more: otherwise no node could notice the copy.
   */
  putBack(node: SimNode, others: readonly SimNode[]): boolean {
    const { random, count } = this.#options;
    const copy = this.#copies.get(node.name);
    if (!copy || this.#old.size > 0) return false;
    const now = heldBy(node);
    const isKnown = others.some((other) => other.isUp && knowsMore(other, node, copy.held));
    if (!isKnown || !random.chance(RATE)) return false;
    count('put back from an old copy', node.name);
    for (const id of [...copy.held.keys(), ...now.keys()]) this.partitions.add(id);
    this.#old.add(node.name);
    node.kill();
    node.h.disk.restore(copy.rows);
    return true;
  }

  /** Call this after the node has started. It knows already that its directory is an older copy, or learns it later. */
  started(node: SimNode): void {
    if (!this.#old.has(node.name) || !node.isUp) return;
    const { count, remove } = this.#options;
    const { agent } = node;
    void agent.barred.then(() => {
      if (!node.isUp || node.agent !== agent || agent.self?.state === 'left') return;
      count('old copy noticed', node.name);
      remove(node);
    });
  }
}

const heldBy = ({ partitions }: SimNode): Held =>
  new Map(partitions.held().map(({ id, epoch }) => [id, { epoch, ticket: partitions.ticketsOf(id)?.lastTicket ?? 0 }]));

/** True if a node has heard that another one held more than `held`. */
function knowsMore({ agent: { view } }: SimNode, { agent: { nodeId } }: SimNode, held: Held): boolean {
  for (const [id, known] of view.entries()) {
    if (known.nodeId !== nodeId) continue;
    const then = held.get(id);
    if (!then || known.epoch > then.epoch || view.durableMark(id) > then.ticket) return true;
  }
  return false;
}
