import type { Deque } from '@js-sdsl/deque';

/** Takes the first. The deque alone would keep it, and all that it holds, until another one comes into its place. */
export function takeFirst<T>(deque: Deque<T | undefined>): T | undefined {
  if (deque.empty()) return undefined;
  const first = deque.front();
  deque.setElementByPos(0, undefined);
  deque.popFront();
  // Having grown, it keeps some in two places.
  if (deque.empty()) deque.clear();
  return first;
}
