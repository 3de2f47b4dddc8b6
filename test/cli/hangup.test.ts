import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startProcess } from '../support/processes/child-process.ts';
import { type NodeUser, openNodeUser } from './shell.ts';

/** True if `script` of util-linux is there: it gives a program a terminal. */
const hasScript = spawnSync('script', ['--version']).status === 0;

describe('a command whose terminal closes', { timeout: 60_000 }, () => {
  let user: NodeUser;
  beforeAll(async () => {
    user = await openNodeUser();
  });
  afterAll(() => user[Symbol.asyncDispose]());

  const isRunning = (pid: number): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };

  async function expectGivenBack(name: string): Promise<void> {
    const [task] = await user.client.queue(name).get(['p']);
    expect(task).toMatchObject({ state: 'available', attempts: 0 });
  }

  test('ends the command of --exec, releases its task without counting the attempt, and exits with the code for SIGHUP', async () => {
    const { client, shell } = user;
    await client.queue('hup#told').enqueue('x', { pid: 'p' });
    // The shell of the terminal and the system send one signal each. The second arrives while the first is being handled.
    const slowToEnd = 'trap "sleep 0.5; exit 1" TERM; echo $$; while true; do sleep 0.1; done';
    await using running = await shell.start(['lease', 'hup#told', '--follow', '--exec', slowToEnd]);
    const command = Number((await running.lines().next()).value);
    running.process.kill('SIGHUP');
    running.process.kill('SIGHUP');
    const { code, stderr } = await running.ended;
    expect(code).toBe(129);
    expect(stderr).toContain('released  hup#told  p');
    expect(isRunning(command)).toBe(false);
    await expectGivenBack('hup#told');
  });

  test.skipIf(!hasScript)(
    `does so even if it cannot write any more${hasScript ? '' : ' (skipped: needs script of util-linux)'}`,
    async () => {
      const { client, shell } = user;
      for (const pid of ['p', 'q']) await client.queue('hup#gone').enqueue('x', { pid });
      const line =
        "taskmaster lease hup#gone --follow --concurrency 2 --exec 'echo $$ >> commands; exec sleep 600' 2>&1";
      await using terminal = await startProcess('script', ['--quiet', '--command', line, '/dev/null'], {
        cwd: shell.dir,
        env: shell.env,
      });
      const commands = await eventually(async () => {
        const pids = (await readFile(join(shell.dir, 'commands'), 'utf8')).trim().split('\n');
        expect(pids).toHaveLength(2);
        return pids.map(Number);
      });
      await terminal.kill('SIGKILL');
      await eventually(async () => {
        expect(commands.filter(isRunning)).toEqual([]);
        expect(await client.queue('hup#gone').stats()).toMatchObject({ available: 2, leased: 0 });
      });
      await expectGivenBack('hup#gone');
    },
  );
});
