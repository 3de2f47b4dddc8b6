import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { DiskGuard, type DiskState } from './disk-guard.ts';
import { RESERVE_FILE } from './reserve-file.ts';
import { type TemporaryDirectory, temporaryDirectory } from './test-support.ts';

const RESERVE = 64 * 1024;

let dir: TemporaryDirectory;
let guard: DiskGuard;
/** Free space of the disk, without the reserve file. */
let room: number;
let probeWorks: boolean;
let states: DiskState['kind'][];

const reserved = async (): Promise<number> => {
  try {
    return (await stat(join(dir.path, RESERVE_FILE))).size;
  } catch {
    return 0;
  }
};

beforeEach(async () => {
  dir = await temporaryDirectory();
  room = RESERVE * 10;
  probeWorks = true;
  states = [];
  guard = new DiskGuard({
    dir: dir.path,
    reserveBytes: RESERVE,
    shortBelowBytes: RESERVE,
    freeBytes: async () => room - (await reserved()),
    probe: async () => probeWorks,
    onChange: ({ kind }) => states.push(kind),
    log: () => undefined,
    intervalMs: 3_600_000, // tests start the checks themselves
  });
});
afterEach(async () => {
  await guard.close();
  await dir[Symbol.asyncDispose]();
});

describe('the disk guard', () => {
  test('creates the reserve at its start', async () => {
    await guard.start();
    await guard.look();
    expect(await reserved()).toBe(RESERVE);
    expect(states).toEqual([]);
  });

  test.each([
    ['enough', 'the threshold beside the reserve', RESERVE * 2, 'enough', RESERVE],
    ['short, reserve kept', 'a byte less than the threshold', RESERVE * 2 - 1, 'short', RESERVE],
    ['short, reserve kept', 'a quarter of the threshold', RESERVE * 1.25, 'short', RESERVE],
    ['short, reserve deleted', 'less than a quarter', RESERVE * 1.25 - 1, 'short', 0],
  ] as const)('is %s with %s free', async (_state, _case, roomLeft, state, reserve) => {
    await guard.start();
    await guard.look();
    room = roomLeft;
    await guard.look();
    expect(guard.state.kind).toBe(state);
    expect(await reserved()).toBe(reserve);
  });

  test('detects a full disk at its start', async () => {
    room = RESERVE / 2;
    await guard.start();
    expect(guard.state).toEqual({ kind: 'short', freeBytes: RESERVE / 2 });
  });

  test('leaves the short state only with the reserve back and a quarter more free than the threshold', async () => {
    await guard.start();
    room = 0;
    await guard.look();
    expect([guard.state.kind, await reserved()]).toEqual(['short', 0]);
    room = RESERVE * 2.2;
    await guard.look();
    expect([guard.state.kind, await reserved()]).toEqual(['short', RESERVE]);
    room = RESERVE * 2.25;
    await guard.look();
    expect([guard.state.kind, await reserved()]).toEqual(['enough', RESERVE]);
    expect(states).toEqual(['short', 'enough']);
  });

  test('deletes the reserve after a write has found no space, and waits for a write that succeeds', async () => {
    await guard.start();
    await guard.look();
    probeWorks = false;
    guard.ranOut();
    expect(states).toEqual(['short']);
    await guard.look();
    expect(await reserved()).toBe(0);
    await guard.look();
    expect(guard.state.kind).toBe('short');
    probeWorks = true;
    await guard.look();
    expect([guard.state.kind, await reserved()]).toEqual(['enough', RESERVE]);
  });

  test('checks at once when submitted bytes may fill the disk', async () => {
    await guard.start();
    await guard.look();
    room = RESERVE;
    guard.submitted(RESERVE * 4);
    await guard.look();
    expect(guard.state.kind).toBe('short');
  });
});
