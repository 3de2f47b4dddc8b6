import { expect, test } from 'vitest';
import { RingBuffer } from './ring-buffer.ts';

test('items leave in the order in which they came, however many there are', () => {
  const line = new RingBuffer<number>();
  const out: (number | undefined)[] = [];
  let next = 0;
  // It grows while its items begin in the middle of its slots.
  for (const [coming, leaving] of [
    [10, 7],
    [40, 20],
    [300, 323],
    [5_000, 5_000],
    [3, 1],
  ] as const) {
    for (let count = 0; count < coming; count++) line.push(next++);
    for (let count = 0; count < leaving; count++) out.push(line.shift());
  }
  expect(out).toEqual(Array.from({ length: next - 2 }, (_, item) => item));
  expect([...line]).toEqual([next - 2, next - 1]);
  expect([line.first, line.at(1), line.last, line.at(2), line.at(-1)]).toEqual([
    next - 2,
    next - 1,
    next - 1,
    undefined,
    undefined,
  ]);
  line.clear();
  expect([line.size, line.first, line.last, line.shift()]).toEqual([0, undefined, undefined, undefined]);
});
