import { startCli } from '@taskmaster/cli/testing';
import { connect, type FlowHandle } from '@taskmaster/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestNode } from '../client/support/test-node.ts';

let server: TestNode;
beforeAll(async () => {
  server = await TestNode.start();
});
afterAll(() => server.kill());

function enqueueFlow(document: string | object, ...more: readonly string[]) {
  const running = startCli(server.endpoint, ['flow', 'enqueue', '-', ...more]);
  running.type(typeof document === 'string' ? document : JSON.stringify(document));
  running.endInput();
  return running.ended;
}

test('flow enqueue enqueues the tasks of a document, which wait for each other and can be awaited', async () => {
  await using client = await connect(server.endpoint);
  const film = { name: 'film', queue: 'f#films', payload: 'base64:AAE=', after: ['cut', 'sound'], collect: true };
  const tasks = [
    { ...film, key: 'film-7', headers: { by: 'ann' }, timeLimit: '5m', orderKey: 'o', signals: 1, timeout: 60_000 },
    { name: 'cut', queue: 'f#cuts', data: { video: 7 }, pid: 'a', retry: { maxAttempts: 'unlimited' }, kind: 'cut@1' },
    { name: 'sound', queue: 'f#cuts', data: null, pid: 'hex:62', onFailure: 'continue', runAt: '2001-01-01T00:00Z' },
  ];
  const { code, stdout, stderr } = await enqueueFlow({ tasks }, '--json');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const flow = JSON.parse(stdout) as FlowHandle;
  expect(flow.tasks).toMatchObject([
    { name: 'film', queue: 'f#films', result: 'created', isLast: true },
    { name: 'cut', queue: 'f#cuts', pid: 'a', result: 'created', isLast: false },
    { name: 'sound', queue: 'f#cuts', pid: 'b', result: 'created', isLast: false },
  ]);
  const cuts = client.queue('f#cuts');
  const leased = await cuts.lease({ max: 9 });
  expect(leased.map(({ data, kind }) => [data, kind])).toEqual([
    [{ video: 7 }, 'cut@1'],
    [null, undefined],
  ]);
  const films = client.queue('f#films');
  const ends = client.waitForFlow(flow, { timeout: '1m' });
  for (const task of leased) await task.complete();
  expect(await films.lease()).toEqual([]);
  expect(await films.signal({ key: 'film-7' })).toBe('signalled');
  const [last] = await films.lease();
  expect([last?.bytes, last?.headers, last?.timeLimitMs]).toEqual([Buffer.of(0, 1), { by: 'ann' }, 300_000]);
  await last?.complete();
  expect((await ends).get('film')?.outcome).toBe('completed');
});

function waitForFlow(handle: string | object, ...more: readonly string[]) {
  const running = startCli(server.endpoint, ['flow', 'wait', '-', ...more]);
  running.type(typeof handle === 'string' ? handle : JSON.stringify(handle));
  running.endInput();
  return running.ended;
}

