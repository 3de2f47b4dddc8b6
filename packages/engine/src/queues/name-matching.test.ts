import { describe, expect, test } from 'vitest';
import type { Instant } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import { NameMatching } from './name-matching.ts';

/** A clock that `work` moves on, and pauses that end at once. */
function setUp() {
  let now = 0;
  const pauses: number[] = [];
  const pause = async (ms: number): Promise<void> => {
    pauses.push(ms);
  };
  const matching = new NameMatching({ clock: { now: () => now as Instant }, pause });
  const taking =
    (ms: number) =>
    (name: string): boolean => {
      now += ms;
      return name.startsWith('a');
    };
  return { matching, pauses, taking };
}

function* naming(...names: string[]): Generator<string, void, boolean> {
  for (const name of names) yield name;
}
const many = (count: number): string[] => Array.from({ length: count }, (_, number) => `a${number}`);

describe('names', () => {
  test('are matched without a pause while that takes little time', async () => {
    const { matching, pauses, taking } = setUp();
    const matches = await matching.prepare(taking(0), naming('a', 'b'));
    expect(['a', 'b', 'aa', 'c'].map(matches)).toEqual([true, false, true, false]);
    expect(pauses).toEqual([]);
  });

  test('are matched in slices, with pauses that are longer than the slices', async () => {
    const { matching, pauses, taking } = setUp();
    await matching.prepare(taking(2), naming(...many(5)));
    expect(pauses).toEqual([16, 16]);
    await matching.prepare(taking(30), naming('a'));
    expect(pauses).toEqual([16, 16, 120]);
  });

  test('are refused when they take too long, before and after the preparation', async () => {
    const { matching, taking } = setUp();
    const slow = matching.prepare(taking(30), naming(...many(60)));
    await expect(slow).rejects.toMatchObject({ reason: 'INVALID_REGEX', message: expect.stringContaining('17 names') });
    const matches = await matching.prepare(taking(30), naming(...many(16)));
    expect(matches('a3')).toBe(true);
    expect(() => matches('b')).toThrow(Refusal);
  });

  test('are matched in turns, slice by slice: a quick expression is through before a slow one that came first', async () => {
    const { matching, taking } = setUp();
    const ended: string[] = [];
    const slow = matching.prepare(taking(5), naming(...many(90))).then(() => ended.push('slow'));
    const quick = matching.prepare(taking(1), naming(...many(20))).then(() => ended.push('quick'));
    await Promise.all([slow, quick]);
    expect(ended).toEqual(['quick', 'slow']);
  });

  test('of too many slow expressions are refused', async () => {
    const { matching, taking } = setUp();
    const ended: number[] = [];
    const slow = Array.from({ length: 34 }, (_, number) =>
      matching.prepare(taking(10), naming(...many(3))).then(
        () => ended.push(number),
        (error: Refusal) => error.reason,
      ),
    );
    const results = await Promise.all(slow);
    expect(results.filter((result) => result === 'OVERLOADED')).toHaveLength(2);
    expect(ended).toEqual(Array.from({ length: 32 }, (_, number) => number));
    await matching.prepare(taking(10), naming('a'));
  });

  test('a failure lets the next request go on', async () => {
    const { matching, taking } = setUp();
    await expect(matching.prepare(taking(300), naming(...many(3)))).rejects.toThrow('simplify it');
    await matching.prepare(taking(10), naming(...many(3)));
  });
});
