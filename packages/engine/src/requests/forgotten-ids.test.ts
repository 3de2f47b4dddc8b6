import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Instant } from '../domain/ids.ts';
import { ForgottenIds } from './forgotten-ids.ts';

const WINDOW_MS = 1000;
const at = (ms: number) => ms as Instant;
const numbered = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix} ${i}`);

/** Enough for several filters. */
const MANY = 100_000;

describe('forgotten request ids', () => {
  test('are all found within their window', () => {
    const added = fc.array(fc.record({ id: fc.string(), ms: fc.nat(WINDOW_MS) }), { maxLength: 100 });
    fc.assert(
      fc.property(added, fc.nat(2 * WINDOW_MS), (ids, nowMs) => {
        const forgotten = new ForgottenIds(WINDOW_MS);
        const inOrder = ids.toSorted((a, b) => a.ms - b.ms);
        for (const { id, ms } of inOrder) forgotten.add(id, at(ms));
        const within = inOrder.filter(({ ms }) => nowMs - ms <= WINDOW_MS);
        expect(within.filter(({ id }) => !forgotten.mayHave(id, at(nowMs)))).toEqual([]);
      }),
    );
  });

  test('are all found, and few other ids with them', () => {
    const forgotten = new ForgottenIds(WINDOW_MS);
    for (const id of numbered('added', MANY)) forgotten.add(id, at(0));
    expect(numbered('added', MANY).filter((id) => !forgotten.mayHave(id, at(0)))).toEqual([]);
    const mistaken = numbered('other', MANY).filter((id) => forgotten.mayHave(id, at(0)));
    expect(mistaken.length / MANY).toBeLessThan(0.03);
    expect(forgotten.bytes / MANY, 'bytes an id').toBeLessThan(4);
  });

  test('take no memory after their window', () => {
    const forgotten = new ForgottenIds(WINDOW_MS);
    for (const id of numbered('added', MANY)) forgotten.add(id, at(0));
    expect(forgotten.mayHave('added 0', at(WINDOW_MS + 1))).toBe(false);
    expect(forgotten.bytes).toBe(0);
  });

  test('are dropped, oldest first, when they need too much memory', () => {
    const forgotten = new ForgottenIds(WINDOW_MS);
    let givenUp: Instant | undefined;
    let ms = 0;
    while (givenUp === undefined && ms < 100) {
      ms++;
      for (const id of numbered(`${ms}`, MANY)) givenUp = forgotten.add(id, at(ms)) ?? givenUp;
    }
    expect(givenUp).toBeLessThan(ms);
    expect(forgotten.mayHave(`${ms} 0`, at(ms))).toBe(true);
    expect(forgotten.bytes).toBeLessThanOrEqual(8 * 1024 * 1024);
  });
});
