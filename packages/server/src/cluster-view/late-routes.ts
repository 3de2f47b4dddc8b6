import type { Holder, RoutedNode, Routes } from '../ports/routes.ts';

/** Routes that become known later. */
export class LateRoutes implements Routes {
  /** Listeners from before, each with a function that removes it from the routes. */
  readonly #listeners = new Map<() => void, () => void>();
  #routes: Routes | undefined;

  /** 0 while it is unknown. */
  get partitions(): number {
    return this.#routes?.partitions ?? 0;
  }

  become(routes: Routes): void {
    this.#routes = routes;
    for (const listener of this.#listeners.keys()) {
      this.#listeners.set(listener, routes.onChange(listener));
      listener();
    }
  }

  holderOf(partition: number): Holder | undefined {
    return this.#routes?.holderOf(partition);
  }

  nodes(): readonly RoutedNode[] {
    return this.#routes?.nodes() ?? [];
  }

  learn(partition: number, holder: Holder): void {
    this.#routes?.learn(partition, holder);
  }

  onChange(listener: () => void): () => void {
    if (this.#routes) return this.#routes.onChange(listener);
    this.#listeners.set(listener, () => {});
    return () => {
      this.#listeners.get(listener)?.();
      this.#listeners.delete(listener);
    };
  }
}
