import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bytesCodec, type Pid, pidOf } from '@taskmaster/client';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type NodeUser, openNodeUser } from './shell.ts';

const MINUTE_MS = 60_000;

const bytes = (text: string): Pid => new Uint8Array(Buffer.from(text));

/** PIDs that have a special meaning for shells, terminals or the command line. */
const troublesome = [
  pidOf([9, 'order-17']),
  pidOf(['a', 'b']),
  pidOf(new Date(0)),
  '-n',
  '--json',
  '-',
  '--',
  '$HOME',
  '`id`',
  "it's",
  '"',
  '\\',
  '\\0',
  '*',
  '~',
  '!',
  ' ',
  ' a',
  'a ',
  'a  b',
  '\n',
  'a\n',
  'a\0b',
  '\0',
  '\u001b[2J',
  '\u202e',
  '\u00a0',
  'größe 日本 👍',
  '0x6161',
  'hex:',
  'hex:6161',
  'base64:',
  'base64:YWE=',
  'hexagon',
  'HEX:00',
].map((one) => (typeof one === 'string' ? bytes(one) : new Uint8Array(one)));

const anyPid = fc.oneof(
  fc.uint8Array({ minLength: 1, maxLength: 12 }),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 8 }).map(bytes),
  fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 8 }).map(bytes),
);

/** Shell that reads the lines of a file into an array. */
const readInto = (array: string, file: string): string =>
  `${array}=(); while IFS= read -r one; do ${array}+=("$(printf '%s\\n' "$one")"); done < ${file}`;

const jsonLines = (text: string): { readonly pid: string; readonly state: string }[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

describe('a shown PID is accepted as input, with any bytes', { timeout: 2 * MINUTE_MS }, () => {
  let user: NodeUser;
  beforeAll(async () => {
    user = await openNodeUser();
  });
  afterAll(() => user[Symbol.asyncDispose]());

  test('from the environment of --exec, from lines for people and from --json, through a shell', async () => {
    const { client, shell } = user;
    const pids = [...troublesome, ...fc.sample(anyPid, { numRuns: 60, seed: 19 }), new Uint8Array(4096).fill(0xff)];
    const named = new Map(pids.map((pid) => [Buffer.from(pid).toString('hex'), pid]));
    const queue = client.queue('pids#jobs', { codec: bytesCodec });
    await queue.enqueueMany([...named.values()].map((pid) => ({ data: pid, pid })));
    const count = named.size;

    const run = async (line: string): Promise<string> => {
      const { code, stdout, stderr } = await shell.run(`set -eo pipefail; ${line}`);
      expect(`${stderr}exit ${code}`).toContain('exit 0');
      return stdout;
    };
    const released = await shell.run(
      `taskmaster lease pids#jobs --max ${count} --retry-after 1h \
        --exec 'printf "%s\\n" "$TASKMASTER_PRIORITY_ID" >> environment; exit 1' 2> released`,
    );
    expect(released.code).toBe(1);
    // The line of --exec for each task: `released  pids#jobs  PID  in 4ms (exit 1)`.
    await run(`sed -nE 's/^released  pids#jobs  (.*)  in [0-9.]+m?s \\(exit 1\\)$/\\1/p' released > said`);
    const peeked = jsonLines(await run('taskmaster peek pids#jobs --delayed --limit 1000 --json'));
    await writeFile(join(shell.dir, 'json'), peeked.map(({ pid }) => `${pid}\n`).join(''));
    for (const file of ['environment', 'said', 'json']) {
      // Each line through a variable and a substitution of the shell, as scripts do it.
      const shown = jsonLines(await run(`${readInto('pids', file)}; taskmaster get pids#jobs "\${pids[@]}" --json`));
      expect(shown.filter(({ state }) => state !== 'delayed')).toEqual([]);
      expect(new Set(shown.map(({ pid }) => pid)).size, file).toBe(count);
    }
    await run(`${readInto('pids', 'environment')}; taskmaster complete pids#jobs "\${pids[@]}" --force`);
    expect(await queue.stats()).toMatchObject({ delayed: 0, completed: count });
  });
});
