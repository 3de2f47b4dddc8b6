import { deciderWithout, epochBeyond, type HolderView, isRemoved, type Members } from '@taskmaster/server/cluster-view';
import type { PartitionId } from '@taskmaster/server/domain';
import { type Clock, type Log, sleep } from '@taskmaster/server/ports';
import type { PartitionClaim } from '../../engine/partitions/partition-host.ts';
import { PAUSE_MS } from './commit-guard.ts';

export interface OrphansDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly nodeId: string;
  readonly members: () => Members;
  readonly view: HolderView;
  /** Whether this node may commit now. */
  readonly mayCommit: () => boolean;
  /** Hears what each of these members knows; whether all of them answered. */
  readonly exchangeWithAll: (nodeIds: readonly string[]) => Promise<boolean>;
  /** Members whose answers are needed, this node left out. */
  readonly toHear: () => readonly string[];
  /** Runs `decide` while nothing that another node says is taken over or answered, and holds what it returns. */
  readonly claim: (decide: () => readonly PartitionClaim[]) => Promise<void>;
}

const RETRY_MS = 1_000;
/** So long after everybody knows of the removal, whoever was removed knows it too, or does nothing before it asks (O2). */
const GRACE_MS = PAUSE_MS + 1_000;

interface Orphan {
  readonly id: PartitionId;
  /** As far as it is known; 0 where nobody knows anything. */
  readonly epoch: number;
  readonly nodeId: string;
}

/**
 * What only removed members held begins anew, empty, at the active member with the lowest id. This is a rule that is
 * looked at after every change, not a step of the removal: whoever dies in the middle of it is followed by the next.
 *
 *  O1  Before anything is claimed every other member has answered after it knew of the removal. It has then ended what
 *      was arriving from the removed member and refuses all that comes later, so that what its answer says stays true: a
 *      partition that the removed member handed over before is not an orphan, and none can be handed over any more.
 *  O2  The removed member may have run on unseen, and have been told that it is a member just before others knew better.
 *      Everybody who hears of a removal tells the removed member, so that a running one knows within moments; one that
 *      stands still for longer than the commit guard allows asks when it goes on, and hears it from anybody who is left.
 *      The wait between the first round of answers and the claim covers the one that stood still for less.
 *  O3  Two nodes may both believe to be the lowest while records of members travel. Each asks the other before it claims,
 *      if it knows of it, and so tells it that it is active; then only one of them believes it any more. Of two of which
 *      one does not know the other, the one that does hears of the other's claim: answers and claims take turns. Whoever
 *      learns of a new member during a round begins another one.
 *  O4  The epoch is two more than the removed member's: had it taken or handed over a partition without anybody's
 *      knowledge, that would be at one more. Several that are gone may have handed it to and fro among them before, also
 *      where some of them left in good order and those they told were started again: it is a million more then.
 *  O5  Where a partition is nobody may know any more, as members remember of others only what they heard since they were
 *      started. Where all have answered, only a member that was given up can have held it. Its epoch is not known either:
 *      the seconds since 1970 are more than any partition was ever handed over.
 *  O6  A claim whose write failed may be on disk all the same. The store takes nothing more then: this node cannot come to
 *      know durably of a member that decides in its place, so it does not answer that one. Nothing is claimed by another
 *      before this node was started again and says what its disk says, or was given up.
 */
export class Orphans {
  readonly #deps: OrphansDeps;
  readonly #stopping = new AbortController();
  #busy = false;

  constructor(deps: OrphansDeps) {
    this.#deps = deps;
  }

  /** To be called after each change, and now and then. */
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
      // Whoever left in good order handed it on: if nobody knows to whom, to one that was given up.
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
      if (!signal.aborted) log.error({ err: error }, 'partitions of a member that was given up could not be claimed');
    } finally {
      this.#busy = false;
    }
  }

  /** Who answered; undefined unless everybody did. */
  async #hearAll(): Promise<ReadonlySet<string> | undefined> {
    const { toHear, exchangeWithAll } = this.#deps;
    const asked = toHear();
    return (await exchangeWithAll(asked)) ? new Set(asked) : undefined;
  }

  /** Claims those of which nothing else is heard. Whether that was possible. */
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
      const seconds = Math.floor(clock.now() / 1000);
      claimed = orphans
        .filter(same)
        .map(({ id, epoch }) => ({ id, epoch: epoch > 0 ? epochBeyond(epoch, members()) : seconds }));
      return claimed;
    });
    if (!claimed) return false;
    if (claimed.length > 0) {
      const partitions = claimed.map(({ id }) => id);
      log.warn({ partitions }, 'began partitions anew, empty: the member that held them was given up');
    }
    return true;
  }
}
