import type { Deque } from '@js-sdsl/deque';

/** Takes the first element. Without this, the deque would keep a reference to it until another element takes its slot. */
export function takeFirst<T>(deque: Deque<T | undefined>): T | undefined {
  if (deque.empty()) return undefined;
  const first = deque.front();
  deque.setElementByPos(0, undefined);
  deque.popFront();
  // After it has grown, the deque keeps some references twice.
  if (deque.empty()) deque.clear();
  return first;
}
