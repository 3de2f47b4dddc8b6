import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { type Running, startProcess } from '../support/processes/child-process.ts';
import { type NodeUser, openNodeUser, type UserShell } from './shell.ts';

const ESC = '\u001b';

/** True if `script` of util-linux is there: it gives a program a terminal. */
const hasScript = spawnSync('script', ['--version']).status === 0;

describe.skipIf(!hasScript)(
  `on a terminal${hasScript ? '' : ' (skipped: needs script of util-linux)'}`,
  { timeout: 60_000 },
  () => {
    let user: NodeUser;
    let client: TaskMasterClient;
    let shell: UserShell;
    beforeAll(async () => {
      user = await openNodeUser();
      ({ client, shell } = user);
    });
    afterAll(() => user[Symbol.asyncDispose]());

    function onTerminal(line: string, env: Readonly<Record<string, string>> = {}): Promise<Running> {
      return startProcess('script', ['--quiet', '--return', '--command', line, '/dev/null'], {
        cwd: shell.dir,
        env: { ...shell.env, TERM: 'xterm', ...env },
      });
    }

    test.each([
      ['no', 'no', 1, 1],
      ['no-answer', '', 1, 1],
      ['yes', 'yes', 0, 0],
    ])('a queue is deleted if the answer is yes: %s', async (name, answer, code, left) => {
      const queue = client.queue(`terminal#${name}`);
      await queue.enqueue('x');
      await using running = await onTerminal(`taskmaster delete-queue terminal#${name}`);
      await eventually(() => expect(running.stdout).toContain('Delete'));
      running.process.stdin?.write(`${answer}\r`);
      expect((await running.ended).code).toBe(code);
      expect((await queue.stats()).available).toBe(left);
    });

    test('watch draws on the alternate screen, and leaves it on Ctrl-C', async () => {
      await client.queue('screen#q').enqueue('x');
      await using running = await onTerminal('taskmaster watch --group screen --interval 10ms');
      await eventually(() => expect(running.stdout.split('screen#q').length).toBeGreaterThan(2));
      running.process.stdin?.write('\u0003');
      const { code, stdout } = await running.ended;
      expect(code).toBe(130);
      expect(stdout.startsWith(`${ESC}[?1049h`)).toBe(true);
      expect(stdout.endsWith(`${ESC}[?1049l`)).toBe(true);
      expect(stdout).toContain(`${ESC}[1mQUEUE`);
    });

    test('dev draws its tasks, and leaves the terminal as it was on Ctrl-C, which arrives as a key', async () => {
      const env = { TASKMASTER_ENDPOINTS: '127.0.0.1:0' };
      await using running = await onTerminal('taskmaster dev; code=$?; stty -a; exit $code', env);
      await eventually(() => expect(running.stdout).toContain('↑ ↓ choose a failed task'));
      const [, address = ''] = /TaskMaster dev {2}([\d.:]+)/.exec(running.stdout) ?? [];
      await using own = await connect(address);
      await own.queue('seen#q').enqueue('x', { key: 'order-1' });
      await eventually(() => expect(running.stdout).toMatch(/seen#q +order-1 +waiting/));
      running.process.stdin?.write('\u0003');
      const { code, stdout } = await running.ended;
      expect(code).toBe(0);
      expect(stdout).toContain(`${ESC}[?1049l`);
      expect(stdout).toMatch(/[^-]icanon.*[^-]echo /s);
    });

    test('NO_COLOR removes the colours', async () => {
      await using running = await onTerminal('taskmaster stats screen#q', { NO_COLOR: '1' });
      const { code, stdout } = await running.ended;
      expect(code).toBe(0);
      expect(stdout).toContain('screen#q');
      expect(stdout).not.toContain(ESC);
    });

    test('lines are enqueued with a progress bar, which the summary replaces at the end', async () => {
      await writeFile(join(shell.dir, 'lines.txt'), 'x\n'.repeat(20_000));
      await using running = await onTerminal('taskmaster enqueue bar#q --lines --batch 20 --file lines.txt');
      const { code, stdout } = await running.ended;
      expect(code).toBe(0);
      expect(stdout).toMatch(/\[#* *\] +\d+% {2}[\d,]+ tasks/);
      const [summary] = stdout.split(`\r${ESC}[K`).slice(-1);
      expect(summary).toMatch(/^bar#q: 20,000 tasks \(20,000 created, 0 collapsed\)[^\r]*\r\n$/);
    });
  },
);
