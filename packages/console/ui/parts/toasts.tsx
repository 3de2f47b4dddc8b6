import type { VNode } from 'preact';
import { createStore, useStore } from '../data/store.ts';

interface Toast {
  readonly id: number;
  readonly text: string;
  readonly isBad: boolean;
}

const toastsStore = createStore<readonly Toast[]>([]);
let last = 0;
const SHOWN_MS = 8_000;

/** Tells what has become of an action. Failures stay until they are closed. */
export function toast(text: string, isBad = false): void {
  const id = ++last;
  toastsStore.set([...toastsStore.value.slice(-3), { id, text, isBad }]);
  if (!isBad) setTimeout(() => close(id), SHOWN_MS);
}

const close = (id: number): void => toastsStore.set(toastsStore.value.filter((one) => one.id !== id));

export function Toasts(): VNode {
  const toasts = useStore(toastsStore);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.map(({ id, text, isBad }) => (
        <div class={isBad ? 'toast bad' : 'toast'} key={id}>
          <span>{text}</span>
          <button type="button" class="plain" aria-label="Close" onClick={() => close(id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
