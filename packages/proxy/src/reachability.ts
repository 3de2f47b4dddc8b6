import type { Log } from '@taskmaster/node/grpc';
import type { Routes } from './routes.ts';

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
  readonly #deps: ReachabilityDeps;
  readonly #timer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  #state: 'unknown' | 'reachable' | 'unreachable' = 'unknown';
  #looking = false;

  constructor(deps: ReachabilityDeps) {
    this.#deps = deps;
    this.#timer = setInterval(() => void this.look(), LOOK_MS).unref();
    this.#unsubscribe = deps.routes.onChange(() => void this.look());
  }

  get isReachable(): boolean {
    return this.#state === 'reachable';
  }

  /** Looks now; resolves when it is known. */
  async look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      // A node that gossip thinks dead may be reachable all the same; the living are asked first.
      const nodes = this.#deps.routes.nodes().toSorted((a, b) => Number(b.alive) - Number(a.alive));
      const found = await firstTrue(nodes.map(({ address }) => this.#deps.isReachable(address)));
      this.#found(
        found,
        nodes.map(({ name, address, alive }) => `${name} ${address}${alive ? '' : ' (dead)'}`),
      );
    } finally {
      this.#looking = false;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#unsubscribe();
  }

  #found(reachable: boolean, nodes: readonly string[]): void {
    const state = reachable ? 'reachable' : 'unreachable';
    if (state === this.#state) return;
    const { log } = this.#deps;
    if (!reachable) log.warn({ nodes }, 'no node of the cluster can be reached: every call is refused until one is');
    else if (this.#state === 'unreachable') log.info({ nodes }, 'nodes of the cluster can be reached again');
    this.#state = state;
  }
}

function firstTrue(checks: readonly Promise<boolean>[]): Promise<boolean> {
  return Promise.any(
    checks.map(async (check) => ((await check) ? true : Promise.reject(new Error('not this one')))),
  ).catch(() => false);
}
