import { describe, expect, test } from 'vitest';
import { engineHarness, pidsOf } from '../testing/engine-harness.ts';

describe('the bytes of a lease', () => {
  test('count PIDs and what else a task takes in the reply, so that it fits into a message', async () => {
    await using h = await engineHarness();
    const long = (name: string) => name.padEnd(436, '.');
    await h.update({ enqueue: ['a', 'b', 'c'].map((name) => ({ queue: 'mail', pid: long(name) })) });
    expect(pidsOf(await h.lease('mail', { max: 10, maxBytes: 1000 }))).toEqual([long('a'), long('b')]);
  });

  test('never keep the first task back', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a', 'b']);
    expect(pidsOf(await h.lease('mail', { max: 10, maxBytes: 0 }))).toEqual(['a']);
  });
});
