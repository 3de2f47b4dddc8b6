import { expect, test } from 'vitest';
import { type Overview, withNow } from './overview.ts';

const history = {
  stepMs: 10,
  at: [10, 20],
  available: [1, 2],
  leased: [0, 23],
  delayed: [0, 0],
  enqueued: [null, 3],
  completed: [1, 1],
  failed: [0, 0],
};
const totals = { available: 7, leased: 0, delayed: 5 } as Overview['totals'];

test('charts end with the sums that stand beside them', () => {
  expect(withNow({ at: 27, history, totals })).toEqual({
    stepMs: 10,
    at: [10, 20, 27],
    available: [1, 2, 7],
    leased: [0, 23, 0],
    delayed: [0, 0, 5],
    enqueued: [null, 3, 3],
    completed: [1, 1, 1],
    failed: [0, 0, 0],
  });
  // A sample that is as new says it itself.
  expect(withNow({ at: 20, history, totals })).toBe(history);
});
