import type { Instant } from '@taskmaster/engine/domain';
import type { Clock, Log } from '@taskmaster/engine/ports';
import { type HolderView, isHolding, type Members } from '@taskmaster/server/cluster-view';
import type { Membership } from '@taskmaster/server/ports';

export interface PresenceLogDeps {
  readonly nodeId: string;
  readonly membership: Membership;
  readonly members: () => Members;
  readonly view: HolderView;
  readonly clock: Clock;
  readonly log: Log;
}

/** After a start, gossip finds live members within this time. Before it has passed, a missing member is not worth a warning. */
const FIND_MS = 10_000;

/** Logs once when a member stops answering, and once when it answers again. */
export class PresenceLog {
  readonly #deps: PresenceLogDeps;
  readonly #began: Instant;
  readonly #seen = new Set<string>();
  readonly #missing = new Set<string>();

  constructor(deps: PresenceLogDeps) {
    this.#deps = deps;
    this.#began = deps.clock.now();
  }

  /** Call this after every change of who is alive, and periodically. */
  look(): void {
    const { nodeId: own, membership, members, clock, log } = this.#deps;
    const alive = new Set(membership.peers().flatMap((peer) => (peer.alive ? [peer.nodeId] : [])));
    const isSearching = clock.now() - this.#began < FIND_MS;
    for (const record of members().values()) {
      const { nodeId, name } = record;
      if (nodeId === own) continue;
      if (!isHolding(record)) {
        this.#missing.delete(nodeId);
      } else if (alive.has(nodeId)) {
        this.#seen.add(nodeId);
        if (this.#missing.delete(nodeId)) log.info({ member: name }, `member ${name} answers again`);
      } else if (!this.#missing.has(nodeId) && (this.#seen.has(nodeId) || !isSearching)) {
        this.#missing.add(nodeId);
        const partitions = this.#heldBy(nodeId);
        const wait = partitions === 1 ? '1 partition waits' : `${partitions} partitions wait`;
        log.warn({ member: name, partitions }, `member ${name} does not answer; ${wait} for it`);
      }
    }
  }

  #heldBy(nodeId: string): number {
    let count = 0;
    for (const [, holder] of this.#deps.view.entries()) if (holder.nodeId === nodeId) count++;
    return count;
  }
}
