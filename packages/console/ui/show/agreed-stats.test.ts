import { QueueStats } from '@taskmaster/proto/messages';
import { expect, test } from 'vitest';
import { agreedStats } from './agreed-stats.ts';

const stats = (available: number, leased: number): QueueStats => ({
  ...QueueStats.decode(new Uint8Array(0)),
  available,
  leased,
});

test('the number of tasks is that of their list, if the list has all of them', () => {
  expect(agreedStats(stats(0, 5), 'leased', 4, 1_000)).toMatchObject({ available: 0, leased: 4 });
  expect(agreedStats(stats(0, 5), 'available', 2, 100)).toMatchObject({ available: 2, leased: 5 });
});

test('a queue in which nothing is available or leased has no oldest task', () => {
  const one = { ...stats(1, 0), oldestAgeMs: 1_300 };
  expect(agreedStats(one, 'available', 0, 100)).toMatchObject({ available: 0, oldestAgeMs: 0 });
  expect(agreedStats({ ...one, leased: 1 }, 'available', 0, 100)).toMatchObject({ oldestAgeMs: 1_300 });
});

test('a list that may be cut does not count', () => {
  expect(agreedStats(stats(140, 0), 'available', 100, 100)).toMatchObject({ available: 140 });
  expect(agreedStats(stats(5_000, 5), 'leased', 4, 1_000)).toMatchObject({ leased: 5 });
});
