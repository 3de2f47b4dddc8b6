import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { runProcess } from '../support/processes/child-process.ts';
import { argumentsOf, pipeOf } from './in-process.ts';
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

test.each([
  ['a pipe', 'taskmaster queues --json | jq -r .queue', 'jq -r .queue', false],
  ['a redirection', "taskmaster enqueue q 'a | b' > a.json", 'cat > a.json', true],
])('the output goes on by %s', (_how, line, reader, ownCode) => {
  expect(pipeOf(line)).toMatchObject({ reader, ownCode });
});

test.each([
  ['bytes', 'taskmaster get q a --raw | cmp - b'],
  ['errors elsewhere', 'taskmaster queues 2> a | sort'],
  ['another program first', 'seq 3 | taskmaster enqueue q --lines'],
  ['a variable', 'taskmaster queues "$1" | sort'],
  ['a full device', 'taskmaster stats > /dev/full'],
])('a line with a pipe is left to a shell for %s', (_why, line) => {
  expect(pipeOf(line)).toBeUndefined();
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
