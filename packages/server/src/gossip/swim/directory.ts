import type { Peer } from '../../ports/membership.ts';
import { type MemberData, MemberState, unpackMeta } from '../datagrams/messages.ts';

interface Entry {
  readonly peer: Peer;
  diedAt?: number;
}

/**
 * Peers by node id, from swim's members by address. A node that restarts at another address is one peer: its later start counts.
 */
export class Directory {
  readonly #self: string;
  readonly #forgetAfterMs: number;
  readonly #entries = new Map<string, Entry>();
  #shown = '';

  constructor(selfId: string, forgetAfterMs: number) {
    this.#self = selfId;
    this.#forgetAfterMs = forgetAfterMs;
  }

  /**
   * Takes over the members of swim, without this member. Returns the peers if they changed, and the addresses of earlier starts,
   * where no member answers any more.
   */
  update(members: readonly MemberData[], now: number): { changed: readonly Peer[] | undefined; replaced: string[] } {
    const current = new Map<string, MemberData>();
    const replaced: string[] = [];
    for (const member of members) {
      const [nodeId] = member.meta;
      const other = current.get(nodeId);
      if (nodeId === this.#self) continue;
      const later = !other || isLater(member, other);
      if (later) current.set(nodeId, member);
      const loser = later ? other : member;
      if (loser && loser.state !== MemberState.faulty) replaced.push(loser.host);
    }
    for (const [nodeId, member] of current) this.#take(nodeId, member, now);
    for (const [nodeId, entry] of this.#entries) {
      if (!current.has(nodeId) && entry.peer.alive) {
        this.#entries.set(nodeId, { ...entry, peer: { ...entry.peer, alive: false, suspect: false }, diedAt: now });
      }
      if (entry.diedAt !== undefined && now - entry.diedAt > this.#forgetAfterMs) this.#entries.delete(nodeId);
    }
    const peers = this.peers();
    const shown = JSON.stringify(peers);
    const changed = shown === this.#shown ? undefined : peers;
    this.#shown = shown;
    return { changed, replaced };
  }

  peers(): readonly Peer[] {
    return [...this.#entries.values()].map(({ peer }) => peer).sort((a, b) => (a.nodeId < b.nodeId ? -1 : 1));
  }

  #take(nodeId: string, member: MemberData, now: number): void {
    const known = this.#entries.get(nodeId);
    const meta = unpackMeta(member.meta);
    if (known && meta.incarnation < known.peer.incarnation) return;
    const alive = member.state !== MemberState.faulty;
    const peer: Peer = { ...meta, gossipAddress: member.host, alive, suspect: member.state === MemberState.suspect };
    const diedAt = alive ? undefined : (known?.diedAt ?? now);
    this.#entries.set(nodeId, { peer, diedAt });
  }
}

const startOf = (member: MemberData): number => member.meta[7];

function isLater(a: MemberData, b: MemberData): boolean {
  if (startOf(a) !== startOf(b)) return startOf(a) > startOf(b);
  if ((a.state === MemberState.faulty) !== (b.state === MemberState.faulty)) return b.state === MemberState.faulty;
  return a.incarnation > b.incarnation;
}
