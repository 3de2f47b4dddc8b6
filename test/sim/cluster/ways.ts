import { ALL_NODES, type SimCluster } from '@taskmaster/node/testing';
import { createRouterService, LostError, RefusedError, Router, type UnaryMethod } from '@taskmaster/proxy';
import type { Observer } from '@taskmaster/server/cluster-view';
import { type SeededRandom, VirtualClock } from '@taskmaster/server/testing';
import type { Way } from './client.ts';
import { callService, SimUpstream } from './links.ts';
import type { Trouble } from './trouble.ts';

const PROXIES = ['p0', 'p1'];
/** Where a proxy looks for others that gossip. */
const SEEDS = ['a', 'b', 'c'];
/**
 * Where it looks for the cluster. Of the nodes that it ever knew none may be left, and
 * of those that are left none may know of it: then only a name that operators keep leads from the one to the other.
 */
const CONTACTS = ['a', 'b', ALL_NODES];
/** Of calls that go through a proxy. */
const PROXY_SHARE = 0.6;
/** Between a caller and its proxy, which are near each other. */
const LOST_WITH_PROXY = 0.01;
/** A caller that follows what nodes say gives up after so many of them. */
const HOPS = 6;
const PAUSE_MS = 30;

const HOLD = { holdMs: 1_000, heldCalls: 1_000, fanOutMs: 1_000 };

/** The ways into a simulated cluster: proxies on the simulated network, and nodes that say who holds what. */
export class Ways {
  readonly proxies: readonly string[] = PROXIES;
  /** What each proxy knows, by its name. */
  readonly routes = new Map<string, Observer>();
  readonly #cluster: SimCluster;
  readonly #random: SeededRandom;
  readonly #direct: SimUpstream;
  readonly #routed: readonly Way[];

  constructor(cluster: SimCluster, random: SeededRandom, trouble: Trouble) {
    this.#cluster = cluster;
    this.#random = random;
    this.#direct = new SimUpstream(cluster, 'client', trouble);
    this.#routed = PROXIES.map((name) => this.#proxy(name, trouble));
  }

  pick(): Way {
    if (this.#random.chance(PROXY_SHARE)) return this.#random.pick(this.#routed);
    return (method, request) => this.#follow(method, request);
  }

  /** Through a proxy in any case. */
  pickProxy(): Way {
    return this.#random.pick(this.#routed);
  }

  #proxy(name: string, trouble: Trouble): Way {
    const { time } = this.#cluster;
    const clock = new VirtualClock({ time, machine: name });
    const upstream = new SimUpstream(this.#cluster, name, trouble);
    const random = this.#random.fork();
    const routes = this.#cluster.observe(name, clock, { contacts: CONTACTS, seeds: SEEDS }, trouble.log);
    this.routes.set(name, routes);
    const router = new Router({ routes, upstream, clock, random, log: trouble.log, limits: HOLD });
    const service = createRouterService(router);
    return async (method, request) => {
      const reply = await callService(service, method, request, undefined, trouble);
      if (this.#random.chance(LOST_WITH_PROXY)) throw new LostError('the answer was lost', 'connection', true);
      return reply;
    };
  }

  /** As the client library does: asks some node, then whichever holds the group. */
  async #follow(method: string, request: Uint8Array): Promise<Uint8Array> {
    let address = this.#anyNode();
    for (let hop = 1; ; hop++) {
      try {
        return await this.#direct.unary(address, method as UnaryMethod, request, { peer: 'client' });
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
