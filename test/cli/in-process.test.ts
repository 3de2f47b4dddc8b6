import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { runProcess } from '../support/processes/child-process.ts';
import { argumentsOf } from './in-process.ts';
import { stepsOf } from './scenario.ts';

const folder = new URL('./scenarios/', import.meta.url);

test.each([
  ['a comment', 'taskmaster queues # all'],
  ['a home directory', 'taskmaster enqueue q --file ~/x'],
  ['a pipe', 'taskmaster queues | head -1'],
  ['a redirection', 'taskmaster queues >x'],
  ['a variable', 'taskmaster queues "$1"'],
  ['an open quote', "taskmaster enqueue q it's"],
  ['a pattern', 'taskmaster enqueue q *'],
  ['an escape', 'taskmaster enqueue q \\x'],
  ['two commands', 'taskmaster queues; taskmaster members'],
  ['two lines', 'taskmaster queues\ntaskmaster members'],
  ['another program', 'cat x'],
  ['a command of --exec, which writes to the streams of its process', 'taskmaster lease q --exec true'],
  ['help, which is written to the streams of the process', 'taskmaster --help'],
])('a line is left to a shell for %s', (_why, line) => {
  expect(argumentsOf(line)).toBeUndefined();
});

test('a shell passes the same arguments', async () => {
  const lines = readdirSync(folder).flatMap((file) =>
    stepsOf(readFileSync(new URL(file, folder), 'utf8')).map(({ line }) => line),
  );
  const own = lines.flatMap((line) => {
    const args = argumentsOf(line);
    return args === undefined ? [] : [{ line, args }];
  });
  expect(own.length).toBeGreaterThan(lines.length / 2);
  const script = ['taskmaster() { printf "%s\\0" "$@"; printf "\\n"; }', ...own.map(({ line }) => line)].join('\n');
  const { stdout } = await runProcess('bash', ['-c', script]);
  expect(stdout).toBe(own.map(({ args }) => `${args.map((arg) => `${arg}\0`).join('')}\n`).join(''));
});
