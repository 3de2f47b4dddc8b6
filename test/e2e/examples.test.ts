import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { runExample } from './support.ts';

let node: RunningNode;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node?.[Symbol.asyncDispose]());

test('hello: a task is enqueued, leased, processed and completed', async () => {
  expect(await runExample('hello', [node.endpoint])).toEqual(['hello, world']);
});

test('pipeline: orders move from stage to stage, the urgent one first, each once', async () => {
  const lines = await runExample('pipeline', [node.endpoint]);

  expect(lines.slice(0, 4)).toEqual(['order 1: created', 'order 2: created', 'order 3: created', 'order 1: collapsed']);
  expect(lines.filter((line) => line.startsWith('packed'))).toEqual([
    'packed order 2, clock',
    'packed order 1, lamp',
    'packed order 3, chair',
  ]);
  expect(lines.filter((line) => line.startsWith('shipped')).sort()).toEqual([
    'shipped parcel-1',
    'shipped parcel-2',
    'shipped parcel-3',
  ]);
});

test('traces: one trace has both stages and both attempts', async () => {
  expect(await runExample('traces', [node.endpoint])).toEqual([
    'reading a task of traced#read, in a trace: true',
    'enqueue traced#scan',
    '  process traced#scan, attempt 1, failed: paper jam',
    '    release traced#scan, attempt 1',
    '  process traced#scan, attempt 2',
    '    look at the page',
    '    complete traced#scan, attempt 2',
    '    enqueue traced#read',
    '      process traced#read, attempt 1',
    '        complete traced#read, attempt 1',
  ]);
});

test('events: a page follows one task, and a log goes on where it has stopped', async () => {
  expect(await runExample('events', [node.endpoint])).toEqual([
    'monday: enqueued',
    'monday: leased',
    'monday: progressed, page 1 of 2',
    'monday: progressed, page 2 of 2',
    'monday: completed',
    'news#letter: ann removed',
  ]);
});

test('batch: tasks of one key come together, and each has an outcome of its own', async () => {
  const lines = await runExample('batch', [node.endpoint]);

  expect(lines.filter((line) => /^[op]/.test(line)).toSorted()).toEqual(['orders: 1, 3', 'prices: 20, -1']);
  expect(lines.filter((line) => /^\d/.test(line))).toEqual([
    '1: completed',
    '2: completed',
    '3: completed',
    '4: dead-lettered',
  ]);
});

test('delayed-and-retry: failed attempts are retried up to the last one', async () => {
  const lines = await runExample('attempts/delayed-and-retry', [node.endpoint]);

  expect(lines.filter((line) => line.includes('busy@'))).toEqual([
    'attempt 1 for busy@example.com failed',
    'attempt 2 for busy@example.com failed',
    'attempt 3 for busy@example.com succeeded',
  ]);
  expect(lines.filter((line) => line.includes('nobody@'))).toEqual([
    'attempt 1 for nobody@example.com failed',
    'attempt 2 for nobody@example.com failed',
    'attempt 3 for nobody@example.com failed',
    'gave up nobody@example.com',
  ]);
  expect(lines).toContain('attempt 1 for late@example.com succeeded');
  expect(lines.at(-1)).toBe('the outbox is empty');
});

test('dead-letters: tasks keep why they failed, and go back or away', async () => {
  const lines = await runExample('attempts/dead-letters', [node.endpoint]);

  expect(lines.slice(0, 3)).toEqual([
    'ann@example.com: Error: connect ECONNREFUSED, attempt 2',
    'bob@example.com: Error: connect ECONNREFUSED, attempt 2',
    'nobody: UnrecoverableError: no such address, attempt 1',
  ]);
  expect(lines.slice(3).toSorted()).toEqual([
    '1 task dropped',
    '2 tasks put back',
    'sent to ann@example.com',
    'sent to bob@example.com',
  ]);
});

test('queue-settings: tasks that say nothing follow the settings of their queue', async () => {
  const lines = await runExample('queue-settings', [node.endpoint]);

  expect(lines.filter((line) => line.startsWith('attempt'))).toEqual([
    'attempt 1 of 3 for poison',
    'attempt 2 of 3 for poison',
    'attempt 3 of 3 for poison',
  ]);
  expect(lines).toContain('invoice for ann');
  expect(lines.slice(-3)).toEqual([
    'failed: poison, Error: no such customer',
    'receipts have 5 attempts, then go to billing#failed',
    'billing#invoices has settings',
  ]);
});

