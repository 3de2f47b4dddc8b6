import type { Members } from '@taskmaster/server/cluster-view';
import type { PartitionId } from '@taskmaster/server/domain';
import type { Log } from '@taskmaster/server/ports';
import type { Partitions } from '../../engine/partitions/partitions.ts';

export interface LeftTargetsDeps {
  readonly partitions: Partitions;
  readonly log: Log;
  readonly members: () => Members;
  /** Hears what each of these members knows; whether all of them answered. */
  readonly exchangeWithAll: (nodeIds: readonly string[]) => Promise<boolean>;
  /** Members whose answers are needed, this node left out. */
  readonly toHear: () => readonly string[];
  /** Nobody has what this member may have taken: it is served here again. */
  readonly takeBack: (nodeId: string) => Promise<void>;
}

/**
 * Hand-offs to a member that left before it said what became of them. A rule that is looked at again and again, not a step
 * of its leaving: whatever failed then, or was forgotten by a restart, is made good here.
 *
 *  L1  It left with nothing, and takes nothing any more. Either it never took the partition, or it handed it on, and then
 *      some member holds it at a later epoch.
 *  L2  That one, wherever the partition has gone since, is among the others, or is known to one of them; what they say is
 *      final once all have answered, because of L1.
 *  L3  One that was given up may have taken it and be lost with it. It hands nothing on any more once all have answered,
 *      as all of them refuse what it sends: then L2 holds for it, too. Who has claimed the partition since is heard of.
 */
export class LeftTargets {
  readonly #deps: LeftTargetsDeps;
  #busy = false;

  constructor(deps: LeftTargetsDeps) {
    this.#deps = deps;
  }

  /** To be called after each change, and now and then. */
  look(): void {
    const targets = this.#targets();
    if (this.#busy || targets.length === 0) return;
    this.#busy = true;
    void this.#resolve(targets);
  }

  #targets(): string[] {
    const { partitions, members } = this.#deps;
    const known = members();
    const targets: string[] = [];
    for (let id = 0; id < partitions.count; id++) {
      const holding = partitions.holding(id as PartitionId);
      const target = holding?.kind === 'handing-over' ? known.get(holding.to) : undefined;
      if (target?.state === 'left') targets.push(target.nodeId);
    }
    return targets;
  }

  async #resolve(targets: readonly string[]): Promise<void> {
    const { exchangeWithAll, toHear, takeBack, log } = this.#deps;
    try {
      const asked = new Set(toHear());
      if (!(await exchangeWithAll([...asked]))) return;
      // Somebody joined meanwhile, and was not asked.
      if (toHear().some((nodeId) => !asked.has(nodeId))) return;
      for (const nodeId of new Set(targets)) await takeBack(nodeId);
    } catch (error) {
      log.warn({ err: error, targets }, 'what members that have left may have taken could not be taken back yet');
    } finally {
      this.#busy = false;
    }
  }
}
