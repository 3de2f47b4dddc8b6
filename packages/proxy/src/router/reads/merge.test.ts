import type { QueueStats } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { addTotals, compareNames, mergePages, mergeQueues } from './merge.ts';

const stats = (queue: string, available = 1): QueueStats => ({
  queue,
  available,
  leased: 0,
  delayed: 0,
  completed: 0,
  enqueueRate: 0,
  leaseRate: 0,
  completeRate: 0,
  meanLeaseMs: 0,
  oldestAgeMs: 0,
});
const page = (names: string, more: boolean) => ({
  queues: names
    .split(' ')
    .filter(Boolean)
    .map((n) => stats(n)),
  more,
});
const shown = ({ queues, more }: ReturnType<typeof mergePages>) => [queues.map(({ queue }) => queue).join(' '), more];

describe('pages of several nodes', () => {
  test.each([
    ['nothing', [page('', false)], 10, ['', false]],
    ['all of them', [page('a c', false), page('b', false)], 10, ['a b c', false]],
    ['no more than the limit', [page('a c', false), page('b', false)], 2, ['a b', true]],
    ['nothing behind the end of a page that goes on', [page('a c', true), page('b d e', false)], 10, ['a b c', true]],
    ['the least of several ends', [page('a d', true), page('b c', true)], 10, ['a b c', true]],
    ['the rest of a page later', [page('a b', true), page('', false)], 10, ['a b', true]],
  ] as const)('show %s', (_what, pages, limit, expected) => {
    expect(shown(mergePages(pages, limit))).toEqual(expected);
  });

  test('are sorted by group, then by name, bytewise', () => {
    const names = ['g#b', 'a', 'g#a', 'f#z', '\u{1F600}', '\uFF5E'];
    expect(names.sort(compareNames)).toEqual(['a', '\uFF5E', '\u{1F600}', 'f#z', 'g#a', 'g#b']);
  });

  test('list a queue once that moves from node to node', () => {
    expect(mergeQueues([[stats('a', 0)], [stats('a', 7)]])).toEqual([stats('a', 7)]);
  });
});

test('sums are added, and missing ones count as nothing', () => {
  const one = { queues: 1, available: 2, leased: 3, delayed: 4, completed: 5 };
  expect(addTotals([one, undefined, one])).toEqual({ queues: 2, available: 4, leased: 6, delayed: 8, completed: 10 });
});
