import type { MemberMeta, Peer } from '../ports/membership.ts';

/** Finds live peers with the name of this member. Reports each once, and again if it disappears and returns. */
export class NameConflicts {
  readonly #known = new Set<string>();

  found(self: MemberMeta, peers: readonly Peer[]): Peer[] {
    const same = peers.filter(({ alive, name, nodeId }) => alive && name === self.name && nodeId !== self.nodeId);
    const ids = new Set(same.map(({ nodeId }) => nodeId));
    const found = same.filter(({ nodeId }) => !this.#known.has(nodeId));
    this.#known.clear();
    for (const id of ids) this.#known.add(id);
    return found;
  }
}
