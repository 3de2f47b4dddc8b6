import type { Partitions } from '@taskmaster/engine';
import type { PartitionId } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import type { Members } from '@taskmaster/server/cluster-view';

export interface LeftTargetsDeps {
  readonly partitions: Partitions;
  readonly log: Log;
  readonly members: () => Members;
  /** Exchanges knowledge with these members; true if all answered. */
  readonly exchangeWithAll: (nodeIds: readonly string[]) => Promise<boolean>;
  /** The other members whose answers are needed. */
  readonly toHear: () => readonly string[];
  /** Lets this node serve the partitions again that this member may have taken, because no member holds them. */
  readonly takeBack: (nodeId: string) => Promise<void>;
}

/**
 * Resolves hand-offs to a member that left before it told their outcome. This is a rule that is checked again and again,
 * not a step of leaving: it also covers steps that failed or that a restart forgot.
 *
 *  L1  The member left without partitions and takes no more. Either it never took the partition, or it handed it over, and
 *      then another member holds it at a later epoch.
 *  L2  That holder is one of the other members, or one of them knows it. Their answers are final once all have answered,
 *      because of L1.
 *  L3  A removed member may have taken the partition, and it may be lost with it. Once all members have answered, all
 *      refuse transfers from the removed member, so L2 holds for it too. The answers also tell who claimed the partition.
 */
export class LeftTargets {
  readonly #deps: LeftTargetsDeps;
  #busy = false;

  constructor(deps: LeftTargetsDeps) {
    this.#deps = deps;
  }

  /** Call this after each change, and periodically. */
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
      // A member joined meanwhile and was not asked.
      if (toHear().some((nodeId) => !asked.has(nodeId))) return;
      for (const nodeId of new Set(targets)) await takeBack(nodeId);
    } catch (error) {
      log.warn(
        { err: error, targets },
        'could not take back yet the partitions that members which left may have taken',
      );
    } finally {
      this.#busy = false;
    }
  }
}
