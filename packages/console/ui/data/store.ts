import { useEffect, useState } from 'preact/hooks';

/** A value that parts of the page follow. */
export interface Store<T> {
  readonly value: T;
  set(value: T): void;
  subscribe(listener: () => void): () => void;
}

export function createStore<T>(value: T): Store<T> {
  const listeners = new Set<() => void>();
  let current = value;
  return {
    get value() {
      return current;
    },
    set(next) {
      if (Object.is(next, current)) return;
      current = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/** The value of a store. The component is rendered again when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [, again] = useState({});
  useEffect(() => {
    const rendered = store.value;
    const end = store.subscribe(() => again({}));
    // It may have changed between the rendering and the subscription.
    if (!Object.is(rendered, store.value)) again({});
    return end;
  }, [store]);
  return store.value;
}