test('pause: the worker waits until the queue and its group are resumed', async () => {
  expect((await runExample('pause', [node.endpoint])).toSorted()).toEqual([
    '1 task waits: mail server is down',
    'letters: 0 leased',
    'letters: 1 leased',
    'sent to ann@example.com',
    'still paused by post#*',
  ]);
});

test('worker-run-time: a worker has middleware, is paused, and gets another concurrency while it runs', async () => {
  expect(await runExample('worker-run-time', [node.endpoint])).toEqual([
    'at most 1 at once',
    'with a concurrency of 4, more than one at once: true',
    'paused, and 1 task waits',
    'broken.png: cannot be read',
    'done: 9 completed',
  ]);
});

test('limit: no more tasks run than the limits allow, at once and in a time, and no more wait than the caps', async () => {
  expect(await runExample('limit', [node.endpoint])).toEqual([
    '3 of 4 calls run, and 0 exports',
    '1 call waits for the limit of crm#*',
    '1 export runs',
    '1 more call runs',
    '2 mails are sent in this hour, 1 waits',
    'ann comes back later: 2 reports wait',
    'eve comes back later: 3 reports wait',
    'now run: may for ann, may for bob',
    'ann is busy',
  ]);
});

test('bulk: dead letters with an error go back, and the rest is deleted', async () => {
  expect((await runExample('bulk', [node.endpoint])).toSorted()).toEqual([
    '1 deleted',
    '2 of 3 dead letters had a timeout',
    'delete, retry',
    'done: 2 put back',
    'order of ann',
    'order of bob',
  ]);
});

test('rerun: a change during a run is one more run, which continues where it stopped', async () => {
  expect(await runExample('attempts/rerun', [node.endpoint])).toEqual([
    'indexing version 1, from the start',
    'version 3: rerun',
    'indexing version 3, from the start',
    'indexing version 3, from paragraph 4',
    '0 tasks left',
  ]);
});

test('checkpoint: each attempt continues where the last one stopped', async () => {
  expect(await runExample('attempts/checkpoint', [node.endpoint])).toEqual([
    'attempt 1 begins with page 0',
    'attempt 2 begins with page 2',
    'dead letter with 10 bytes of checkpoint',
    'attempt 1 begins with page 4',
    '7 pages exported',
  ]);
});

test('worker-dies: only what it had begun has failed', async () => {
  expect((await runExample('attempts/worker-dies', [node.endpoint])).toSorted()).toEqual([
    'a: attempt 2, 0 interruptions before',
    'b: attempt 2, 0 interruptions before',
    'c: attempt 1, 1 interruptions before',
  ]);
});

test('headers: the stages of a pipeline pass them on', async () => {
  expect(await runExample('headers', [node.endpoint])).toEqual([
    'order 1 of acme',
    'order 2 of globex',
    'acme: 8 bytes, trace c0ffee',
    'globex: 7 bytes, trace facade',
  ]);
});

test('sharded: a queue of several shards is one queue, also while their number changes', async () => {
  expect(await runExample('sharded', [node.endpoint])).toEqual([
    'order 7 again: collapsed',
    '20 orders in 4 shards',
    '40 orders done, 40 mails to send',
  ]);
});

test('results: the result of a task before and after it ends, and the end of a task that fails', async () => {
  expect(await runExample('results', [node.endpoint])).toEqual([
    'the total is 170',
    'completed after 1 attempt',
    'dead-lettered: UnrecoverableError: no such order',
  ]);
});

test('spread: all clusters get a part of the tasks, and one worker has them all', async () => {
  await using other = await startNode();
  for (const endpoints of [[node.endpoint], [node.endpoint, other.endpoint]]) {
    expect(await runExample('spread', endpoints)).toEqual(['6 documents in 2 queues', '6 documents converted']);
  }
});

test('fair-tenants: a busy tenant keeps no other waiting, and a weight counts', async () => {
  expect(await runExample('fair-tenants', [node.endpoint])).toEqual([
    'of the first 20: busy 5, ann 5, gold 10',
    'late: 5 of 5',
    'of the first 6 exports: busy 2, gold 4',
  ]);
});

test('schedule: tasks come again and again, and each run once', async () => {
  expect(await runExample('schedule', [node.endpoint])).toEqual([
    'check: created',
    'check: unchanged',
    'the next report is at 09:00:00',
    'first run of check',
    '1 s later',
    '1 s later',
    'a paused schedule can be triggered: true',
    'schedule#check: at least 3 runs',
    'schedule#report: 0 runs, paused',
  ]);
});

