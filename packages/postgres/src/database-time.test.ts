import { expect, test } from 'vitest';
import { DatabaseTime } from './database-time.ts';

const HOUR_MS = 3_600_000;

test('the time of the database goes on between its answers, and follows them', async () => {
  let elapsedMs = 5_000;
  const time = new DatabaseTime(() => elapsedMs);
  const answer = async (databaseMs: number) => {
    await time.measure(async () => {
      elapsedMs += 40;
      return { found: { time: databaseMs } };
    });
  };
  await answer(10 * HOUR_MS);
  expect(time.now()).toBe(10 * HOUR_MS + 20);
  elapsedMs += HOUR_MS;
  expect(time.now()).toBe(11 * HOUR_MS + 20);
  await answer(12 * HOUR_MS);
  expect(time.now()).toBe(12 * HOUR_MS + 20);
});

test('a call that fails teaches no time', async () => {
  const time = new DatabaseTime(() => 0);
  time.learn({ time: HOUR_MS, sentAt: 0, answeredAt: 0 });
  await expect(time.measure(() => Promise.reject(new Error('gone')))).rejects.toThrow('gone');
  expect(time.now()).toBe(HOUR_MS);
});
