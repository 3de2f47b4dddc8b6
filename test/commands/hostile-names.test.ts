import { type CliEnded, createProgram, Runner, runCli, startCli } from '@taskmaster/cli/testing';
import { connect } from '@taskmaster/client';
import { makeError } from '@taskmaster/client/internal';
import { MemberState } from '@taskmaster/proto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fakeMember, fakePartition } from '../client/support/fake-cluster.ts';
import { TestNode } from '../client/support/test-node.ts';
import { eventually } from '../support/eventually.ts';

type Command = ReturnType<typeof createProgram>['program'];

/** Colours, a bell, a change of direction, line separators, characters of no width, and the start of a line that is a lie. */
const HOSTILE = 'a\u001b[31m\u0007\u009b1m\u202e\u2066\u2028\u2029\u200b\ufeff\u007f\u{e0041}\r\ncreated  mail\tb';
/** What a terminal obeys or does not show. */
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/u;
const QUEUE = `g#${HOSTILE}`;
/** A node takes no control characters in headers. */
const HEADER = HOSTILE.replaceAll(/\p{Cc}/gu, '');

let server: TestNode;

/** A node on which everything that callers may name has the name. */
async function fill(): Promise<void> {
  await using client = await connect(server.endpoint);
  const queue = client.queue<string>(QUEUE);
  const options = { headers: { k: HEADER }, key: HOSTILE };
  await queue.enqueue(HOSTILE, { pid: HOSTILE, ...options });
  await queue.enqueue(HOSTILE, { pid: `${HOSTILE}2` });
  const workerLabel = HOSTILE;
  const [leased] = await client.lease({ queues: [queue], max: 1, workerLabel });
  await leased?.reportProgress(HOSTILE);
  const failing = client.queue<string>(`${QUEUE}x`);
  await failing.enqueue(HOSTILE, { pid: HOSTILE, retry: { maxAttempts: 1, deadLetterQueue: `${QUEUE}.dead` } });
  const [failed] = await client.lease({ queues: [failing], workerLabel });
  await failed?.release({ error: new Error(HOSTILE) });
  await client.schedules.put(QUEUE, { queue: QUEUE, data: HOSTILE, every: '1h', headers: options.headers });
  await client.topic(QUEUE).subscribe(QUEUE, { filter: { k: HEADER } });
  await client.queueSettings.put(QUEUE, { deadLetterQueue: `${QUEUE}.dead` });
  const { cluster } = server;
  cluster.members = [
    fakeMember({ name: HOSTILE, rpcAddress: HOSTILE, version: HOSTILE }),
    fakeMember({ name: `${HOSTILE}2`, alive: false }),
    fakeMember({ name: `${HOSTILE}3`, state: MemberState.MEMBER_STATE_LEFT, removedBy: HOSTILE }),
  ];
  cluster.partitions = [fakePartition({ id: 0, holder: HOSTILE, wanted: `${HOSTILE}2` })];
  cluster.lost = [];
  cluster.silent = [{ nodeId: HOSTILE, name: HOSTILE, address: HOSTILE, problem: HOSTILE }];
  cluster.unreachable = [HOSTILE];
}

beforeEach(async () => {
  server = await TestNode.start();
  await fill();
});
afterEach(() => server.kill());

async function run(args: readonly string[]): Promise<CliEnded> {
  const running = startCli(server.endpoint, args);
  running.endInput();
  return await running.ended;
}

/** Options without which a command goes on, or asks. */
const more: Readonly<Record<string, readonly string[]>> = {
  watch: ['--count', '1'],
  wait: ['--for', '1ms'],
  'members drain': ['--no-wait'],
  'members remove': ['--accept-loss', '--yes'],
  'delete-queue': ['--yes'],
  'dead drop': ['--yes', '--group', 'g'],
  'dead retry': ['--group', 'g'],
  complete: ['--force'],
  renew: ['--force'],
  release: ['--force'],
  'schedule put': ['--every', '1h'],
  'settings put': ['--max-attempts', '3'],
};
/** They write bytes as they are, run programs, take long, or go on until they are interrupted. */
const LEFT_OUT = /^(completion|load|help|backup create|dev)/;
const NOT_GIVEN = new Set(['--exec', '--raw', '--endpoint', '--help', '--version', '--follow']);

interface Leaf {
  readonly name: string;
  readonly command: Command;
}

function leaves(command: Command, path: readonly string[] = []): Leaf[] {
  if (command.commands.length === 0) return [{ name: path.join(' '), command }];
  return command.commands.flatMap((one) => leaves(one, [...path, one.name()]));
}

