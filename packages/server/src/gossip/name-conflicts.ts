import type { MemberMeta, Peer } from '../ports/membership.ts';

/** Live peers that have this member's name. Each is found once, and again after it was gone. */
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
