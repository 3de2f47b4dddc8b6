/** When gossip does what. All in ms. */
export interface GossipTiming {
  /** Each member probes one other this often. Default 200. */
  readonly intervalMs: number;
  /** A probe without an answer for this long is tried through others. Default 150. */
  readonly pingTimeoutMs: number;
  /** That, too, without an answer for this long makes a member suspect. Default 400. */
  readonly pingReqTimeoutMs: number;
  /** A suspect that has not been heard of for this long is declared dead. Default 2500. */
  readonly suspectTimeoutMs: number;
  /** How often knowledge is exchanged with missing seeds, a random dead and a random live member. Default 1000. */
  readonly resyncMs: number;
  /** The dead are forgotten after this. Default one hour. */
  readonly forgetAfterMs: number;
}

// A death is seen after at most (3 nodes) two intervals, both timeouts and the suspicion: 3.5 s. With more members more
// of them probe, so the first probe comes sooner, and the news travels for a second at most.
export const DEFAULT_TIMING: GossipTiming = {
  intervalMs: 200,
  pingTimeoutMs: 150,
  pingReqTimeoutMs: 400,
  suspectTimeoutMs: 2500,
  resyncMs: 1000,
  forgetAfterMs: 3_600_000,
};

/** What the link does to a datagram: how long each copy of it takes, in ms; none if it is lost. */
export type LinkFault = (from: string, to: string) => readonly number[];
