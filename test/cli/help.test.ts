import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openShell, type UserShell } from './shell.ts';

const guide = readFileSync(new URL('../../docs/reference/cli.md', import.meta.url), 'utf8');

describe('help', () => {
  let shell: UserShell;
  beforeAll(async () => {
    // No test here needs a node.
    shell = await openShell('127.0.0.1:1');
  });
  afterAll(() => shell[Symbol.asyncDispose]());

  async function outputOf(line: string): Promise<string> {
    const { code, stdout, stderr } = await shell.run(line);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  }

  test('names the commands and explains the exit codes', async () => {
    const help = await outputOf('taskmaster --help');
    for (const code of [0, 1, 2, 3, 4, 130]) expect(help).toMatch(new RegExp(`^ +${code} +\\w`, 'm'));
    expect(guide).toContain(help.slice(help.indexOf('Exit codes:'), help.indexOf('\n\nEnvironment')));
  });

  test('is shown without a command, with exit code 2', async () => {
    const { code, stdout, stderr } = await shell.run('taskmaster');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('Usage: taskmaster');
  });

  test.each([
    ['a command', 'taskmaster qu', 'queues'],
    ['an option of a command', 'taskmaster enqueue jobs --pid-f', '--pid-field'],
    ['a subcommand', 'taskmaster members dr', 'drain'],
    ['an option of a subcommand', 'taskmaster members remove b --acc', '--accept-loss'],
    ['an option of every command', 'taskmaster watch --endp', '--endpoint'],
  ])('completes %s in bash', async (_what, typed, completed) => {
    const words = typed.split(' ');
    const line = `source <(taskmaster completion bash)
      COMP_WORDS=(${words.join(' ')}) COMP_CWORD=${words.length - 1}
      _taskmaster; echo "\${COMPREPLY[@]}"`;
    expect((await outputOf(line)).trim()).toBe(completed);
  });
});
