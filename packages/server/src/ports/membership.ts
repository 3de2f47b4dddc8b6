/** What a member says about itself; every peer knows the newest of it within about a second. */
export interface MemberMeta {
  /** Stable id of the member, kept on its disk. */
  readonly nodeId: string;
  /** Unique among live members. */
  readonly name: string;
  readonly role: 'node' | 'proxy';
  /** `host:port` of its gRPC. */
  readonly rpcAddress: string;
  /** `host:port` of its pages and metrics. */
  readonly httpAddress?: string;
  readonly version: string;
  /** Grows when what it knows of members or holders changed, so that peers pull it. */
  readonly stateVersion: number;
  /** Starts of the member, counted on its disk: the later start of one node id is the true one. At least 1. */
  readonly incarnation: number;
}

/** What may change while a member runs. */
export type MemberChange = Partial<
  Pick<MemberMeta, 'name' | 'rpcAddress' | 'httpAddress' | 'version' | 'stateVersion'>
>;

export interface Peer extends MemberMeta {
  /** `host:port` of its datagrams. */
  readonly gossipAddress: string;
  /** False: declared dead, or left. */
  readonly alive: boolean;
  /** It answers nobody, and is declared dead unless it objects. Still alive as far as anybody may act on it. */
  readonly suspect: boolean;
}

/** Why a datagram was refused. */
export type DatagramRefusal =
  | 'malformed' // neither ours nor meant to be
  | 'oversized'
  | 'otherCluster'
  | 'unauthenticated' // another key, or altered
  | 'replayed'
  | 'misshapen'; // sealed with our key, but says nothing a member says

export interface MembershipFigures {
  readonly datagramsIn: number;
  readonly datagramsOut: number;
  readonly refused: Readonly<Record<DatagramRefusal, number>>;
  readonly suspicions: number;
  readonly deaths: number;
  /** Starts of the thread after the first. */
  readonly threadRestarts: number;
  /** How often this member kept silent because its main loop hung. */
  readonly hangs: number;
}

export interface MembershipEvents {
  /** Somebody came, died, left, came back or announced something. */
  readonly change: (peers: readonly Peer[]) => void;
  /** A live peer has this member's name and another node id. Reported once for each such peer. */
  readonly nameConflict: (peer: Peer) => void;
  /** Gossip does not run at the moment; it is started again. Until then peers are as last known. */
  readonly failed: (error: Error) => void;
}

/**
 * Who is alive. It is advice: in a network cut in two both sides see themselves alive, so nothing may be owned because
 * of it.
 */
export interface Membership {
  readonly self: MemberMeta;
  /** `host:port` peers reach this member at. */
  readonly gossipAddress: string;
  /** Without this member, one for each node id; the dead stay for an hour. */
  peers(): readonly Peer[];
  /** Returns what ends it. Listeners are never called before `on` returned. */
  on<E extends keyof MembershipEvents>(event: E, listener: MembershipEvents[E]): () => void;
  /**
   * Where members may be found that are not there now, `host:port`: tried again and again, names resolved anew each time.
   * In the place of those given before. What is not an address is passed over.
   */
  seek(addresses: readonly string[]): void;
  /** Throws MetaTooLargeError if the result does not fit into a datagram. */
  announce(change: MemberChange): void;
  figures(): MembershipFigures;
  /** Tells all peers, then closes. Live peers see it within 50 ms. */
  leave(): Promise<void>;
  /** Ends as a crash would: nothing is announced. Harmless when repeated, and after `leave`. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A member's description of itself does not fit into a datagram beside what else travels in it. */
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