test('flow wait shows how the last tasks of a flow have ended, and fails if one has failed', async () => {
  await using client = await connect(server.endpoint);
  const tasks = [
    { name: 'first', queue: 'w#a', data: 1, pid: '1' },
    { name: 'good', queue: 'w#b', data: 2, pid: '2', after: 'first' },
    { name: 'bad', queue: 'w#c', data: 3, pid: '3', after: 'first' },
  ];
  const handle = (await enqueueFlow({ tasks }, '--json')).stdout;
  expect(await waitForFlow(handle, '--for', '1ms')).toMatchObject({
    code: 4,
    stdout: '',
    stderr: 'stdin: the flow has not ended within 1ms\n',
  });
  const waiting = [waitForFlow(handle), waitForFlow(handle, '--json')];
  const next = async (queue: string) => (await client.queue(queue).lease({ wait: '10s' }))[0];
  await (await next('w#a'))?.complete();
  await (await next('w#b'))?.complete({ result: 'fine' });
  await (await next('w#c'))?.deadLetter('broken');
  const [lines, json] = await Promise.all(waiting);
  expect(lines).toEqual({
    code: 1,
    stdout: 'completed  w#b  2  good  "fine"\ndead-lettered  w#c  3  bad  broken\n',
    stderr: '',
  });
  expect(
    json?.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toMatchObject([
    { name: 'good', queue: 'w#b', pid: '2', outcome: 'completed', result: '"fine"', attempts: 1 },
    { name: 'bad', queue: 'w#c', pid: '3', outcome: 'dead-lettered', error: 'broken' },
  ]);
  const good = { tasks: JSON.parse(handle).tasks.filter(({ name }: { name: string }) => name !== 'bad') };
  expect((await waitForFlow(good)).code).toBe(0);
  const gone = { tasks: [{ name: 'gone', queue: 'w#x', pid: '9', result: 'created', isLast: true }] };
  expect(await waitForFlow(gone)).toMatchObject({ code: 4, stdout: 'unknown  w#x  9  gone\n' });
});

test.each([
  ['text that is not JSON', '{', /^taskmaster: USAGE: stdin: it is not JSON/],
  ['no list', {}, /stdin: tasks: it is not a list/],
  [
    'no last task',
    { tasks: [{ name: 'a', queue: 'q', pid: 'p', result: 'created', isLast: false }] },
    /no task of it is the last one/,
  ],
  ['a task without a PID', { tasks: [{ name: 'a', queue: 'q', isLast: true }] }, /stdin: task 1: pid: it is missing/],
  ['a document instead of a handle', { tasks: [{ name: 'a', queue: 'q', data: 1 }] }, /task 1: pid: it is missing/],
])('flow wait refuses %s', async (_what, handle, message) => {
  const { code, stdout, stderr } = await waitForFlow(handle);
  expect(stderr).toMatch(message);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});

test('flow enqueue says what became of each task', async () => {
  const tasks = [
    { name: 'one', queue: 'g#a', data: 1, pid: '1' },
    { name: 'two', queue: 'g#a', data: 2, pid: '2', after: 'one' },
  ];
  expect(await enqueueFlow({ tasks })).toMatchObject({
    code: 0,
    stdout: 'created  g#a  2  two  last\ncreated  g#a  1  one\n',
  });
  expect((await enqueueFlow({ tasks })).stdout).toBe('collapsed  g#a  2  two  last\ncollapsed  g#a  1  one\n');
});

const one = { name: 'one', queue: 'm#a', data: 1 };
const deep = '['.repeat(200_000) + ']'.repeat(200_000);
const two = (more: object) => ({ tasks: [one, { name: 'two', queue: 'm#a', data: 2, ...more }] });

test.each([
  ['text that is not JSON', '{"tasks": [', /^taskmaster: USAGE: stdin: it is not JSON: /],
  ['something else than an object', [one], /stdin: \[\{.* is no object/],
  ['no list', { tasks: 7 }, /stdin: tasks: it is not a list/],
  ['no tasks', { tasks: [] }, /stdin: the flow has no tasks/],
  ['a field that there is not', { task: [one] }, /stdin: flow: there is no task, did you mean tasks\?/],
  ['a task that is none', { tasks: [null] }, /stdin: task 1: null is no object/],
  ['a task without a name', { tasks: [{ queue: 'm#a', data: 1 }] }, /stdin: task 1: name: it is missing/],
  ['a task without a queue', { tasks: [{ name: 'one', data: 1 }] }, /task 1 'one': queue: it is missing/],
  ['a queue without a name', { tasks: [{ ...one, queue: 'm#' }] }, /queue: The name of a queue must not be empty\n/],
  ['a queue with two #', { tasks: [{ ...one, queue: 'm#a#b' }] }, /'one': .*more than one #/],
  ['neither data nor payload', { tasks: [{ name: 'one', queue: 'm#a' }] }, /task 1 'one': give data or payload/],
  ['data and payload', two({ payload: 'x' }), /task 2 'two': give data or payload, one of them/],
  ['a payload that is malformed', { tasks: [{ ...one, data: undefined, payload: 'hex:0g' }] }, /payload: 'hex:0g'/],
  ['a misspelt option', two({ afer: 'one' }), /task 2 'two': flow: there is no afer, did you mean after\?/],
  ['two tasks of one name', { tasks: [one, one] }, /task 2 'one': flow: two tasks have the name 'one'/],
  ['an unknown name', two({ after: ['one', 'three'] }), /'two' waits for 'three', which is not in it/],
  ['names that are none', two({ after: [1] }), /task 2 'two': after: 1 is no text/],
  [
    'a circle',
    { tasks: [{ ...one, after: 'two' }, ...two({ after: 'one' }).tasks.slice(1)] },
    /stdin: flow: tasks wait for each other: one after two after one/,
  ],
  ['a task that waits for itself', two({ after: 'two' }), /two after two/],
  ['less than no signals', two({ signals: -1 }), /task 2 'two': .*signals: -1 is not a whole number from 0/],
  [
    'a policy that there is not',
    two({ onFailure: 'ignore' }),
    /onFailure: 'ignore' is not 'fail', 'continue' or 'retry'/,
  ],
  ['collect without a wait', two({ collect: true }), /'two': timeout, onTimeout and collect go with after or signals/],
  ['a flag that is none', two({ after: 'one', collect: 'yes' }), /collect: "yes" is neither true nor false/],
  [
    'an action at a timeout that there is not',
    two({ after: 'one', timeout: '1m', onTimeout: 'toString' }),
    /'two': waitsFor.onTimeout: 'toString' is not 'dead-letter', 'run' or 'cancel'/,
  ],
  ['a task that is a very deep list', `{"tasks":[${deep}]}`, /stdin: task 1: a very deep value is no object/],
  ['a timeout of zero', two({ after: 'one', timeout: 0 }), /'two': waitsFor.timeout: it is at least 1ms/],
  ['a time that is none', two({ delay: 'soon' }), /'two': delay: 'soon' is not a number of ms or text/],
  ['a date without a zone', two({ runAt: '2030-01-01T09:00' }), /runAt: '2030-01-01T09:00' is not a time with a zone/],
  ['no attempts', two({ retry: { maxAttempts: 0 } }), /'two': retry.maxAttempts: 0 is not a whole number from 1/],
  ['headers that are none', two({ headers: ['a'] }), /headers: \["a"\] is no object/],
  ['a PID that is none', two({ pid: 7 }), /pid: 7 is no text/],
])('flow enqueue refuses %s before it sends anything', async (_what, document, message) => {
  const sent = server.updates.length;
  const { code, stdout, stderr } = await enqueueFlow(document);
  expect(stderr).toMatch(message);
  expect({ code, stdout, sent: server.updates.length }).toEqual({ code: 2, stdout: '', sent });
});

test('flow enqueue refuses queues of two groups, and a task that is in its queue already and not of this flow', async () => {
  const mixed = await enqueueFlow({ tasks: [one, { name: 'two', queue: 'n#a', data: 2 }] });
  expect([mixed.code, mixed.stderr]).toEqual([1, expect.stringContaining('MIXED_GROUPS')]);
  const tasks = [{ ...one, queue: 'x#a', pid: '1' }];
  expect((await enqueueFlow({ tasks })).code).toBe(0);
  const again = await enqueueFlow({ tasks: [...tasks, { name: 'two', queue: 'x#a', data: 2, after: 'one' }] });
  expect([again.code, again.stderr]).toEqual([
    1,
    expect.stringMatching(/^taskmaster: TASK_EXISTS: 1 of x#a: .*; another task has this name/),
  ]);
});
