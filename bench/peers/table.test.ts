import { expect, test } from 'vitest';
import type { PeerResult } from './results.ts';
import { peersTable } from './table.ts';

const result = (peer: string, more: Partial<PeerResult>): PeerResult => ({
  peer,
  workload: 'worker',
  durability: 'fsync',
  confirmed: true,
  versions: '',
  ...more,
});

test('the fastest system comes first, and each line has the ratio of this system to it', () => {
  const table = peersTable([
    result('slow', { tasksPerS: 10_000 }),
    result('taskmaster', { tasksPerS: 30_000 }),
    result('quick', { tasksPerS: 60_000, confirmed: false, how: 'pushed' }),
    result('slow', { workload: 'enqueue-to-waiting', p50Ms: 1 }),
    result('taskmaster', { workload: 'enqueue-to-waiting', p50Ms: 0.25 }),
  ]);
  const lines = table.split('\n').map((line) => line.trim().split(/ {2,}/));
  expect(lines).toEqual([
    [''],
    ['worker', 'tasks/s', 'p50 ms', 'p99 ms', 'ours is'],
    ['quick', '60,000', '0.50 ×', 'pushed; completions not confirmed'],
    ['taskmaster', '30,000'],
    ['slow', '10,000', '3.00 ×'],
    [''],
    ['enqueue-to-waiting', 'tasks/s', 'p50 ms', 'p99 ms', 'ours is'],
    ['taskmaster', '0.25'],
    ['slow', '1.00', '4.00 ×'],
    [''],
  ]);
});
