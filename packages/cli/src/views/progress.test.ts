import { expect, test } from 'vitest';
import { progressLine } from './progress.ts';

test.each([
  ['at the start', { tasks: 0, bytes: 0 }, 1_000, 0, '[                        ]   0%  0 tasks  0 B  0/s'],
  [
    'half way',
    { tasks: 1_500, bytes: 500 },
    1_000,
    3_000,
    '[############            ]  50%  1,500 tasks  500 B  500/s  3.0s left',
  ],
  [
    'at the end',
    { tasks: 3_000, bytes: 1_000 },
    1_000,
    6_000,
    '[########################] 100%  3,000 tasks  1000 B  500/s  0ms left',
  ],
  ['of unknown length', { tasks: 10, bytes: 2_048 }, undefined, 2_000, '10 tasks  2.0 KiB  5.0/s  2.0s'],
] as const)('%s', (_what, reached, totalBytes, elapsedMs, line) => {
  expect(progressLine(reached, totalBytes, elapsedMs)).toBe(line);
});
