import type { Log } from '@taskmaster/server/ports';
import type { RoutedNode, Routes } from './routes.ts';

/** How often somebody is looked for, in ms. */
const LOOK_MS = 1_000;

export interface ReachabilityDeps {
  readonly routes: Routes;
  /** Whether the node at an address can be reached. */
  readonly isReachable: (address: string) => Promise<boolean>;
  readonly log: Log;
}

/** Whether any node can be reached: a proxy that reaches none is of no use to anyone. Says so once for each change. */
export class Reachability implements Disposable {
  /** Resolves when a node can be reached, the first time. */
  readonly reached: Promise<void>;
  readonly #deps: ReachabilityDeps;
  readonly #timer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  readonly #first = Promise.withResolvers<void>();
  /** Addresses that could be reached when they were tried last. */
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

  /** Nodes that could be reached when they were tried last. */
  get nodes(): readonly RoutedNode[] {
    return this.#deps.routes.nodes().filter(({ address }) => this.#reachable.has(address));
  }

  /** Looks now; resolves when it is known. */
  async look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      // A node that gossip thinks dead may be reachable all the same; the living are asked first.
      const nodes = this.#deps.routes.nodes().toSorted((a, b) => Number(b.alive) - Number(a.alive));
      // Where no node is known yet, whoever looks for the cluster says so.
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
        'no node of the cluster can be reached: every call is refused until one is; if all of these are gone for good, start the proxy again with --join and the address of a node that is there',
      );
    } else {
      const again = this.#state === 'unreachable' ? ' again' : '';
      log.info({ nodes: this.nodes.map(textOf) }, `nodes of the cluster can be reached${again}`);
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
