import type { Instant } from '@taskmaster/engine/domain';
import type { CancelTimer, Clock } from '@taskmaster/engine/ports';
import type {
  MemberChange,
  MemberMeta,
  Membership,
  MembershipEvents,
  MembershipFigures,
  Peer,
} from '../ports/membership.ts';

/** Decides whether a datagram is lost, and how long it takes, in ms. */
export type Reachability = (from: string, to: string) => { readonly drop: boolean; readonly delayMs: number };

export interface SimGossipOptions {
  readonly reach?: Reachability;
  /** Interval of the exchanges with each peer, in ms. Default 200. */
  readonly intervalMs?: number;
  /** A peer counts as dead after this time without a datagram, in ms. Default 3000. */
  readonly deadAfterMs?: number;
  /** A dead peer is forgotten after this time, in ms. Default one hour. */
  readonly forgetAfterMs?: number;
}

interface Known {
  readonly meta: MemberMeta;
  readonly gossipAddress: string;
  /** Number of announcements of the member in this start. */
  readonly revision: number;
  readonly left: boolean;
  heardAt: number;
  alive: boolean;
  diedAt?: number;
}

/**
 * The network of a simulated cluster. Each member tells all others everything it knows. Members are found by their
 * addresses.
 */
export class SimGossip {
  readonly members = new Map<string, SimMembership>();
  readonly reach: Reachability;
  readonly intervalMs: number;
  readonly deadAfterMs: number;
  readonly forgetAfterMs: number;

  constructor(options: SimGossipOptions = {}) {
    this.reach = options.reach ?? (() => ({ drop: false, delayMs: 1 }));
    this.intervalMs = options.intervalMs ?? 200;
    this.deadAfterMs = options.deadAfterMs ?? 3000;
    this.forgetAfterMs = options.forgetAfterMs ?? 3_600_000;
  }

  /** Starts a member. `seeds` are gossip addresses at which no member needs to listen yet. */
  open(self: MemberMeta, gossipAddress: string, seeds: readonly string[], clock: Clock): SimMembership {
    if (this.members.has(gossipAddress)) throw new Error(`${gossipAddress} is in use`);
    const member = new SimMembership(this, self, gossipAddress, seeds, clock);
    this.members.set(gossipAddress, member);
    return member;
  }
}

interface Rumour {
  readonly meta: MemberMeta;
  readonly gossipAddress: string;
  readonly revision: number;
  readonly left: boolean;
}

/**
 * Membership on virtual time. It is deterministic, and shows what other members see of a network partition, a crash and a
 * leave.
 */
export class SimMembership implements Membership {
  readonly gossipAddress: string;
  readonly #net: SimGossip;
  #seeds: readonly string[];
  readonly #clock: Clock;
  readonly #known = new Map<string, Known>();
  readonly #conflicts = new Set<string>();
  readonly #changeListeners = new Set<MembershipEvents['change']>();
  readonly #conflictListeners = new Set<MembershipEvents['nameConflict']>();
  #self: MemberMeta;
  #revision = 0;
  #shown = '[]';
  #cancel: CancelTimer;
  #closed = false;
  #sent = 0;
  #received = 0;
  #deaths = 0;

  constructor(net: SimGossip, self: MemberMeta, gossipAddress: string, seeds: readonly string[], clock: Clock) {
    this.#net = net;
    this.#self = self;
    this.gossipAddress = gossipAddress;
    this.#seeds = seeds;
    this.#clock = clock;
    this.#cancel = clock.at(clock.now(), () => this.#round());
  }

  seek(addresses: readonly string[]): void {
    this.#seeds = addresses;
  }

  get self(): MemberMeta {
    return this.#self;
  }

