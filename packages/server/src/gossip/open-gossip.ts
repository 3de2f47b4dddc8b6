import type { Log } from '@taskmaster/engine/ports';
import type {
  MemberChange,
  MemberMeta,
  Membership,
  MembershipEvents,
  MembershipFigures,
  Peer,
} from '../ports/membership.ts';
import { packMeta } from './datagrams/messages.ts';
import { DEFAULT_TIMING, type GossipTiming } from './swim/options.ts';
import { Seeds } from './swim/seeds.ts';
import type { SwimFigures } from './swim/swim-member.ts';
import { GossipThreadHandle } from './thread/thread-handle.ts';

/** Finds live peers with the name of this member. Reports each once, and again if it disappears and returns. */
class NameConflicts {
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

/** If the main thread hangs for this long, the member counts as dead, in ms. Longer than any pause of the garbage collector. */
const HANG_AFTER_MS = 10_000;
/** First and longest delay before a failed thread is restarted, in ms. */
const RESTART_FIRST_MS = 100;
const RESTART_MAX_MS = 10_000;

export interface GossipOptions {
  /** The description of this member. `incarnation` is below 2^32; a member without a disk uses the seconds since 1970. */
  readonly self: MemberMeta;
  /** Messages of other clusters are rejected. */
  readonly clusterId: string;
  /**
   * The first key seals messages; all keys open them. To replace a key: add the new one at the end on all members, then move it
   * to the front on all, then remove the old one. Without keys every process in the network can join, and only clusters are kept
   * apart.
   */
  readonly keys: readonly string[];
  /** `host:port` of members to contact first. They may be down, and their names need not resolve yet. */
  readonly seeds: readonly string[];
  /** The IPv4 address to listen on. Port 0: any free port. */
  readonly listen: { readonly host: string; readonly port: number };
  /**
   * `host` or `host:port` at which peers reach this member. Default: the address it listens on, or the first address of the
   * machine.
   */
  readonly advertise?: string;
  /** If the main thread hangs for this long, the member lets its peers declare it dead, in ms. Default 10,000. */
  readonly hangAfterMs?: number;
  readonly timing?: Partial<GossipTiming>;
  readonly log: Log;
}

/**
 * Starts gossip on a thread of its own, so that a member with a busy main thread does not look dead. Resolves when it listens,
 * even if no seed answers. Rejects with `GossipListenError`, `MetaTooLargeError`, or a `TypeError` for an invalid seed.
 */
export async function openGossip(options: GossipOptions): Promise<Membership> {
  packMeta(options.self);
  new Seeds(options.seeds, options.log);
  const gossip = new Gossip(options);
  await gossip.start();
  return gossip;
}

class Gossip implements Membership {
  readonly #options: GossipOptions;
  readonly #listeners: { [E in keyof MembershipEvents]: Set<MembershipEvents[E]> } = {
    change: new Set(),
    nameConflict: new Set(),
    failed: new Set(),
  };
  readonly #conflicts = new NameConflicts();
  #self: MemberMeta;
  #gossipAddress = '';
  #seeds: readonly string[];
  #peers: readonly Peer[] = [];
  #worker: GossipThreadHandle | undefined;
  #threadStart = 0;
  #restarting: NodeJS.Timeout | undefined;
  #backoffMs = RESTART_FIRST_MS;
  /** Figures of earlier threads. */
  #earlier: { figures: SwimFigures; hangs: number } = { figures: noFigures(), hangs: 0 };
  #ended: Promise<void> | undefined;

  constructor(options: GossipOptions) {
    this.#options = options;
    this.#self = options.self;
    this.#seeds = options.seeds;
  }

  get self(): MemberMeta {
    return this.#self;
  }

  get gossipAddress(): string {
    return this.#gossipAddress;
  }

  peers(): readonly Peer[] {
    return this.#peers;
  }

  on<E extends keyof MembershipEvents>(event: E, listener: MembershipEvents[E]): () => void {
    this.#listeners[event].add(listener);
    return () => void this.#listeners[event].delete(listener);
  }

  seek(addresses: readonly string[]): void {
    this.#seeds = addresses;
    this.#worker?.post({ kind: 'seek', addresses });
  }

