import { collectGarbage } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { FairTurns } from './fair-turns.ts';

const KIB = 1024;

/** Turns that are taken by hand, and the order in which work was begun. */
function fairTurns() {
  let next: (() => void) | undefined;
  const turns = new FairTurns({
    later: (turn) => {
      next = turn;
    },
    now: () => 0,
  });
  const begun: string[] = [];
  return {
    begun,
    /** Adds work of this many tasks. */
    ask: (caller: string, tasks: number, times = 1, kib = 0): void => {
      for (let time = 1; time <= times; time++) {
        void turns.run(caller, {
          tasks,
          kib,
          copiedKib: 0,
          commits: false,
          heldBytes: () => 0,
          start: async () => void begun.push(caller),
        });
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

const nextMacrotask = () => new Promise<void>((resolve) => setImmediate(resolve));

const failing = {
  tasks: 1,
  kib: 0,
  copiedKib: 0,
  commits: false,
  heldBytes: () => 0,
  start: () => Promise.reject(new Error('no')),
};

describe('fair turns', () => {
  test('do work at once if there is little', async () => {
    const { turns, begun, ask } = fairTurns();
    ask('a', 1);
    ask('b', 1);
    expect(begun).toEqual(['a', 'b']);
    expect(
      await turns.run('a', {
        tasks: 1,
        kib: 0,
        copiedKib: 0,
        commits: false,
        heldBytes: () => 0,
        start: async () => 7,
      }),
    ).toBe(7);
    await expect(turns.run('a', failing)).rejects.toThrow('no');
  });

  test('give a later caller its turn before the many calls of another one', () => {
    const { begun, ask, turn } = fairTurns();
    ask('loader', 50, 100);
    const before = begun.length;
    expect(before).toBeLessThan(20);
    ask('worker', 1);
    expect(begun).toHaveLength(before);
    turn();
    expect(begun[before]).toBe('worker');
  });

  test('keep no result of a caller that always has work waiting', async () => {
    const { turns, turn } = fairTurns();
    const results: WeakRef<Uint8Array>[] = [];
    const start = async (): Promise<Uint8Array> => {
      const result = new Uint8Array(1024);
      results.push(new WeakRef(result));
      return result;
    };
    const ask = (times: number): void => {
      for (let time = 1; time <= times; time++)
        void turns.run('loader', { tasks: 50, kib: 0, copiedKib: 0, commits: false, heldBytes: () => 0, start });
    };
    ask(200);
    for (let round = 1; round <= 20; round++) {
      ask(3);
      turn();
    }
    // A WeakRef keeps its target for the rest of the turn of the event loop in which it was made.
    await nextMacrotask();
    collectGarbage();
    const kept = results.filter((result) => result.deref() !== undefined);
    // There is work left: the turns were in use until now.
    expect(turn()).toBe(true);
    expect(results.length).toBeGreaterThan(40);
    expect(kept).toHaveLength(0);
  });

  test('refuse what takes memory beyond the bound, except the first work of a caller and little work', async () => {
    let next = (): void => {};
    const maxWaitingBytes = 1500 * KIB;
    const turns = new FairTurns({ later: (turn) => (next = turn), now: () => 0, maxWaitingBytes });
    const size = { copiedKib: 0, commits: false };
    const ask = (caller: string, tasks: number, heldKib: number) =>
      turns.run(caller, { ...size, tasks, kib: 0, heldBytes: () => heldKib * KIB, start: async () => caller });
    const first = ask('loader', 1000, 1000);
    const waiting = ask('loader', 1000, 1000);
    await expect(ask('loader', 1, 1000)).rejects.toMatchObject({ reason: 'OVERLOADED' });
    const small = ask('loader', 1, 1);
    const other = ask('other', 1, 1000);
    await expect(ask('other', 1, 1)).rejects.toMatchObject({ reason: 'OVERLOADED' });
    const worker = [ask('worker', 1, 30), ask('worker', 1, 30)];
    await expect(ask('worker', 1, 30)).rejects.toMatchObject({ reason: 'OVERLOADED' });
    for (let turn = 1; turn <= 6; turn++) next();
    expect(await Promise.all([first, waiting, small, other])).toEqual(['loader', 'loader', 'loader', 'other']);
    expect(await Promise.all(worker)).toEqual(['worker', 'worker']);
    const later = ask('loader', 1000, 1000);
    next();
    expect(await later).toBe('loader');
  });

  test('let callers with the same amount of work take turns', () => {
    const { begun, ask, turn } = fairTurns();
    ask('first', 50, 20);
    for (const caller of ['a', 'b', 'c']) ask(caller, 50, 20);
    const before = begun.length;
    for (let at = 0; at < 6; at++) turn();
    const counts = ['a', 'b', 'c'].map((caller) => begun.slice(before).filter((one) => one === caller).length);
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
    expect(Math.min(...counts)).toBeGreaterThan(2);
  });

  test('serve a busy caller although there are many slow ones', () => {
    const { begun, ask, turn } = fairTurns();
    ask('loader', 50, 100);
    turn();
    const before = begun.filter((one) => one === 'loader').length;
    for (let at = 0; at < 1_000; at++) ask(`slow ${at}`, 1);
    for (let at = 0; at < 5; at++) turn();
    expect(begun.filter((one) => one === 'loader').length - before).toBeGreaterThanOrEqual(5);
  });

  test('keep the order of each caller, do all work once, and end', async () => {
    const { turns, turn } = fairTurns();
    const seen: number[] = [];
    const all = Array.from({ length: 500 }, (_, number) =>
      turns.run('a', {
        tasks: 3,
        kib: 0,
        copiedKib: 0,
        commits: true,
        heldBytes: () => 0,
        start: async () => void seen.push(number),
      }),
    );
    while (turn());
    await Promise.all(all);
    expect(seen).toEqual(Array.from({ length: 500 }, (_, number) => number));
  });

  test('serve about half of the work in flight of a lone caller, so that one half is written while the other is decided', () => {
    const { begun, ask, turn } = fairTurns();
    ask('a', 50, 10);
    expect(begun.length).toBeGreaterThan(3);
    expect(begun.length).toBeLessThan(8);
    turn();
    expect(begun).toHaveLength(10);
  });

  test('do as many tasks of 1 KiB for it, but fewer tasks with large payloads', () => {
    const small = fairTurns();
    small.ask('a', 50, 10, 50);
    expect(small.begun).toHaveLength(6);
    const large = fairTurns();
    large.ask('a', 1, 10, 200);
    expect(large.begun).toHaveLength(3);
  });

  test('pass on the errors of work that waited', async () => {
    const { turns, ask, turn } = fairTurns();
    ask('a', 1_000);
    const failed = turns.run('b', failing);
    turn();
    await expect(failed).rejects.toThrow('no');
  });

  describe('while much is on its way to the disk', () => {
    /** Callers whose updates stay on their way until they are let go. */
    function loaded() {
      const all = fairTurns();
      const commits: (() => void)[] = [];
      const update = (caller: string, tasks: number): void => {
        const { promise, resolve } = Promise.withResolvers<void>();
        const start = () => {
          all.begun.push(caller);
          commits.push(resolve);
          return promise;
        };
        void all.turns.run(caller, { tasks, kib: 0, copiedKib: 0, commits: true, heldBytes: () => 0, start });
      };
      const runAll = (): void => {
        while (all.turn());
      };
      return { ...all, commits, update, runAll };
    }

    test('busy callers wait until there is room', async () => {
      const { begun, commits, update, runAll } = loaded();
      for (let time = 0; time < 50; time++) for (const caller of ['a', 'b']) update(caller, 50);
      runAll();
      const before = begun.length;
      expect(before).toBeLessThan(20);
      for (const settle of commits.splice(0)) settle();
      await nextMacrotask();
      runAll();
      expect(begun.length).toBeGreaterThan(before);
      expect(begun.length).toBeLessThan(50);
    });

    test('a caller with little work is served at once', () => {
      const { begun, update, runAll } = loaded();
      for (let time = 0; time < 50; time++) for (const caller of ['a', 'b']) update(caller, 50);
      runAll();
      update('worker', 1);
      runAll();
      expect(begun.at(-1)).toBe('worker');
    });

    test('a caller whose calls come one by one is busy because of its work in flight', () => {
      const { begun, update, runAll } = loaded();
      for (let time = 0; time < 100; time++) {
        for (const caller of ['a', 'b']) update(caller, 50);
        runAll();
      }
      expect(begun.length).toBeLessThan(20);
    });

    test('a lone caller does not wait', () => {
      const { begun, update, runAll } = loaded();
      for (let time = 0; time < 100; time++) update('a', 50);
      runAll();
      expect(begun).toHaveLength(100);
    });
  });
});
