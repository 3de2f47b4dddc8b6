import type { SimNode } from '@taskmaster/node/testing';
import type { PartitionId } from '@taskmaster/server/domain';
import type { SeededRandom } from '@taskmaster/server/testing';
import type { Fault } from './faults.ts';

/** Of nodes of which another one knows that they changed since their backup, and of the rest. */
const KNOWN_RATE = 0.6;
const UNKNOWN_RATE = 0.05;

type Held = ReadonlyMap<PartitionId, { readonly epoch: number; readonly ticket: number }>;

interface Copy {
  readonly rows: ReturnType<SimNode['h']['disk']['copy']>;
  readonly held: Held;
}

export interface OldCopiesOptions {
  readonly random: SeededRandom;
  readonly count: (fault: Fault, details: string) => void;
  /** What operators do with a node that says that its directory is an older copy. */
  readonly giveUp: (node: SimNode) => void;
}

/** Backups of nodes that were stopped, and operators who put one back though the cluster went on without it. */
export class OldCopies {
  /** Partitions of which an old copy says something. */
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

  /** Just before the node is stopped in good order. */
  stops(node: SimNode): void {
    this.#held.set(node.name, heldBy(node));
  }

  /** Just after: nobody has its disk open. */
  stopped({ name, isUp, isStarting, h }: SimNode): void {
    const held = this.#held.get(name);
    if (isUp || isStarting || h.store || !held?.size || this.#old.has(name)) return;
    this.#copies.set(name, { rows: h.disk.copy(), held });
  }

  /** The process of a node ends, and what it had is replaced by its last backup; false where that does not happen. */
  putBack(node: SimNode, others: readonly SimNode[]): boolean {
    const { random, count } = this.#options;
    const copy = this.#copies.get(node.name);
    if (!copy || this.#old.size > 0) return false;
    const now = heldBy(node);
    const isKnown = others.some((other) => other.isUp && knowsMore(other, node, copy.held));
    if (!random.chance(isKnown ? KNOWN_RATE : UNKNOWN_RATE)) return false;
    count('put back from an old copy', node.name);
    for (const id of [...copy.held.keys(), ...now.keys()]) this.partitions.add(id);
    this.#old.add(node.name);
    node.kill();
    node.h.disk.restore(copy.rows);
    return true;
  }

  /** It may have heard already that it is an older copy, or hears it later. */
  started(node: SimNode): void {
    if (!this.#old.has(node.name) || !node.isUp) return;
    const { count, giveUp } = this.#options;
    const { agent } = node;
    void agent.barred.then(() => {
      if (!node.isUp || node.agent !== agent || agent.self?.state === 'left') return;
      count('old copy noticed', node.name);
      giveUp(node);
    });
  }
}

const heldBy = ({ partitions }: SimNode): Held =>
  new Map(partitions.held().map(({ id, epoch }) => [id, { epoch, ticket: partitions.ticketsOf(id)?.lastTicket ?? 0 }]));

/** Whether a node has heard that another one held more than that. */
function knowsMore({ agent: { view } }: SimNode, { agent: { nodeId } }: SimNode, held: Held): boolean {
  for (const [id, known] of view.entries()) {
    if (known.nodeId !== nodeId) continue;
    const then = held.get(id);
    if (!then || known.epoch > then.epoch || view.durableMark(id) > then.ticket) return true;
  }
  return false;
}
