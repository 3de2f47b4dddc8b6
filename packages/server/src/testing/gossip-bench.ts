import type { Log } from '@taskmaster/engine/ports';
import { type GossipOptions, openGossip } from '../gossip/open-gossip.ts';
import type { GossipTiming, LinkFault } from '../gossip/swim/options.ts';
import { SwimMember, type SwimMemberOptions } from '../gossip/swim/swim-member.ts';
import type { MemberMeta, Membership, Peer } from '../ports/membership.ts';

/** A fifth of the default times, so that a death is noticed within a second. */
const FAST_TIMING: GossipTiming = {
  intervalMs: 40,
  pingTimeoutMs: 60,
  pingReqTimeoutMs: 120,
  suspectTimeoutMs: 500,
  resyncMs: 200,
  forgetAfterMs: 60_000,
};

export interface BenchOptions {
  readonly keys?: readonly string[];
  readonly clusterId?: string;
  readonly port?: number;
  readonly timing?: GossipTiming;
}

/** Real members of gossip on this machine. They end together. */
export class GossipBench {
  readonly logged: string[] = [];
  /** Fault of the links of members without a thread. */
  link: LinkFault | undefined;
  readonly #members: SwimMember[] = [];
  readonly #threads: Membership[] = [];
  readonly #log: Log;

  constructor() {
    const note = (_details: object, message: string): void => void this.logged.push(message);
    this.#log = { debug: note, info: note, warn: note, error: note };
  }

  /** Starts a member in this thread. Its links can be cut. */
  async open(self: MemberMeta, seeds: readonly string[], options: BenchOptions = {}): Promise<SwimMember> {
    const { keys = ['a key'], clusterId = 'cluster', port = 0, timing = FAST_TIMING } = options;
    const listen = { host: '127.0.0.1', port };
    const setup: SwimMemberOptions = { meta: self, clusterId, keys, seeds, listen, timing, threadStart: 0 };
    const link: LinkFault = (from, to) => this.link?.(from, to) ?? [0];
    const member = await SwimMember.open(setup, { log: this.#log, onPeers: () => {}, link });
    this.#members.push(member);
    return member;
  }

  /** Starts a member in a thread of its own, like a node does. */
  async openThread(
    self: MemberMeta,
    seeds: readonly string[],
    options: Partial<GossipOptions> = {},
  ): Promise<Membership> {
    const membership = await openGossip({
      self,
      clusterId: 'cluster',
      keys: ['a key'],
      seeds,
      listen: { host: '127.0.0.1', port: 0 },
      timing: FAST_TIMING,
      log: this.#log,
      ...options,
    });
    this.#threads.push(membership);
    return membership;
  }

  /** Waits until a condition holds that depends on other threads and sockets. Resolves with the time it took, in ms. */
  async until(condition: () => boolean, withinMs = 15_000): Promise<number> {
    const start = performance.now();
    while (!condition()) {
      if (performance.now() - start > withinMs) throw new Error(`not within ${withinMs} ms: ${condition}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return performance.now() - start;
  }

  async end(): Promise<void> {
    for (const member of this.#members) member.close();
    await Promise.all(this.#threads.map((membership) => membership.close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}

/** Names of the members that a member considers alive. */
export const aliveOf = (member: { peers(): readonly Peer[] }): string[] =>
  member
    .peers()
    .filter(({ alive }) => alive)
    .map(({ name }) => name);
