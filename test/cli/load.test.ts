import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TaskMasterClient } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunningNode } from '../support/processes/start-node.ts';
import { type NodeUser, openNodeUser, type UserShell } from './shell.ts';

describe('a load on a node', { timeout: 60_000 }, () => {
  let user: NodeUser;
  let node: RunningNode;
  let client: TaskMasterClient;
  let shell: UserShell;
  beforeAll(async () => {
    user = await openNodeUser();
    ({ node, client, shell } = user);
  });
  afterAll(() => user[Symbol.asyncDispose]());

  /** Queues with tasks of a load. */
  async function left(group: string): Promise<string[]> {
    const { queues } = await client.stats({ filter: { regex: `^${group}` } });
    return queues.map(({ queue }) => queue);
  }

  const objectsIn = (stdout: string) =>
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));

  test('of two processes is checked across pauses of the node, reported, and cleaned', async () => {
    // The number of the run in the file shows that the command has it.
    const pause = `echo "$TASKMASTER_KILL" >> kills; kill -STOP ${node.pid}; sleep 0.3; kill -CONT ${node.pid}`;
    const { code, stdout, stderr } = await shell.run(
      `taskmaster load --verify -d 2s --processes 2 --depth 8 --report a.json --html a.html --json \\
        --group checked --kill-every 800ms --kill-command '${pause}'`,
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const objects = objectsIn(stdout);
    expect(objects[0]).toMatchObject({
      calls: { enqueue: { count: expect.any(Number) } },
      openTasks: expect.any(Number),
    });
    const report = objects.at(-1);
    expect(report).toMatchObject({
      instances: [0, 1],
      isComplete: true,
      verification: { kind: 'kept', violations: 0 },
    });
    expect(report.longestPause.ms).toBeGreaterThanOrEqual(250);
    expect(report.kills.length).toBeGreaterThanOrEqual(1);
    const kills = (await readFile(join(shell.dir, 'kills'), 'utf8')).trimEnd().split('\n');
    expect(kills).toEqual(report.kills.map((_kill: unknown, index: number) => String(index + 1)));
    const whole = JSON.parse(await readFile(join(shell.dir, 'a.json'), 'utf8'));
    expect(whole).toMatchObject({ total: report.total, intervals: expect.any(Array) });
    expect(await readFile(join(shell.dir, 'a.html'), 'utf8')).toContain('contract kept');
    expect(await left('checked')).toEqual([]);
  });

  test('of instances that start together is joined from their reports', async () => {
    const flags = ['load', '--rate', '200', '-d', '1s', '--group', 'together', '--instances', '2', '--verify'];
    await using first = await shell.start([...flags, '--report', '0.json']);
    await using second = await shell.start([...flags, '--report', '1.json'], { JOB_COMPLETION_INDEX: '1' });
    for (const { code, stdout, stderr } of [await first.ended, await second.ended]) {
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toContain('kept: nothing lost, nothing doubled');
    }
    const { code, stdout } = await shell.run('taskmaster load-report 0.json 1.json');
    expect(code).toBe(0);
    expect(stdout).toMatch(/of 200 operations\/s by 2 processes/);
    expect(await left('together')).toEqual([]);

    const twice = await shell.run('taskmaster load-report 0.json 0.json');
    expect(twice).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('INVALID_REPORT: 0.json, 0.json: two reports'),
    });
  });

  test('ends early after Ctrl-C, with its report, and cleans up', async () => {
    await using running = await shell.start(['load', '-d', '1m', '--json', '--group', 'stopped', '--verify']);
    for await (const _line of running.lines()) break;
    const { code, stdout } = await running.kill('SIGINT');
    expect(code).toBe(130);
    expect(objectsIn(stdout).at(-1)).toMatchObject({ isComplete: false, verification: { kind: 'kept' } });
    expect(await left('stopped')).toEqual([]);
  });

  test('is refused where tasks are, and deletes them only if it may', async () => {
    await client.queue('used-3#q1').enqueue('precious');
    const refused = await shell.run('taskmaster load -d 100ms --group used');
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toBe(
      'taskmaster: QUEUES_IN_USE: used-3#q1 has tasks; use --force to delete what is there, or another --group\n',
    );
    expect(await left('used')).toEqual(['used-3#q1']);
    const forced = await shell.run('taskmaster load -d 100ms --group used --force --keep --processes 2');
    expect(forced).toMatchObject({ code: 0, stderr: '' });
    expect((await left('used')).length).toBeGreaterThan(1);
    const tasks = await client.queue('used-3#q1').peek({ limit: 1_000 });
    expect(tasks.filter(({ bytes }) => Buffer.from(bytes ?? '').includes('precious'))).toEqual([]);
  });

  test.each([
    ['--rate 1 --depth 1', 'give --rate or --depth, not both'],
    ['--instance 2 --instances 2', '--instance must be below --instances, which is 2'],
    ['--mix sleep=1', "'sleep=1' is not OPERATION=WEIGHT"],
    ['--payload 1', "'1' is not a size such as"],
    ['--batch 1000 --payload 3MiB', '--batch times --payload is too large for one request'],
  ])('with %s is refused before anything is changed', async (flags, message) => {
    const { code, stderr } = await shell.run(`taskmaster load -e 127.0.0.1:1 ${flags}`);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });

  test('whose report is damaged is refused', async () => {
    await writeFile(join(shell.dir, 'damaged.json'), '{"kind":"taskmaster-load-report","format":1}');
    const { code, stderr } = await shell.run('taskmaster load-report damaged.json');
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('INVALID_REPORT: damaged.json'),
    });
  });
});
