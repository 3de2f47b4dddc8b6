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

  test('of every command has examples, and the reference has every command and option', {
    timeout: 60_000,
  }, async () => {
    const commands = [...(await outputOf('taskmaster --help')).matchAll(/^ {2}([a-z][a-z-]*) .*[a-z]/gm)].map(
      ([, name]) => name,
    );
    expect(commands).toContain('enqueue');
    // A command with subcommands: its default subcommand `list` is described under its own name.
    const parts = ['drain', 'remove'].map((part) => `members ${part}`);
    const listed = await outputOf('taskmaster members --help');
    for (const part of ['list', 'drain', 'remove']) expect(listed).toMatch(new RegExp(`^ {2}${part} `, 'm'));
    for (const command of [...commands.filter((name) => name !== 'help'), 'members list', ...parts]) {
      const help = await outputOf(`taskmaster ${command} --help`);
      expect(help, command).toContain('Examples:\n');
      if (command !== 'members list') expect(guide).toContain(`### ${command}\n`);
      for (const [, option] of help.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)) expect(guide).toContain(`\`${option}`);
    }
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
