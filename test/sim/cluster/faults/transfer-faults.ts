import type { SeededRandom } from '@taskmaster/engine/testing';
import type { SimCluster, SimNode } from '@taskmaster/node/testing';
import type { Arrival } from '@taskmaster/server/testing';
import type { Fault } from './fault.ts';

/** Longer than the wait before a lost partition is claimed. */
const STALL_MS = 6_500;
const MOST_STALL_MS = 6_000;
/** Longest time of a full disk, in ms: the memory is rebuilt during the hand-off. */
const FULL_MS = 8;
const STALL_RATE = 0.03;
const FULL_RATE = 0.12;
const LOSS_RATE = 0.03;

export interface TransferFaultsOptions {
  readonly cluster: SimCluster;
  readonly random: SeededRandom;
  readonly count: (fault: Fault, details: string) => void;
  readonly after: (ms: number, what: () => void) => void;
  /** Loses the node with its disk and lets it be removed. Returns false if that is not possible. */
  readonly loseForGood: (node: SimNode) => boolean;
}

/** Causes faults on both sides of a hand-off, which would be rare by chance. */
export class TransferFaults {
  readonly #options: TransferFaultsOptions;
  /** Number of partitions that each node held at its last change. */
  readonly #held = new Map<SimNode, number>();

  constructor(options: TransferFaultsOptions) {
    this.#options = options;
  }

  onArrival({ from, to, what, way }: Arrival): void {
    const { cluster, random } = this.#options;
    if (way !== 'request') return;
    const [source, target] = [cluster.nodes.get(from), cluster.nodes.get(to)];
    if (!source?.isUp || !target?.isUp) return;
    if (what === 'offerPartition' && random.chance(STALL_RATE)) this.#stall(source, target);
    else if (what === 'takePartition' && random.chance(FULL_RATE)) this.#fill(source);
    else if ((what === 'sendRows' || what === 'sendAtoms') && random.chance(LOSS_RATE)) this.#lose(source, target);
  }

  /** Counts releases during a rebuild of the memory: the rebuilt memory must not have the released partition. */
  holdingsChanged(node: SimNode): void {
    const before = this.#held.get(node) ?? 0;
    const now = node.partitions.held().length;
    this.#held.set(node, now);
    if (node.isStarting || now >= before || node.h.engine.health.kind !== 'starting') return;
    this.#options.count('release during a rebuild', node.name);
  }

  /** Stalls the target's disk in an offer, for longer than it takes until a lost partition is claimed. */
  #stall(source: SimNode, target: SimNode): void {
    const { count, random, after } = this.#options;
    const ms = STALL_MS + random.int(MOST_STALL_MS);
    after(random.int(12), () => {
      if (!target.isUp) return;
      count('stalled disk in an offer', `${target.name} for ${ms} ms`);
      target.h.disk.stallWrite(ms);
      if (random.chance(0.5)) after(random.int(4), () => this.#lose(source, target));
    });
  }

  #fill(source: SimNode): void {
    const { count, random, after } = this.#options;
    const ms = 1 + random.int(FULL_MS);
    after(random.int(FULL_MS), () => {
      if (!source.isUp || source.h.disk.space !== 'plenty') return;
      count('full disk at a switch', `${source.name} for ${ms} ms`);
      const { disk } = source.h;
      disk.space = 'none';
      after(ms, () => {
        disk.space = 'plenty';
      });
    });
  }

  /** Loses the source of a transfer whose target then claims the lost partition. */
  #lose(source: SimNode, target: SimNode): void {
    const { count, loseForGood } = this.#options;
    if (!source.isUp || !target.isUp || target.isStarting || this.#decider(source) !== target) return;
    if (loseForGood(source)) count('source lost in a transfer', `${source.name}, which sent to ${target.name}`);
  }

  #decider(without: SimNode): SimNode | undefined {
    const { cluster } = this.#options;
    const active = cluster.up.filter((node) => node !== without && !node.isStarting);
    return active
      .filter(({ agent }) => agent.self?.state === 'active')
      .sort((one, other) => (one.name < other.name ? -1 : 1))[0];
  }
}