  peers(): readonly Peer[] {
    return [...this.#known.values()]
      .map(({ meta, gossipAddress, alive }) => ({ ...meta, gossipAddress, alive, suspect: false }))
      .sort((a, b) => (a.nodeId < b.nodeId ? -1 : 1));
  }

  on<E extends keyof MembershipEvents>(event: E, listener: MembershipEvents[E]): () => void {
    const listeners: Partial<Record<keyof MembershipEvents, Set<unknown>>> = {
      change: this.#changeListeners,
      nameConflict: this.#conflictListeners,
    };
    listeners[event]?.add(listener);
    return () => void listeners[event]?.delete(listener);
  }

  announce(change: MemberChange): void {
    this.#self = { ...this.#self, ...change };
    this.#revision++;
    this.#tellAll();
  }

  figures(): MembershipFigures {
    const refused = { malformed: 0, oversized: 0, otherCluster: 0, unauthenticated: 0, replayed: 0, misshapen: 0 };
    const counts = { datagramsIn: this.#received, datagramsOut: this.#sent, refused };
    return { ...counts, suspicions: this.#deaths, deaths: this.#deaths, threadRestarts: 0, hangs: 0 };
  }

  async leave(): Promise<void> {
    if (this.#closed) return;
    this.#revision++;
    this.#tellAll(true);
    await this.close();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancel();
    this.#net.members.delete(this.gossipAddress);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #round(): void {
    const now = this.#clock.now();
    this.#tellAll();
    for (const [nodeId, known] of this.#known) {
      if (known.alive && now - known.heardAt >= this.#net.deadAfterMs) {
        this.#deaths++;
        known.alive = false;
        known.diedAt = now;
      }
      if (known.diedAt !== undefined && now - known.diedAt >= this.#net.forgetAfterMs) this.#known.delete(nodeId);
    }
    this.#publish();
    this.#cancel = this.#clock.at((now + this.#net.intervalMs) as Instant, () => this.#round());
  }

  #tellAll(left = false): void {
    const own: Rumour = { meta: this.#self, gossipAddress: this.gossipAddress, revision: this.#revision, left };
    const others = [...this.#known.values()].filter(({ alive }) => alive);
    const peers = [...this.#known.values()].map(({ gossipAddress }) => gossipAddress);
    for (const to of new Set([...this.#seeds, ...peers])) {
      if (to === this.gossipAddress) continue;
      const { drop, delayMs } = this.#net.reach(this.gossipAddress, to);
      this.#sent++;
      if (drop) continue;
      // The clock of the receiver, so that a receiver that lost power receives nothing.
      const receiver = this.#net.members.get(to);
      receiver?.hear(own, others, delayMs);
    }
  }

  /** Receives a datagram of a peer after the delay. */
  hear(from: Rumour, others: readonly Rumour[], delayMs: number): void {
    this.#clock.at((this.#clock.now() + delayMs) as Instant, () => {
      if (this.#closed) return;
      this.#received++;
      this.#take(from, true);
      for (const other of others) this.#take(other, false);
      this.#publish();
    });
  }

  /** Hearsay adds members and corrects addresses. Only a datagram of the member itself proves that it is alive. */
  #take(rumour: Rumour, direct: boolean): void {
    const { meta, gossipAddress, revision, left } = rumour;
    if (meta.nodeId === this.#self.nodeId) return;
    const now = this.#clock.now();
    const known = this.#known.get(meta.nodeId);
    const newer =
      !known ||
      meta.incarnation > known.meta.incarnation ||
      (meta.incarnation === known.meta.incarnation && revision > known.revision);
    if (newer) {
      const dead = left ? { alive: false, diedAt: now } : { alive: true, diedAt: undefined };
      this.#known.set(meta.nodeId, { meta, gossipAddress, revision, left, heardAt: now, ...dead });
    } else if (direct && !known.left && meta.incarnation === known.meta.incarnation) {
      known.heardAt = now;
      known.alive = true;
      known.diedAt = undefined;
    }
  }

  #publish(): void {
    const peers = this.peers();
    const shown = JSON.stringify(peers);
    if (shown === this.#shown) return;
    this.#shown = shown;
    for (const peer of peers) {
      const conflict = peer.alive && peer.name === this.#self.name;
      if (!conflict) this.#conflicts.delete(peer.nodeId);
      else if (!this.#conflicts.has(peer.nodeId)) {
        this.#conflicts.add(peer.nodeId);
        for (const listener of this.#conflictListeners) listener(peer);
      }
    }
    for (const listener of this.#changeListeners) listener(peers);
  }
}
