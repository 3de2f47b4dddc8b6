import type { Log } from '../ports/log.ts';
import type {
  MemberChange,
  MemberMeta,
  Membership,
  MembershipEvents,
  MembershipFigures,
  Peer,
} from '../ports/membership.ts';
import { packMeta } from './messages.ts';
import { NameConflicts } from './name-conflicts.ts';
import { DEFAULT_TIMING, type GossipTiming } from './options.ts';
import { Seeds } from './seeds.ts';
import type { SwimFigures } from './swim-member.ts';
import { GossipWorker } from './worker.ts';

/** A main loop that stands still for this long is as good as dead. Longer than any pause of the garbage collector. */
const HANG_AFTER_MS = 10_000;
/** Between starts of a thread that ends by itself. */
const RESTART_FIRST_MS = 100;
const RESTART_MAX_MS = 10_000;

export interface GossipOptions {
  /** `incarnation`: starts of this member counted on its disk, or, without a disk, seconds since 1970. */
  readonly self: MemberMeta;
  /** Members of another cluster are refused. */
  readonly clusterId: string;
  /**
   * The first seals, all open. To replace a key without a break: add the new one at the end on all members, then put it
   * first on all, then take the old one away. Without keys anybody in the network can join; only clusters are kept apart.
   */
  readonly keys: readonly string[];
  /** `host:port` of members to begin with; may be down, and need not resolve yet. */
  readonly seeds: readonly string[];
  /** Where to listen for datagrams. IPv4. Port 0: any. */
  readonly listen: { readonly host: string; readonly port: number };
  /** `host` or `host:port` peers reach this member at. Default: where it listens, else the machine's first address. */
  readonly advertise?: string;
  /** A main loop that stood still for this long lets the member be declared dead, in ms. Default 10,000. */
  readonly hangAfterMs?: number;
  readonly timing?: Partial<GossipTiming>;
  readonly log: Log;
}

/**
 * Starts gossip in a thread of its own, so that a busy main loop does not look dead. Resolves when it listens, whether
 * or not any seed answers. Rejects with GossipListenError, MetaTooLargeError, or a TypeError for a malformed seed.
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
  #worker: GossipWorker | undefined;
  #threadStart = 0;
  #restarting: NodeJS.Timeout | undefined;
  #backoffMs = RESTART_FIRST_MS;
  /** Of threads that have ended. */
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
    // A thread that starts again keeps its port, so that peers find it where it was.
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
    const worker = await GossipWorker.start(member, hangAfterMs, {
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
    this.#options.log.error({ err: error, againInMs: this.#backoffMs }, 'gossip ended; it is started again');
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
