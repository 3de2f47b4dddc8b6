import { describe, expect, test } from 'vitest';
import { FairTurns } from './fair-turns.ts';

/** Turns that are taken by hand, and the order in which work was begun. */
function fairTurns() {
  let next: (() => void) | undefined;
  const turns = new FairTurns((turn) => {
    next = turn;
  });
  const begun: string[] = [];
  return {
    begun,
    /** Work of so many tasks. */
    ask: (caller: string, tasks: number, times = 1): void => {
      for (let time = 1; time <= times; time++) {
        void turns.run(caller, tasks, async () => void begun.push(caller));
      }
    },
    /** Returns whether there was one. */
    turn: (): boolean => {
      const turn = next;
      next = undefined;
      turn?.();
      return turn !== undefined;
    },
    turns,
  };
}

describe('fair turns', () => {
  test('do work at once while there is little', async () => {
    const { turns, begun, ask } = fairTurns();
    ask('a', 1);
    ask('b', 1);
    expect(begun).toEqual(['a', 'b']);
    expect(await turns.run('a', 1, async () => 7)).toBe(7);
    await expect(turns.run('a', 1, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  });

  test('give a caller that comes later its turn before the many calls of another', () => {
    const { begun, ask, turn } = fairTurns();
    ask('loader', 50, 100);
    const before = begun.length;
    expect(before).toBeLessThan(20);
    ask('worker', 1);
    expect(begun).toHaveLength(before);
    turn();
    expect(begun[before]).toBe('worker');
  });

  test('let callers with as much to do take turns', () => {
    const { begun, ask, turn } = fairTurns();
    ask('first', 50, 20);
    for (const caller of ['a', 'b', 'c']) ask(caller, 50, 20);
    const before = begun.length;
    for (let at = 0; at < 6; at++) turn();
    const counts = ['a', 'b', 'c'].map((caller) => begun.slice(before).filter((one) => one === caller).length);
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
    expect(Math.min(...counts)).toBeGreaterThan(2);
  });

  test('do not let many slow callers keep a busy one from being served', () => {
    const { begun, ask, turn } = fairTurns();
    ask('loader', 50, 100);
    turn();
    const before = begun.filter((one) => one === 'loader').length;
    for (let at = 0; at < 1_000; at++) ask(`slow ${at}`, 1);
    for (let at = 0; at < 5; at++) turn();
    expect(begun.filter((one) => one === 'loader').length - before).toBeGreaterThanOrEqual(5);
  });

  test('keep the order of each caller, do everything once, and end', async () => {
    const { turns, turn } = fairTurns();
    const seen: number[] = [];
    const all = Array.from({ length: 500 }, (_, number) => turns.run('a', 3, async () => void seen.push(number)));
    while (turn());
    await Promise.all(all);
    expect(seen).toEqual(Array.from({ length: 500 }, (_, number) => number));
  });

  test('pass errors of work that had to wait on', async () => {
    const { turns, ask, turn } = fairTurns();
    ask('a', 1_000);
    const failing = turns.run('b', 1, () => Promise.reject(new Error('no')));
    turn();
    await expect(failing).rejects.toThrow('no');
  });
});
