import { describe, expect, test } from 'vitest';
import { Family } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import { engineHarness, pidsOf } from '../testing/engine-harness.ts';

describe('the bytes of a lease', () => {
  test('include the PID and the other fields of a task, so that the reply fits into a message', async () => {
    await using h = await engineHarness();
    const long = (name: string) => name.padEnd(436, '.');
    await h.update({ enqueue: ['a', 'b', 'c'].map((name) => ({ queue: 'mail', pid: long(name) })) });
    expect(pidsOf(await h.lease('mail', { max: 10, maxBytes: 1000 }))).toEqual([long('a'), long('b')]);
  });

  test('never exclude the first task', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a', 'b']);
    expect(pidsOf(await h.lease('mail', { max: 10, maxBytes: 0 }))).toEqual(['a']);
  });
});

test('a leased task has the number of attempts that it may have, also after a restart', async () => {
  await using h = await engineHarness();
  const retry = { maxAttempts: 5, backoffInitialMs: 10, backoffMaxMs: 100, deadLetterQueue: 'dead' };
  await h.update({
    enqueue: [
      { queue: 'mail', pid: 'a', retry },
      { queue: 'mail', pid: 'b' },
      { queue: 'mail', pid: 'c', retry: 'by settings' },
    ],
  });
  await h.crash();
  expect((await h.lease('mail', { max: 3 })).map((task) => task.maxAttempts)).toEqual([5, 0, 20]);
});

test('a missing payload is refused, and logged once', async () => {
  const logged: object[] = [];
  const log = { info: () => {}, warn: () => {}, error: (fields: object) => void logged.push(fields) };
  await using h = await engineHarness({ log });
  // Too large to be kept in memory with the head of the queue.
  const data = 'x'.repeat(100_000);
  await h.update({ enqueue: ['a', 'b'].map((pid) => ({ queue: 'mail', pid, data })) });
  await h.crash();
  const damage = new WriteBatch();
  for (const { key } of h.disk.rowsOf(Family.data)) damage.delete(Family.data, key);
  await h.clock.run(h.store?.write(damage, { sync: true }) ?? Promise.reject(new Error('no store')));
  for (const _ of ['a', 'b']) await expect(h.lease('mail')).rejects.toMatchObject({ reason: 'CORRUPT_DATA' });
  expect(logged).toEqual([{ err: undefined, queue: 'mail' }]);
});
