import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Turnstile } from './turnstile.ts';

test('runs two calls at a time, in order, and forgets none', async () => {
  const turnstile = new Turnstile(2);
  const begun: number[] = [];
  const ends = Array.from({ length: 5 }, () => Promise.withResolvers<void>());
  const all = ends.map(({ promise }, index) =>
    turnstile.pass(() => {
      begun.push(index);
      return promise;
    }),
  );
  await nextTurn();
  expect(begun).toEqual([0, 1]);
  ends[1]?.resolve();
  await all[1];
  await nextTurn();
  expect(begun).toEqual([0, 1, 2]);
  for (const { resolve } of ends) resolve();
  await Promise.all(all);
  expect(begun).toEqual([0, 1, 2, 3, 4]);
});

test('work that never waits does not run in one turn of the event loop', async () => {
  const turnstile = new Turnstile(1);
  let done = 0;
  const all = Array.from({ length: 10 }, () =>
    turnstile.pass(async () => {
      done++;
    }),
  );
  await nextTurn();
  expect(done).toBeLessThan(5);
  await Promise.all(all);
  expect(done).toBe(10);
});

test('failed work makes room, too', async () => {
  const turnstile = new Turnstile(1);
  await expect(turnstile.pass(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
  expect(await turnstile.pass(async () => 'next')).toBe('next');
});
