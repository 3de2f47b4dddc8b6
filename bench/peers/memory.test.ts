import { expect, test } from 'vitest';
import { descendants } from './memory.ts';

test('the processes of a server include all its descendants', () => {
  const parentOf = new Map([
    [7, 5],
    [5, 2],
    [2, 1],
    [3, 1],
    [9, 3],
  ]);
  expect(descendants([2], parentOf).sort()).toEqual([2, 5, 7]);
  expect(descendants([3, 5], parentOf).sort()).toEqual([3, 5, 7, 9]);
  expect(descendants([8], parentOf)).toEqual([8]);
});