/** Command lines with the hostile text in each position, alone and together. */
function linesOf({ name, command }: Leaf): string[][] {
  const args = command.registeredArguments;
  const values = args.map((_, at) =>
    at === 0 && /queue|topic|schedule/.test(args[0]?.name() ?? '') ? QUEUE : HOSTILE,
  );
  const base = [...name.split(' '), ...(more[name] ?? [])];
  const required = args.filter((argument) => argument.required).length;
  const lines = [[...base, ...values]];
  for (let count = required; count < values.length; count++) lines.push([...base, ...values.slice(0, count)]);
  for (const option of command.options) {
    if (!(option.required || option.optional) || NOT_GIVEN.has(option.long ?? '')) continue;
    lines.push([...base, ...values.slice(0, required), `${option.long}=${HOSTILE}`]);
  }
  return lines;
}

const { program } = createProgram((made) => new Runner(made, {} as never));
const commands = leaves(program).filter(({ name }) => !LEFT_OUT.test(name));

function assertShown(line: readonly string[], { stdout, stderr }: CliEnded): void {
  for (const text of [stdout, stderr]) {
    const unseen = text.split('\n').filter((one) => UNSEEN.test(one));
    expect({ line: line.map((word) => JSON.stringify(word)).join(' '), unseen }).toMatchObject({ unseen: [] });
    // No name begins a line of its own.
    expect(text.split('\n').filter((one) => one.startsWith('created  mail'))).toEqual([]);
  }
}

test('a name that no environment can have fails its own task, and the commands of other queues go on', async () => {
  await using empty = await TestNode.start();
  await using client = await connect(empty.endpoint);
  await client.queue('g#a\0b').enqueue('x');
  await client.queue('g#fine').enqueue('x');
  const queues = ['--regex', '^g#(a.b|fine)$', '--max', '2', '--exec', 'test "$TASKMASTER_QUEUE" = g#fine', '--json'];
  const { code, stdout } = await runCli(empty.endpoint, ['lease', ...queues]);
  const ended = stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  expect(ended.map(({ queue, result }) => [queue, result]).sort()).toEqual([
    ['g#a\0b', 'released'],
    ['g#fine', 'completed'],
  ]);
  expect(JSON.stringify(ended)).toContain('TASKMASTER_QUEUE would have a NUL');
  expect(code).toBe(1);
});

describe('no name, payload or message of others reaches the terminal as it is', () => {
  test('the commands are those of the program', () => {
    expect(commands.length).toBeGreaterThan(35);
    expect(commands.flatMap(linesOf).length).toBeGreaterThan(150);
  });

  test.each(commands)('$name', async (leaf) => {
    for (const line of linesOf(leaf)) {
      assertShown(line, await run(line));
      const { stdout, stderr, code } = await run([...line, '--json']);
      assertShown(line, { stdout, stderr, code });
      for (const one of `${stdout}${stderr}`.split('\n').filter((text) => text.startsWith('{'))) JSON.parse(one);
    }
  });

  test.each([{ isTerminal: false }, { isTerminal: true }])('dev: %o', async (options) => {
    const running = startCli(server.endpoint, ['dev'], options);
    await using client = await connect(server.endpoint);
    await eventually(async () => {
      // It shows what happens from its start on.
      await client.queue(QUEUE).enqueue(HOSTILE, { key: HOSTILE, mode: 'replace', headers: { k: HEADER } });
      expect(running.stdout).toContain('\\u{1b}[31m');
    });
    running.interrupt();
    const { code, stdout } = await running.ended;
    expect(code).toBe(0);
    // The screen moves the cursor, but never obeys one of these.
    for (const one of ['\u001b[31m\u0007', '\u0007', '\u009b', '\u202e', '\u2066', '\u2028', '\u200b', '\ufeff'])
      expect(stdout.includes(one), JSON.stringify(one)).toBe(false);
  });

  test('listings show the escaped names', async () => {
    const { stdout } = await run(['queues']);
    expect(stdout).toContain('\\u{1b}[31m\\u{7}\\u{9b}1m\\u{202e}');
    const json = await run(['queues', '--json']);
    expect(json.stdout).toContain('\\u202e\\u2066\\u2028\\u2029\\u200b\\ufeff\\u007f\\udb40\\udc41');
    expect(
      json.stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line).queue),
    ).toContain(QUEUE);
  });

  test('a refusal of a node is escaped, also with its stack', async () => {
    server.refusal = makeError(HOSTILE, { reason: 'INVALID_QUEUE', metadata: { queue: HOSTILE } });
    for (const { name, command } of commands) {
      const [line = []] = linesOf({ name, command });
      assertShown(line, await run([...line, '--debug']));
      assertShown(line, await run([...line, '--json']));
    }
  });
});
