import { describe, expect, test } from 'vitest';
import { CommitWindow } from './commit-window.ts';

const CALLER = '10.0.0.1:1';

/** A window, and commits that take as long as they are told to. */
function commitWindow() {
  let now = 0;
  const window = new CommitWindow(() => now);
  let settled = 0;
  const begin = (tasks: number, caller = CALLER): ((ms: number) => Promise<void>) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    window.count(caller, tasks, promise, () => settled++);
    return async (ms) => {
      now += ms;
      resolve();
      await promise;
    };
  };
  return {
    window,
    begin,
    settled: () => settled,
    /** Counts commits of a task each until the window is full, takes the time for the lot, and returns how many. */
    async fill(ms: number): Promise<number> {
      const ends: ((ms: number) => Promise<void>)[] = [];
      while (!window.isFull) ends.push(begin(1));
      await ends[0]?.(ms);
      for (const end of ends.slice(1)) await end(0);
      return ends.length;
    },
  };
}

async function filled(commits: ReturnType<typeof commitWindow>, ms: number, times: number): Promise<number> {
  let size = 0;
  for (let time = 0; time < times; time++) size = await commits.fill(ms);
  return size;
}

describe('the commit window', () => {
  test('counts tasks until their commits are settled, whether or not they succeed', async () => {
    const { window, begin, settled } = commitWindow();
    const end = begin(40);
    begin(3, 'other');
    window.count(CALLER, 7, Promise.reject(new Error('the disk is full')), () => {});
    expect([window.of(CALLER), window.of('other'), window.of('nobody')]).toEqual([47, 3, 0]);
    await end(1);
    expect([window.of(CALLER), settled()]).toEqual([0, 1]);
  });

  test('shrinks while commits take long, and grows while they do not', async () => {
    const commits = commitWindow();
    const first = await commits.fill(1);
    const narrow = await filled(commits, 100, 50);
    expect(narrow).toBeLessThan(first);
    expect(narrow).toBeGreaterThan(0);
    expect(await filled(commits, 1, 200)).toBeGreaterThan(first);
  });

  test('is bounded both ways', async () => {
    const slow = commitWindow();
    expect(await filled(slow, 1_000, 300)).toBe(await slow.fill(1_000));
    const quick = commitWindow();
    expect(await filled(quick, 0, 300)).toBe(await quick.fill(0));
  });

  test('is larger on a disk whose fsyncs take long even when it has nothing else to do', async () => {
    const quick = commitWindow();
    const slow = commitWindow();
    for (let time = 0; time < 10; time++) {
      await quick.begin(1)(1);
      await slow.begin(1)(30);
    }
    expect(await filled(slow, 40, 100)).toBeGreaterThan(await filled(quick, 40, 100));
  });

  test('does not take a busy disk for a slow one', async () => {
    const busy = commitWindow();
    for (let time = 0; time < 10; time++) await busy.begin(1)(1);
    const before = await filled(busy, 40, 100);
    for (let time = 0; time < 20; time++) {
      const others = busy.begin(50);
      await busy.begin(1)(40);
      await others(40);
    }
    expect(await filled(busy, 40, 100)).toBeLessThanOrEqual(before);
  });
});
