import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readLoadProfiles } from './load-profile.ts';

const SAMPLE_US = 1_000;

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'profiles-'));
});
afterEach(() => rm(dir, { recursive: true }));

/** Writes the profile of a node's event loop from instant 0 on: one letter for each ms, `e` in the engine, `.` idle. */
async function leaveProfile(pid: number, samples: string): Promise<void> {
  const frame = (functionName: string, url: string) => ({ functionName, url, lineNumber: 0 });
  const profile = {
    nodes: [
      { id: 1, callFrame: frame('(root)', ''), children: [2, 3] },
      { id: 2, callFrame: frame('(idle)', '') },
      { id: 3, callFrame: frame('commit', 'file:///x/packages/engine/dist/memory.js') },
    ],
    startTime: -SAMPLE_US,
    samples: [...samples].map((letter) => (letter === 'e' ? 3 : 2)),
    timeDeltas: [...samples].map(() => SAMPLE_US),
  };
  await writeFile(join(dir, `CPU.20260101.000000.${pid}.0.001.cpuprofile`), JSON.stringify(profile));
}

describe('the profile of a row', () => {
  test('shows the tasks of each load with the work of threads during that load', async () => {
    await leaveProfile(11, 'eeee........');
    await leaveProfile(22, '......ee....');
    const loads = await readLoadProfiles(dir, [
      { of: 'unary', beganUs: 0, endedUs: 5_000, tasks: 100 },
      { of: 'client', beganUs: 5_000, endedUs: 10_000, tasks: 400 },
    ]);
    expect(loads).toMatchObject([
      {
        of: 'unary',
        tasks: 100,
        threads: [
          { pid: 11, busyUs: 4_000, idleUs: 1_000 },
          { pid: 22, busyUs: 0 },
        ],
      },
      {
        of: 'client',
        tasks: 400,
        threads: [
          { pid: 22, busyUs: 2_000, idleUs: 3_000 },
          { pid: 11, busyUs: 0 },
        ],
      },
    ]);
  });

  test('sums up the runs of a load without the time between them', async () => {
    await leaveProfile(11, 'ee..eeeeee..');
    const loads = await readLoadProfiles(dir, [
      { of: 'node', beganUs: 0, endedUs: 3_000, tasks: 10 },
      { of: 'node', beganUs: 6_000, endedUs: 8_000, tasks: 10 },
    ]);
    expect(loads).toMatchObject([
      { of: 'node', tasks: 20, threads: [{ thread: 'node', busyUs: 4_000, areas: [['node: engine', 4_000]] }] },
    ]);
  });
});