  announce(change: MemberChange): void {
    const meta = { ...this.#self, ...change };
    packMeta(meta);
    this.#self = meta;
    this.#worker?.post({ kind: 'announce', meta });
  }

  figures(): MembershipFigures {
    const current = this.#worker ?? { figures: noFigures(), hangs: 0 };
    return {
      ...sumOf(this.#earlier.figures, current.figures),
      hangs: this.#earlier.hangs + current.hangs,
      threadRestarts: Math.max(0, this.#threadStart - 1),
    };
  }

  leave(): Promise<void> {
    this.#ended ??= this.#end('leave');
    return this.#ended;
  }

  close(): Promise<void> {
    this.#ended ??= this.#end('close');
    return this.#ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async start(): Promise<void> {
    const { clusterId, keys, listen, advertise, timing, hangAfterMs = HANG_AFTER_MS, log } = this.#options;
    // A restarted thread keeps its port, so that peers find it.
    const port = this.#gossipAddress === '' || listen.port !== 0 ? listen.port : portOf(this.#gossipAddress);
    const member = {
      meta: this.#self,
      clusterId,
      keys,
      seeds: [
        ...this.#seeds.filter(isAddress),
        ...this.#peers.filter(({ alive }) => alive).map((peer) => peer.gossipAddress),
      ],
      listen: { host: listen.host, port },
      advertise,
      timing: { ...DEFAULT_TIMING, ...timing },
      threadStart: this.#threadStart++,
    };
    const worker = await GossipThreadHandle.start(member, hangAfterMs, {
      log,
      onPeers: (peers) => this.#take(peers),
      onDeath: (error) => this.#restart(error),
    });
    if (this.#ended) return worker.end('close');
    this.#worker = worker;
    this.#gossipAddress = worker.gossipAddress;
    this.#backoffMs = RESTART_FIRST_MS;
    worker.post({ kind: 'announce', meta: this.#self });
  }

  #take(peers: readonly Peer[]): void {
    if (this.#ended) return;
    this.#peers = peers;
    for (const peer of this.#conflicts.found(this.#self, peers)) {
      for (const listener of this.#listeners.nameConflict) listener(peer);
    }
    for (const listener of this.#listeners.change) listener(peers);
  }

  #restart(error: Error): void {
    if (this.#ended) return;
    if (this.#worker) {
      this.#earlier = {
        figures: sumOf(this.#earlier.figures, this.#worker.figures),
        hangs: this.#earlier.hangs + this.#worker.hangs,
      };
      this.#worker = undefined;
    }
    this.#options.log.error({ err: error, againInMs: this.#backoffMs }, 'gossip ended; it is restarted');
    for (const listener of this.#listeners.failed) listener(error);
    this.#restarting = setTimeout(() => {
      this.start().catch((cause: unknown) => this.#restart(cause instanceof Error ? cause : new Error(String(cause))));
    }, this.#backoffMs);
    this.#backoffMs = Math.min(2 * this.#backoffMs, RESTART_MAX_MS);
  }

  async #end(how: 'leave' | 'close'): Promise<void> {
    clearTimeout(this.#restarting);
    await this.#worker?.end(how);
  }
}

const isAddress = (seed: string): boolean => /^[^:\s]+:\d{1,5}$/.test(seed);

const portOf = (address: string): number => Number(address.split(':')[1]);

function noFigures(): SwimFigures {
  const refused = { malformed: 0, oversized: 0, otherCluster: 0, unauthenticated: 0, replayed: 0, misshapen: 0 };
  return { datagramsIn: 0, datagramsOut: 0, refused, suspicions: 0, deaths: 0 };
}

function sumOf(a: SwimFigures, b: SwimFigures): SwimFigures {
  const refused = { ...a.refused };
  for (const reason of Object.keys(refused) as (keyof typeof refused)[]) refused[reason] += b.refused[reason];
  return {
    datagramsIn: a.datagramsIn + b.datagramsIn,
    datagramsOut: a.datagramsOut + b.datagramsOut,
    refused,
    suspicions: a.suspicions + b.suspicions,
    deaths: a.deaths + b.deaths,
  };
}
