import type { Log } from '@taskmaster/engine/ports';
import type { RoutedNode, Routes } from './routes.ts';

/** How often the nodes are tried, in ms. */
const LOOK_MS = 1_000;

export interface ReachabilityDeps {
  readonly routes: Routes;
  /** Whether the node at an address can be reached. */
  readonly isReachable: (address: string) => Promise<boolean>;
  readonly log: Log;
}

/** Knows whether the proxy can reach any node. Logs each change once. */
export class Reachability implements Disposable {
  /** Resolves when a node can be reached for the first time. */
  readonly reached: Promise<void>;
  readonly #deps: ReachabilityDeps;
  readonly #timer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  readonly #first = Promise.withResolvers<void>();
  /** Addresses that could be reached in the last try. */
  readonly #reachable = new Set<string>();
  #state: 'unknown' | 'reachable' | 'unreachable' = 'unknown';
  #looking = false;

  constructor(deps: ReachabilityDeps) {
    this.#deps = deps;
    this.reached = this.#first.promise;
    this.#timer = setInterval(() => void this.look(), LOOK_MS).unref();
    this.#unsubscribe = deps.routes.onChange(() => void this.look());
  }

  get isReachable(): boolean {
    return this.#state === 'reachable';
  }

  /** Nodes that could be reached in the last try. */
  get nodes(): readonly RoutedNode[] {
    return this.#deps.routes.nodes().filter(({ address }) => this.#reachable.has(address));
  }

  /** Tries all nodes now. Resolves when the result is known. */
  async look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      // A node that gossip considers dead may still be reachable. Live nodes are tried first.
      const nodes = this.#deps.routes.nodes().toSorted((a, b) => Number(b.alive) - Number(a.alive));
      // While no node is known, the search for the cluster logs that.
      if (nodes.length === 0 && this.#state === 'unknown') return;
      this.#found(await firstTrue(nodes.map(({ address }) => this.#tryOne(address))), nodes);
    } finally {
      this.#looking = false;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#unsubscribe();
  }

  async #tryOne(address: string): Promise<boolean> {
    const isReachable = await this.#deps.isReachable(address);
    if (isReachable) this.#reachable.add(address);
    else this.#reachable.delete(address);
    return isReachable;
  }

  #found(reachable: boolean, nodes: readonly RoutedNode[]): void {
    const state = reachable ? 'reachable' : 'unreachable';
    if (state === this.#state) return;
    const { log } = this.#deps;
    if (!reachable) {
      log.warn(
        { nodes: nodes.map(textOf) },
        'no node of the cluster can be reached; calls are refused until one can. If these nodes are gone for good, restart the proxy with --join and the address of a running node',
      );
    } else {
      const again = this.#state === 'unreachable' ? ' again' : '';
      log.info({ nodes: this.nodes.map(textOf) }, `the cluster can be reached${again}`);
    }
    this.#state = state;
    if (reachable) this.#first.resolve();
  }
}

const textOf = ({ name, address }: RoutedNode): string => `${name} ${address}`;

function firstTrue(checks: readonly Promise<boolean>[]): Promise<boolean> {
  return Promise.any(
    checks.map(async (check) => ((await check) ? true : Promise.reject(new Error('not this one')))),
  ).catch(() => false);
}
