import type { Engine } from '@taskmaster/engine';
import type { EngineHarness } from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import { parseQueueName, partitionOf } from '@taskmaster/proto';

/** Longer than the rest of the work takes when there are no faults. */
const MOST_ROUNDS = 200;
const ROUND_MS = 500;

/** Groups that one check has for itself: no other call is about their queues. It works on them where they are held. */
export class OwnGroups {
  readonly cluster: SimCluster;
  readonly names: readonly string[];
  readonly #found: { readonly group: string; readonly problem: string }[] = [];
  /** By group: where its last step goes on. Steps of a group would disturb each other. */
  readonly #working = new Map<string, Engine>();

  constructor(cluster: SimCluster, names: readonly string[]) {
    this.cluster = cluster;
    this.names = names;
  }

  report(group: string, problem: string): void {
    this.#found.push({ group, problem });
  }

  /** The node that serves the group, in a cluster without faults. */
  holderOf(group: string): EngineHarness {
    const holder = this.cluster.holderOf(group);
    if (!holder) throw new Error(`no node holds group ${group}`);
    return holder.h;
  }

  /** Lets each group work whose last step has ended. Nobody waits for it: the node may crash meanwhile. */
  step(work: (group: string, h: EngineHarness) => Promise<unknown>): void {
    for (const group of this.names) {
      const h = this.cluster.holderOf(group)?.h;
      if (h === undefined || this.#working.get(group) === h.engine) continue;
      const { engine } = h;
      this.#working.set(group, engine);
      const ended = (): void => {
        if (this.#working.get(group) === engine) this.#working.delete(group);
      };
      work(group, h).then(ended, ended);
    }
  }

  /** Works without faults until the queues of the group are empty. Resolves with the number of tasks that stay. */
  async workOff(
    group: string,
    queues: readonly string[],
    work: (h: EngineHarness) => Promise<unknown>,
  ): Promise<number> {
    const { cluster } = this;
    const named = queues.map((name) => parseQueueName(`${group}#${name}`));
    let left = Number.POSITIVE_INFINITY;
    for (let round = 0; round < MOST_ROUNDS && left > 0; round++) {
      const h = this.holderOf(group);
      await cluster.run(work(h));
      await cluster.pass(ROUND_MS);
      const { totals } = await cluster.run(h.engine.queueStats({ kind: 'named', queues: named }));
      left = totals.available + totals.leased + totals.delayed;
    }
    return left;
  }

  /**
   * Finishes the groups that were not given up, and returns what was found in them. `givenUp`: partitions that were lost, or are
   * older copies. `letter`: of the check, in front of each violation.
   */
  async violations(
    letter: string,
    givenUp: ReadonlySet<number>,
    finish: (group: string) => Promise<void>,
  ): Promise<string[]> {
    const kept = this.names.filter((group) => !givenUp.has(partitionOf(group, this.cluster.partitions)));
    for (const group of kept) await finish(group);
    const ofKept = this.#found.filter(({ group }) => kept.includes(group));
    return ofKept.map(({ group, problem }) => `(${letter}) in ${group}: ${problem}`);
  }
}
