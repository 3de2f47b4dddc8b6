import { Refusal } from '@taskmaster/engine/domain';
import { ChildFailure, type FlowTaskName, TaskInfo, TaskState } from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import { toWireError } from '@taskmaster/server/calls';
import { expect, test } from 'vitest';
import { flowPage, type TaskReads } from './flow-page.ts';

const HOSTILE = '<img src=x onerror=alert(1)>\u202e';
const bytes = (text: string): Buffer => Buffer.from(text);
const parent = (queue: string, pid: string, key = '', onFailure: ChildFailure = ChildFailure.CHILD_FAILURE_FAIL) => ({
  queue,
  pid: bytes(pid),
  key,
  onFailure,
});

const info = (queue: string, pid: string, more: Partial<TaskInfo> = {}): TaskInfo => ({
  ...TaskInfo.decode(new Uint8Array(0)),
  queue,
  pid: bytes(pid),
  state: TaskState.TASK_STATE_DELAYED,
  data: bytes('secret'),
  ...more,
});

/** A page over these tasks, and what it has asked for. */
function pageOver(tasks: readonly TaskInfo[]) {
  const asked: FlowTaskName[] = [];
  const reads: TaskReads = {
    readTask: async (name, withChildren) => {
      asked.push({ ...name, queue: withChildren ? `${name.queue} down` : name.queue });
      const { queue, pid, key } = name;
      if (queue === 'bad#') throw new Refusal('INVALID_QUEUE', 'queue is "bad#"');
      const isNamed = (task: TaskInfo): boolean =>
        key === '' ? Buffer.compare(task.pid, pid) === 0 : task.key === key;
      const none = { ...info(queue, ''), pid, key, state: TaskState.TASK_STATE_NOT_FOUND };
      return tasks.find((task) => task.queue === queue && isNamed(task)) ?? none;
    },
  };
  const page = (query: Record<string, string> = {}) =>
    flowPage({
      reads,
      access: unlimitedAccess,
      query: new URLSearchParams(query),
      health: { kind: 'serving' },
      facts: { version: '1.2.3', grpcAddress: '127.0.0.1:7400', uptimeMs: 61_000 },
      toWireError: (thrown) => toWireError(thrown as Refusal),
      httpOf: () => undefined,
    });
  return { asked, page };
}

const textOf = (body: string): string => body.replaceAll(/<[^>]*>/g, ' ').replaceAll(/[\s\u00a0]+/g, ' ');

test('a flow shows what has ended, the task, and those that wait for it, each once', async () => {
  const { page, asked } = pageOver([
    info('g#b', 'cut', {
      waits: { signals: 2, order: true, onTimeout: 0 },
      signals: [
        { id: '', queue: 'g#a', pid: bytes('x'), completed: true, data: bytes('secret') },
        { id: '', queue: 'g#a', pid: bytes('y'), completed: false, data: bytes('') },
        { id: 'paid', queue: '', pid: bytes(''), completed: false, data: bytes('') },
      ],
      parents: [parent('g#c', 'film'), parent('g#c', '', 'k', ChildFailure.CHILD_FAILURE_CONTINUE)],
    }),
    info('g#c', 'film', { waits: { signals: 1, order: false, onTimeout: 0 }, parents: [parent('g#d', 'gone')] }),
    info('g#c', 'keyed', {
      key: 'k',
      state: TaskState.TASK_STATE_AVAILABLE,
      parents: [parent('g#c', 'film'), parent('g#b', 'cut')],
    }),
  ]);
  const { status, body } = await page({ queue: 'g#b', pid: 'cut' });
  expect(status).toBe(200);
  const shown = textOf(body);
  for (const row of [
    'g# a x completed',
    'g# a y not completed',
    'g# b cut waiting its order, 2 signals',
    '└ g# c film waiting 1 signal fails',
    '└ g# d gone not found fails',
    '└ g# c keyed available goes on',
  ]) {
    expect(shown).toContain(row);
  }
  expect(body).not.toContain('secret');
  expect(asked.map(({ queue, key }) => `${queue} ${key}`.trim())).toEqual(['g#b down', 'g#c', 'g#c k', 'g#d']);
});

test('a flow shows what a task waits for, each above the one that waits for it', async () => {
  const { page } = pageOver([
    info('g#b', 'film', {
      waits: { signals: 2, order: false, onTimeout: 0 },
      signals: [{ id: '', queue: 'g#a', pid: bytes('x'), completed: true, data: bytes('') }],
      children: [parent('g#a', 'cut'), parent('g#a', 'gone'), parent('g#a', 'song')],
      moreChildren: true,
    }),
    info('g#a', 'cut', {
      waits: { signals: 1, order: false, onTimeout: 0 },
      children: [parent('g#a', 'scene', '', ChildFailure.CHILD_FAILURE_CONTINUE)],
    }),
    info('g#a', 'scene', { state: TaskState.TASK_STATE_LEASED }),
    info('g#a', 'song', { state: TaskState.TASK_STATE_AVAILABLE }),
  ]);
  const shown = textOf((await page({ queue: 'g#b', pid: 'film' })).body);
  const rows = [
    '└ g# a x completed',
    'g# a scene leased goes on',
    '└ g# a cut waiting 1 signal fails',
    '└ g# a song available fails',
    '└ g# b film waiting 2 signals',
    'There may be more tasks for which it waits.',
  ];
  expect(rows.filter((row) => !shown.includes(row))).toEqual([]);
  expect(shown).toContain(rows.slice(1, 5).join(' '));
  expect(shown).not.toContain('gone');
});

test('a flow shows names and errors as text, whatever characters they have', async () => {
  const failure = { failedUnixMs: 1, attempt: 1, workerLabel: '', error: { message: HOSTILE, details: '' } };
  const { page } = pageOver([
    info(`g#${HOSTILE}`, HOSTILE, { parents: [parent(`g#${HOSTILE}`, '', HOSTILE)], failures: [failure] }),
  ]);
  const { body } = await page({ queue: `g#${HOSTILE}`, pid: HOSTILE });
  expect(body).toContain('&lt;img');
  // The form has what was asked for, as it was typed.
  expect(body.replaceAll(/ value="[^"]*"/g, '')).not.toMatch(/<img|\u202e/);
});

test('a flow says what is wrong, and what to give', async () => {
  const { page, asked } = pageOver([]);
  expect(textOf((await page()).body)).toContain('Name a queue, and a PID or a key');
  expect(asked).toEqual([]);
  expect(await page({ queue: 'bad#', pid: 'x' })).toMatchObject({ status: 400 });
  const malformed = await page({ queue: 'g#a', pid: 'hex:zz' });
  expect([malformed.status, textOf(malformed.body)]).toEqual([400, expect.stringContaining('hexadecimal digits')]);
  expect(textOf((await page({ queue: 'g#a', pid: 'none' })).body)).toContain('none not found');
});
