/** The intervals and timeouts of gossip, in ms. */
export interface GossipTiming {
  /** How often a member probes another one. Default 200. */
  readonly intervalMs: number;
  /** Timeout of a probe. After it, the member is probed through other members. Default 150. */
  readonly pingTimeoutMs: number;
  /** Timeout of the probe through other members. After it, the member is suspected. Default 400. */
  readonly pingReqTimeoutMs: number;
  /** A suspect that does not answer for this long is declared dead. Default 2500. */
  readonly suspectTimeoutMs: number;
  /** How often a member exchanges its list with missing seeds, a random dead member and a random live one. Default 1000. */
  readonly resyncMs: number;
  /** Dead members are forgotten after this time. Default: one hour. */
  readonly forgetAfterMs: number;
}

// In a cluster of 3 nodes, a death is known after at most two intervals, both timeouts and the suspicion: 3.5 s. With more
// members the first probe comes sooner, and the news needs at most a second.
export const DEFAULT_TIMING: GossipTiming = {
  intervalMs: 200,
  pingTimeoutMs: 150,
  pingReqTimeoutMs: 400,
  suspectTimeoutMs: 2500,
  resyncMs: 1000,
  forgetAfterMs: 3_600_000,
};

/** The fate of a datagram: the latency of each of its copies, in ms. An empty list: it is lost. */
export type LinkFault = (from: string, to: string) => readonly number[];
