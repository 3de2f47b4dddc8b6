import { expect, test } from 'vitest';
import { ReplayWindows } from './replay-windows.ts';

test.each([Number.NaN, 0, -1, 1.5, Number.POSITIVE_INFINITY])('the number %s is never new', (number) => {
  const windows = new ReplayWindows();
  expect([windows.admit('a', 0, 0, number), windows.admit('a', 0, 0, number)]).toEqual([false, false]);
  expect(windows.admit('a', 0, 0, 1)).toBe(true);
});
