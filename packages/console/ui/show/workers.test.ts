import { expect, test } from 'vitest';
import { type Ended, endsByLabel } from './workers.ts';

const ended = (label: string, isFailure: boolean): Ended => ({ at: 0, label, isFailure });

test('attempts are counted by the label of their worker, whatever it is', () => {
  const all = [ended('a', false), ended('__proto__', true), ended('a', true), ended('a', false)];
  expect([...endsByLabel(all)]).toEqual([
    ['a', { completed: 2, failed: 1 }],
    ['__proto__', { completed: 0, failed: 1 }],
  ]);
});

test('thousands of workers with hundreds of thousands of attempts do not hold up the page', () => {
  const all = Array.from({ length: 300_000 }, (_, at) => ended(`worker ${at % 5_000}`, at % 2 === 0));
  const counts = endsByLabel(all);
  expect(counts.size).toBe(5_000);
  expect(counts.get('worker 7')).toEqual({ completed: 60, failed: 0 });
});
