/** The description that a member gossips about itself. Every peer has the newest one within about a second. */
export interface MemberMeta {
  /** Stable id of the member. It is kept on its disk. */
  readonly nodeId: string;
  /** Unique among live members. */
  readonly name: string;
  readonly role: 'node' | 'proxy';
  /** `host:port` of its gRPC. */
  readonly rpcAddress: string;
  /** `host:port` of its HTTP. */
  readonly httpAddress?: string;
  readonly version: string;
  /** Grows when its knowledge of members or holders changes. Peers then pull the knowledge. */
  readonly stateVersion: number;
  /** Number of its start, at least 1. For one node id, the description with the larger number counts. */
  readonly incarnation: number;
}

/** The fields that may change while a member runs. */
export type MemberChange = Partial<
  Pick<MemberMeta, 'name' | 'rpcAddress' | 'httpAddress' | 'version' | 'stateVersion'>
>;

export interface Peer extends MemberMeta {
  /** `host:port` of its gossip. */
  readonly gossipAddress: string;
  /** False if the member was declared dead or has left. */
  readonly alive: boolean;
  /** True if the member does not answer. It is declared dead unless it objects. Until then it counts as alive. */
  readonly suspect: boolean;
}

/** The reason why a datagram was rejected. */
export type DatagramRefusal =
  | 'malformed' // not a datagram of gossip
  | 'oversized'
  | 'otherCluster'
  | 'unauthenticated' // another key, or altered
  | 'replayed'
  | 'misshapen'; // sealed with our key, but not a valid message

export interface MembershipFigures {
  readonly datagramsIn: number;
  readonly datagramsOut: number;
  readonly refused: Readonly<Record<DatagramRefusal, number>>;
  readonly suspicions: number;
  readonly deaths: number;
  /** Number of restarts of the gossip thread. */
  readonly threadRestarts: number;
  /** How often this member sent nothing because its main thread hung. */
  readonly hangs: number;
}

export interface MembershipEvents {
  /** The list of peers has changed, or the state or description of one of them. */
  readonly change: (peers: readonly Peer[]) => void;
  /** A live peer has the name of this member and another node id. Reported once for each peer. */
  readonly nameConflict: (peer: Peer) => void;
  /** Gossip has stopped and will be restarted. Until then the peers stay as they were. */
  readonly failed: (error: Error) => void;
}

/**
 * Knows which members are alive. This is only a hint: in a divided network both sides consider themselves alive. So ownership
 * must not depend on it.
 */
export interface Membership {
  readonly self: MemberMeta;
  /** `host:port` at which peers reach this member. */
  readonly gossipAddress: string;
  /** All other members, one for each node id. Dead ones stay in the list for an hour. */
  peers(): readonly Peer[];
  /** Adds a listener. Returns a function that removes it. The listener is never called before `on` returns. */
  on<E extends keyof MembershipEvents>(event: E, listener: MembershipEvents[E]): () => void;
  /**
   * Sets the addresses, `host:port`, where missing members may be found. They replace the previous ones. They are tried
   * repeatedly, and host names are resolved each time. Invalid addresses are ignored.
   */
  seek(addresses: readonly string[]): void;
  /** Changes the description of this member. Throws `MetaTooLargeError` if it does not fit into a datagram. */
  announce(change: MemberChange): void;
  figures(): MembershipFigures;
  /** Announces the leave to all peers, then closes. Live peers know it within 50 ms. */
  leave(): Promise<void>;
  /** Ends without an announcement, as a crash would. Has no effect if it is repeated, or after `leave`. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Whether one of the peers gossips from an IP address. It may be written as an IPv4 address within IPv6. */
export function isPeerAt(peers: readonly Peer[], address: string): boolean {
  const bare = address.replace(/^::ffff:/, '');
  return peers.some(({ gossipAddress }) => gossipAddress.split(':')[0] === bare);
}

/** The description of a member is too large for a datagram. */
export class MetaTooLargeError extends RangeError {
  readonly bytes: number;
  readonly limit: number;
  constructor(bytes: number, limit: number) {
    super(
      `this member's name, addresses and version take ${bytes} bytes; gossip carries at most ${limit}: shorten its name or addresses`,
    );
    this.name = 'MetaTooLargeError';
    this.bytes = bytes;
    this.limit = limit;
  }
}
