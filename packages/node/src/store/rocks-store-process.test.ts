import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreLockedError } from '@taskmaster/engine/ports';
import { describe, expect, test } from 'vitest';
import { namesIn, openSmall, put, refusalOf, startStoreProcess, temporaryDirectory } from './test-support.ts';

/** Stops the process only at syncs, not at each system call. */
const ONLY_SYNCS: readonly string[] = ['-f', '--seccomp-bpf', '-e', 'trace=fdatasync'];
const strace = spawnSync('strace', [...ONLY_SYNCS, '-o', '/dev/null', 'true']).status === 0;
const traced = strace ? '' : ' (skipped: strace does not run here)';

describe('a process with a store', () => {
  test.each([20, 1000])('killed after %i writes has lost no reported write and split no batch', async (writes) => {
    await using dir = await temporaryDirectory();
    const writer = startStoreProcess([dir.path, 'write forever']);
    await writer.toldAtLeast(writes);
    writer.process.kill('SIGKILL');
    expect((await writer.ended).code).toBe('SIGKILL');
    await using store = await openSmall(dir.path);
    const names = new Set(await namesIn(store));
    const told = writer.told.slice(1);
    expect(told.length).toBeGreaterThanOrEqual(writes - 1);
    for (const number of told) expect(names.has(`a${number}`), `write ${number}`).toBe(true);
    for (const name of names) {
      for (const part of 'abc') expect(names.has(part + name.slice(1)), `the whole batch of ${name}`).toBe(true);
    }
  });

  test.each([0, 20])('exits cleanly during writes, %i ms after the first', async (ms) => {
    await using dir = await temporaryDirectory();
    const writer = startStoreProcess([dir.path, 'exit while writing', String(ms)]);
    expect(await writer.ended).toEqual({ code: 0, stderr: '' });
    await using store = await openSmall(dir.path);
    const names = new Set(await namesIn(store));
    for (const number of writer.told.slice(1)) expect(names.has(`a${number}`), `write ${number}`).toBe(true);
  });

  test('locks its directory until it ends', async () => {
    await using dir = await temporaryDirectory();
    const holder = startStoreProcess([dir.path, 'hold']);
    await holder.toldAtLeast(1);
    const error = await refusalOf(openSmall(dir.path));
    expect(error).toBeInstanceOf(StoreLockedError);
    expect(error.message).toContain(dir.path);
    expect(error.message).toContain('another process');
    holder.process.kill('SIGKILL');
    await holder.ended;
    await using store = await openSmall(dir.path);
    await store.write(put('a'), { sync: true });
  });
});

test('a directory is locked within one process, too, and the refused store does not disturb the open one', async () => {
  await using dir = await temporaryDirectory();
  await using store = await openSmall(dir.path);
  await store.write(put('before'), { sync: true });
  expect(await refusalOf(openSmall(dir.path))).toBeInstanceOf(StoreLockedError);
  await store.write(put('after'), { sync: true });
  expect(await namesIn(store)).toEqual(['after', 'before']);
});

describe.skipIf(!strace)(`the disk, seen from outside${traced}`, () => {
  async function fdatasyncsOf(what: string, count: number): Promise<number> {
    await using dir = await temporaryDirectory();
    const trace = join(dir.path, 'trace');
    const behind = ['strace', ...ONLY_SYNCS, '-o', trace];
    const writer = startStoreProcess([join(dir.path, 'store'), what, String(count)], behind);
    expect((await writer.ended).code).toBe(0);
    return (await readFile(trace, 'latin1')).match(/fdatasync\(/g)?.length ?? 0;
  }

  test('each awaited synced write takes one sync, an unsynced write takes none', { timeout: 60_000 }, async () => {
    const [without, synced, unsynced] = [
      await fdatasyncsOf('write', 0),
      await fdatasyncsOf('write', 100),
      await fdatasyncsOf('write unsynced', 100),
    ];
    // In addition, the guards sync a few times a second, and there are ten flushes a second.
    expect(synced - without).toBeGreaterThanOrEqual(100);
    expect(synced - without).toBeLessThan(175);
    expect(unsynced - without).toBeLessThan(50);
  });

  test('one failed sync ends all writes, even if the next sync would succeed', { timeout: 60_000 }, async () => {
    await using dir = await temporaryDirectory();
    // The injector counts for each thread; only the writer thread syncs this often.
    const behind = ['strace', ...ONLY_SYNCS, '-o', '/dev/null', '-e', 'inject=fdatasync:error=EIO:when=30'];
    const writer = startStoreProcess([dir.path, 'write until it fails'], behind);
    expect((await writer.ended).code).toBe(0);
    expect(writer.told.at(-1)).toEqual({ error: 'StoreFailedError', later: 'StoreFailedError', state: 'failed' });
    const acknowledged = writer.told.slice(1, -1);
    expect(acknowledged.length).toBeGreaterThan(5);
    await using store = await openSmall(dir.path);
    const names = new Set(await namesIn(store));
    for (const number of acknowledged) expect(names.has(`a${number}`), `write ${number}`).toBe(true);
    expect(names.has('a-1')).toBe(false);
  });

  test('a stalled disk blocks writes, but neither reads nor the event loop', { timeout: 60_000 }, async () => {
    await using dir = await temporaryDirectory();
    // The 35th sync of the writer thread; no other thread syncs this often.
    const stall = 'inject=fdatasync:delay_enter=3000000:when=35';
    const behind = ['strace', ...ONLY_SYNCS, '-o', '/dev/null', '-e', stall];
    const reader = startStoreProcess([dir.path, 'read while a write is stalled'], behind);
    expect((await reader.ended).code).toBe(0);
    const figures = reader.told.at(-1) as { writeMs: number; reads: number; loopDelayMs: number };
    expect(figures.writeMs).toBeGreaterThan(2900);
    expect(figures.reads).toBeGreaterThan(20);
    expect(figures.loopDelayMs).toBeLessThan(1500);
  });
});
