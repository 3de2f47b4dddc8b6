import type { PartitionClaim } from '@taskmaster/engine';
import type { PartitionId } from '@taskmaster/engine/domain';
import { type Clock, type Log, sleep } from '@taskmaster/engine/ports';
import {
  deciderWithout,
  epochBeyond,
  epochOfUnknown,
  type HolderView,
  isRemoved,
  type Members,
} from '@taskmaster/server/cluster-view';
import { PAUSE_MS } from './commit-guard.ts';

export interface OrphansDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly nodeId: string;
  readonly members: () => Members;
  readonly view: HolderView;
  readonly mayCommit: () => boolean;
  /** Exchanges knowledge with these members; true if all answered. */
  readonly exchangeWithAll: (nodeIds: readonly string[]) => Promise<boolean>;
  /** The other members whose answers are needed. */
  readonly toHear: () => readonly string[];
  /** Runs `decide` in turn with news and answers (see `Knowledge.inTurn`), and claims the partitions that it returns. */
  readonly claim: (decide: () => readonly PartitionClaim[]) => Promise<void>;
}

const RETRY_MS = 1_000;
/** Once all members know of a removal, this time passes before the claim (O2). */
const GRACE_MS = PAUSE_MS + 1_000;

interface Orphan {
  readonly id: PartitionId;
  /** The last known epoch; 0 if no member knows one. */
  readonly epoch: number;
  readonly nodeId: string;
}

/**
 * Restarts partitions that only removed members held. They start empty, at the active member with the lowest id. This is a
 * rule that is checked after every change, not a step of the removal: if the deciding member dies, the next one continues.
 *
 *  O1  Before a claim, every other member has answered after it knew of the removal. By then that member has ended transfers
 *      from the removed member and refuses new ones. So its answer stays true: a partition that the removed member handed
 *      over earlier is no orphan, and the removed member can hand over no more.
 *  O2  The removed member may still run, and may have been confirmed as a member just before the others knew of the
 *      removal. Every member that hears of a removal tells the removed member, so a running one knows within moments. A
 *      member that paused for longer than the commit guard allows asks when it continues, and any remaining member tells
 *      it. The wait between the first round of answers and the claim covers shorter pauses.
 *  O3  While member records travel, two nodes may both think that they have the lowest id. If each knows the other, each asks
 *      the other before it claims. The question tells the other that it is active, so only one of them still thinks that it
 *      has the lowest id. If only one knows the other, it hears of the other's claim, because answers and claims take turns.
 *      A node that learns of a new member during a round starts another round.
 *  O4  The epoch of a claim is two more than the removed member's: an unseen hand-off to or from that member would have
 *      one more. If several members are gone, it is a million more for each: they may have handed the partition back and
 *      forth, and one of them may have claimed it.
 *      That includes members that left in good order, because the members they told may have restarted since.
 *  O5  Members remember the holders of partitions only since their own start, so no member may know where a partition is.
 *      Once all have answered, only a removed member can have held it. Its epoch is unknown too, so the claim uses the
 *      microseconds since 1970: no epoch has grown that far. A proxy that still knows the earlier epoch hears of this one.
 *  O6  A claim may be on disk although its write failed. The store then takes no more writes. So this node cannot store that
 *      another member decides instead, and it does not answer that member. So no other member claims anything until this node
 *      has restarted and tells what its disk says, or was removed.
 */
export class Orphans {
  readonly #deps: OrphansDeps;
  readonly #stopping = new AbortController();
  #busy = false;

  constructor(deps: OrphansDeps) {
    this.#deps = deps;
  }

  /** Call this after each change, and periodically. */
  look(): void {
    if (this.#busy || !this.#isMine() || this.#orphans().length === 0) return;
    this.#busy = true;
    void this.#takeIn();
  }

  stop(): void {
    this.#stopping.abort();
  }

  #orphans(): Orphan[] {
    const { view, members } = this.#deps;
    if (![...members().values()].some(isRemoved)) return [];
    const orphans: Orphan[] = view.unknown().map((id) => ({ id, epoch: 0, nodeId: '' }));
    for (const [id, { nodeId, epoch }] of view.entries()) {
      // A member that left in good order handed its partitions over. If no member knows the next holder, it was removed.
      if (members().get(nodeId)?.state === 'left') orphans.push({ id, epoch, nodeId });
    }
    return orphans;
  }

  #isMine(): boolean {
    const { members, nodeId } = this.#deps;
    return !this.#stopping.signal.aborted && deciderWithout(members(), []) === nodeId;
  }

  async #takeIn(): Promise<void> {
    const { clock, log } = this.#deps;
    const { signal } = this.#stopping;
    try {
      while (this.#isMine()) {
        const orphans = this.#orphans();
        if (orphans.length === 0) return;
        if ((await this.#hearAll()) !== undefined) {
          await sleep(clock, GRACE_MS, signal);
          if (await this.#claim(orphans)) continue;
        }
        await sleep(clock, RETRY_MS, signal);
      }
    } catch (error) {
      if (!signal.aborted) log.error({ err: error }, 'could not claim the partitions of a removed member');
    } finally {
      this.#busy = false;
    }
  }

  /** The members that were asked; undefined unless all answered. */
  async #hearAll(): Promise<ReadonlySet<string> | undefined> {
    const { toHear, exchangeWithAll } = this.#deps;
    const asked = toHear();
    return (await exchangeWithAll(asked)) ? new Set(asked) : undefined;
  }

  /** Claims the orphans that are still orphans after one more round of answers. False if the claim was not possible. */
  async #claim(orphans: readonly Orphan[]): Promise<boolean> {
    const { claim, clock, members, toHear, mayCommit, log } = this.#deps;
    const heard = await this.#hearAll();
    if (!heard) return false;
    let claimed: readonly PartitionClaim[] | undefined;
    await claim(() => {
      if (!this.#isMine() || !mayCommit() || toHear().some((nodeId) => !heard.has(nodeId))) return [];
      const now = new Map(this.#orphans().map((orphan) => [orphan.id, orphan]));
      const same = ({ id, epoch, nodeId }: Orphan): boolean =>
        now.get(id)?.epoch === epoch && now.get(id)?.nodeId === nodeId;
      const unknown = epochOfUnknown(clock.now());
      claimed = orphans
        .filter(same)
        .map(({ id, epoch }) => ({ id, epoch: epoch > 0 ? epochBeyond(epoch, members()) : unknown }));
      return claimed;
    });
    if (!claimed) return false;
    if (claimed.length > 0) {
      const partitions = claimed.map(({ id }) => id);
      log.warn({ partitions }, 'restarted partitions, empty: the member that held them was removed');
    }
    return true;
  }
}
