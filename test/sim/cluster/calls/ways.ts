import { type SeededRandom, VirtualClock } from '@taskmaster/engine/testing';
import { ALL_NODES, type SimCluster } from '@taskmaster/node/testing';
import { createRouterService, DEFAULT_ROUTER_LIMITS, LostError, RefusedError, Router } from '@taskmaster/proxy';
import { callService, type UnaryMethod } from '@taskmaster/proxy/router';
import { unlimitedAccess } from '@taskmaster/server/access';
import type { Observer } from '@taskmaster/server/cluster-view';
import type { Trouble } from '../trouble.ts';
import type { Way } from './client.ts';
import { SimUpstream } from './links.ts';

const PROXIES = ['p0', 'p1'];
/** The address of every caller. */
const PEER = { address: 'sim:1', principal: '' };
/** Gossip addresses that a proxy tries first. */
const SEEDS = ['a', 'b', 'c'];
/**
 * Addresses at which a proxy looks for the cluster. All nodes that it knew may be gone, and no remaining node may know it. Then
 * only a host name for all nodes leads to the cluster.
 */
const CONTACTS = ['a', 'b', ALL_NODES];
/** Fraction of the calls that go through a proxy. */
const PROXY_SHARE = 0.6;
/** Fraction of the answers of a proxy that are lost. */
const LOST_WITH_PROXY = 0.01;
/** Limit of the nodes that a caller tries when it follows refusals. */
const HOPS = 6;
const PAUSE_MS = 30;

const HOLD = { ...DEFAULT_ROUTER_LIMITS, holdTimeoutMs: 1_000, maxHeldCalls: 1_000, fanOutTimeoutMs: 1_000 };

/** The ways into a simulated cluster: proxies on the simulated network, and nodes that name the holder in refusals. */
export class Ways {
  readonly proxies: readonly string[] = PROXIES;
  /** The routes of each proxy, by its name. */
  readonly routes = new Map<string, Observer>();
  readonly #cluster: SimCluster;
  readonly #random: SeededRandom;
  readonly #direct: SimUpstream;
  readonly #routed: readonly Way[];

  constructor(cluster: SimCluster, random: SeededRandom, trouble: Trouble) {
    this.#cluster = cluster;
    this.#random = random;
    this.#direct = new SimUpstream(cluster, 'client', trouble.log);
    this.#routed = PROXIES.map((name) => this.#proxy(name, trouble));
  }

  pick(): Way {
    if (this.#random.chance(PROXY_SHARE)) return this.#random.pick(this.#routed);
    return (method, request) => this.#follow(method, request);
  }

  /** A way through a random proxy. */
  pickProxy(): Way {
    return this.#random.pick(this.#routed);
  }

  #proxy(name: string, trouble: Trouble): Way {
    const { time } = this.#cluster;
    const clock = new VirtualClock({ time, machine: name });
    const upstream = new SimUpstream(this.#cluster, name, trouble.log);
    const random = this.#random.fork();
    const routes = this.#cluster.observe(name, clock, { contacts: CONTACTS, seeds: SEEDS }, trouble.log);
    this.routes.set(name, routes);
    const router = new Router({ routes, upstream, clock, random, log: trouble.log, limits: HOLD });
    const service = createRouterService(router);
    return async (method, request) => {
      const reply = await callService(
        service,
        method as UnaryMethod,
        request,
        { peer: PEER, access: unlimitedAccess },
        trouble.log,
      );
      if (this.#random.chance(LOST_WITH_PROXY)) throw new LostError('the answer was lost', 'connection', true);
      return reply;
    };
  }

  /** Like the client library: asks any node, then the node that holds the group. */
  async #follow(method: string, request: Uint8Array): Promise<Uint8Array> {
    let address = this.#anyNode();
    for (let hop = 1; ; hop++) {
      try {
        return await this.#direct.unary(address, method as UnaryMethod, request, {
          peer: PEER,
          access: unlimitedAccess,
        });
      } catch (error) {
        if (hop === HOPS) throw error;
        if (error instanceof RefusedError && error.error.reason === 'NOT_HOLDER') {
          address = error.error.metadata.holder ?? this.#anyNode();
        } else if (error instanceof RefusedError && error.error.reason === 'PARTITION_MOVING') {
          await this.#sleep(PAUSE_MS);
        } else if (error instanceof LostError && !error.maybeApplied) {
          address = this.#anyNode();
        } else throw error;
      }
    }
  }

  #anyNode(): string {
    return `${this.#random.pick([...this.#cluster.nodes.keys()])}:1`;
  }

  #sleep(ms: number): Promise<void> {
    const { time } = this.#cluster;
    return new Promise((resolve) => void time.at((time.now() + ms) as ReturnType<typeof time.now>, resolve));
  }
}
