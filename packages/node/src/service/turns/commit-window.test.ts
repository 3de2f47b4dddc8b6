import { describe, expect, test } from 'vitest';
import { CommitWindow } from './commit-window.ts';

const CALLER = '10.0.0.1:1';

/** A window with commits that end when a test ends them. */
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
    later: (ms: number): void => {
      now += ms;
    },
    /** Counts commits of a task each until the window is full, lets the disk write the lot, and returns how many. */
    async fill(disk: Disk): Promise<number> {
      const ends: ((ms: number) => Promise<void>)[] = [];
      while (!window.isFull) ends.push(begin(1));
      await ends[0]?.(disk.syncMs + disk.taskMs * ends.length);
      for (const end of ends.slice(1)) await end(0);
      window.synced(disk.syncMs + disk.taskMs * ends.length);
      return ends.length;
    },
  };
}

/** What one fsync takes, and each task written with it. */
interface Disk {
  readonly syncMs: number;
  readonly taskMs: number;
}

const QUICK: Disk = { syncMs: 1, taskMs: 0.001 };
const BUSY: Disk = { syncMs: 1, taskMs: 0.1 };
const SLOW: Disk = { syncMs: 30, taskMs: 0.1 };

async function filled(commits: ReturnType<typeof commitWindow>, disk: Disk, times: number): Promise<number> {
  let size = 0;
  for (let time = 0; time < times; time++) size = await commits.fill(disk);
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
    commits.window.synced(BUSY.syncMs);
    const first = await commits.fill(BUSY);
    const narrow = await filled(commits, BUSY, 50);
    expect(narrow).toBeLessThan(first / 2);
    expect(narrow).toBeGreaterThan(0);
    expect(await filled(commits, QUICK, 200)).toBeGreaterThan(first);
  });

  test('has a smallest and a largest size', async () => {
    const busy = commitWindow();
    const overwhelmed: Disk = { syncMs: 0, taskMs: 100 };
    expect(await filled(busy, overwhelmed, 300)).toBe(await busy.fill(overwhelmed));
    const idle = commitWindow();
    const instant: Disk = { syncMs: 0, taskMs: 0 };
    expect(await filled(idle, instant, 300)).toBe(await idle.fill(instant));
  });

  test('is larger on a disk with slow fsyncs, even if there is little to write', async () => {
    const quick = commitWindow();
    const slow = commitWindow();
    quick.window.synced(BUSY.syncMs);
    slow.window.synced(SLOW.syncMs);
    expect(await filled(slow, SLOW, 200)).toBeGreaterThan(2 * (await filled(quick, BUSY, 200)));
  });

  test('learns the time of an fsync from a busy node, too', async () => {
    expect(await filled(commitWindow(), SLOW, 200)).toBeGreaterThan(2 * (await filled(commitWindow(), BUSY, 200)));
  });

  test('forgets a disk that was slow', async () => {
    const commits = commitWindow();
    commits.window.synced(SLOW.syncMs);
    const wide = await filled(commits, SLOW, 200);
    for (let time = 0; time < 3; time++) {
      commits.later(10_000);
      commits.window.synced(BUSY.syncMs);
    }
    expect(await filled(commits, BUSY, 200)).toBeLessThan(wide / 2);
  });
});
