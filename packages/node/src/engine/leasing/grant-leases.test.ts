import { describe, expect, test } from 'vitest';
import { engineHarness, pidsOf } from '../../testing/engine-harness.ts';

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

test('a leased task has its retry policy, also after a restart', async () => {
  await using h = await engineHarness();
  const retry = { maxAttempts: 5, backoffInitialMs: 10, backoffMaxMs: 100, deadLetterQueue: 'dead' };
  await h.update({
    enqueue: [
      { queue: 'mail', pid: 'a', retry },
      { queue: 'mail', pid: 'b' },
    ],
  });
  await h.crash();
  expect((await h.lease('mail', { max: 2 })).map((task) => task.retry)).toEqual([retry, undefined]);
});