test('cancel: a task that waits goes at once, and the handler of one that runs is told', async () => {
  expect(await runExample('attempts/cancel', [node.endpoint])).toEqual([
    'the task that waited: cancelled',
    'long: working',
    'long: stopping, the customer has left',
    'long: cancelled after 1 attempt',
  ]);
});

test('start-by: tasks that nobody has leased in time do not run, and those who wait are told', async () => {
  expect(await runExample('attempts/start-by', [node.endpoint])).toEqual([
    'ann: cancelled, not started in time',
    'bob: dead-lettered, not started in time',
    'eve: attempt 1',
  ]);
});

test('kinds: workers get the kinds and versions that they can run', async () => {
  expect(await runExample('kinds', [node.endpoint])).toEqual([
    'old: resize@1 of b.png',
    'new: resize@2 of a.png',
    'new: thumb@1 of c.png',
  ]);
});

test('flow: tasks wait for others, for a signal that came before, and for their order', async () => {
  expect(await runExample('flow', [node.endpoint])).toEqual([
    'film: completed, ["cut of 7","sound of 7"]',
    'order: [{"paid":true}]',
    'changes: open',
    'changes: pay in',
    'changes: close',
  ]);
});

test('order-stages: a request gets the end of an order after four stages, good or bad', async () => {
  expect(await runExample('order-stages', [node.endpoint])).toEqual([
    'order 7: 200 check, pay, pack, ship',
    'order 13: 500 a task that it waits for failed, mill#pack order-13: a task that it waits for failed, mill#pay order-13: Error: the card was refused',
  ]);
});

test('time-limit: attempts that take too long have failed, whether or not their handlers stop', async () => {
  const lines = await runExample('attempts/time-limit', [node.endpoint]);
  // The report of an attempt and the begin of the next one come in any order: the worker and the node both know the limit.
  const attemptsOf = (name: string) =>
    lines.filter((line) => line.startsWith(`${name}: `) && !line.includes('exceeded'));
  const exceededBy = (name: string) =>
    lines.filter((line) => line.startsWith(`${name}: `) && line.includes('exceeded'));
  expect(attemptsOf('slow')).toEqual([
    'slow: attempt 1, at most 300 ms',
    'slow: attempt 2, at most 300 ms',
    'slow: attempt 3, at most 300 ms',
    'slow: done in attempt 3',
  ]);
  expect(exceededBy('slow')).toEqual(Array(2).fill('slow: the attempt exceeded its time limit of 300 ms'));
  expect(attemptsOf('hanging')).toEqual([
    'hanging: attempt 1, at most 1000 ms',
    'hanging: attempt 2, at most 1000 ms',
    'hanging: attempt 3, at most 1000 ms',
    'hanging: done in attempt 3',
  ]);
  expect(exceededBy('hanging')).toEqual(['hanging: the attempt exceeded its time limit of 1000 ms']);
});

test('topics: a published task goes to all queues whose filters it passes, and to every worker', async () => {
  expect(await runExample('topics', [node.endpoint])).toEqual([
    'order 1: topics#billing, topics#shipping',
    'order 2: topics#billing',
    'topics#billing: order 1',
    'topics#billing: order 2',
    'topics#shipping: order 1',
    'a drops prices',
    'b drops prices',
    '0 subscriptions left',
  ]);
});

test('in-memory: an attempt follows the clock of the program', async () => {
  expect(await runExample('in-memory', [])).toEqual([
    'after 59 minutes: 1 delayed',
    '2030-01-01T01:00:00.000Z attempt 1 for ann@example.com',
    '2030-01-01T01:00:00.000Z attempt 2 for ann@example.com',
    '2030-01-01T01:00:00.000Z attempt 3 for ann@example.com',
    'after an hour: 0 delayed',
  ]);
});

test('embedded: the next run finds the tasks that a run has left', async () => {
  await using directory = await temporaryDirectory();

  expect(await runExample('embedded', [directory.path])).toEqual([expect.stringMatching(/^process \d+ leaves 1 job$/)]);
  expect(await runExample('embedded', [directory.path])).toEqual([
    expect.stringMatching(/^finishing the job that process \d+ has left$/),
    expect.stringMatching(/^process \d+ leaves 1 job$/),
  ]);
});
