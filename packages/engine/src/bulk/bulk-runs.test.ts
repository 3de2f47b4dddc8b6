import { BulkAction, BulkRunState, BulkTasks, limits, parseQueueName, WhenFull } from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import { withHeaders } from '../domain/headers.ts';
import { pidOfTaskKey } from '../domain/keys.ts';
import { Family, type Store } from '../ports/store.ts';
import { aBulkSpec, bulkRunOf, cancelBulk, startBulk } from '../testing/bulk-runs.ts';
import { EngineHarness, type EnqueueSpec, engineHarness, pidsOf } from '../testing/engine-harness.ts';
import { putSettings } from '../testing/put-settings.ts';

const { BULK_ACTION_RETRY, BULK_ACTION_MOVE } = BulkAction;
const { BULK_ACTION_CANCEL, BULK_ACTION_RESCHEDULE, BULK_ACTION_PROMOTE } = BulkAction;
const { BULK_TASKS_AVAILABLE, BULK_TASKS_DELAYED, BULK_TASKS_LEASED, BULK_TASKS_DEAD_LETTERS } = BulkTasks;
const { BULK_RUN_STATE_RUNNING, BULK_RUN_STATE_DONE, BULK_RUN_STATE_CANCELLED, BULK_RUN_STATE_FAILED } = BulkRunState;

const QUEUE = 'shop#mail';
const DEAD = 'shop#mail.dead';
const HOUR = 3_600_000;

type Spec = Parameters<typeof startBulk>[2];

/** Starts a run and lets it end. */
async function runOf(h: EngineHarness, queues: string, spec: Spec, id = 'run') {
  await startBulk(h.engine, queues, spec, id);
  await h.clock.advance(200);
  return bulkRunOf(h.engine, parseQueueName(queues).group, id);
}

/** Lets the only attempt at new tasks of the queue fail. */
async function die(h: EngineHarness, queue: string, tasks: Readonly<Record<string, string>>): Promise<void> {
  const retry = { maxAttempts: 1 };
  for (const [pid, error] of Object.entries(tasks)) {
    await h.update({ enqueue: [{ queue, pid, data: `data of ${pid}`, retry }] });
    const [task] = await h.lease(queue);
    await h.update({ release: [{ queue, pid, token: task?.token, error }] });
  }
}

/** The PIDs of all tasks of a queue. */
async function pidsIn(h: EngineHarness, queue: string): Promise<string[]> {
  const seen = new Set<string>();
  for (const kind of ['head', 'leased', 'delayed'] as const) {
    const peek = { queue: parseQueueName(queue), kind, limit: 1000, includeData: false };
    for (const { pid } of await h.engine.peekTasks(peek)) seen.add(pid);
  }
  return [...seen].sort();
}

const numbered = (count: number): string[] => Array.from({ length: count }, (_, at) => String(at).padStart(6, '0'));

describe('an action', () => {
  test('retry puts dead letters back where they came from, and leaves other tasks alone', async () => {
    await using h = await engineHarness();
    await die(h, QUEUE, { a: 'timeout', b: 'no such user' });
    await die(h, 'shop#bills', { c: 'Timeout of the bank' });
    await h.enqueue(DEAD, ['own']);
    const run = await runOf(h, 'shop#*.dead', {
      action: BULK_ACTION_RETRY,
      filter: { errorContains: 'timeout' },
    });
    expect(run).toMatchObject({ state: BULK_RUN_STATE_DONE, changed: 2, lookedAt: 4, tasks: 4, skipped: [] });
    expect(await pidsIn(h, QUEUE)).toEqual(['a']);
    expect(await pidsIn(h, 'shop#bills')).toEqual(['c']);
    expect(await pidsIn(h, DEAD)).toEqual(['b', 'own']);
    const [task] = await h.lease(QUEUE);
    expect([task?.attempt, Buffer.from(task?.data ?? '').toString()]).toEqual([1, 'data of a']);
  });

  test('move takes tasks along as they are, and says which PIDs were taken', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'a', data: 'from mail', delay: HOUR, key: 'k' }] });
    await h.enqueue(QUEUE, ['b', 'c']);
    await h.enqueue('shop#later', ['b']);
    const run = await runOf(h, 'shop#*', { action: BULK_ACTION_MOVE, target: 'shop#later' });
    expect(run).toMatchObject({ changed: 2, skipped: [{ reason: 'TASK_EXISTS', tasks: 1 }], lookedAt: 3 });
    expect(await pidsIn(h, QUEUE)).toEqual(['b']);
    expect(await h.counts('shop#later')).toEqual({ available: 2, leased: 0, delayed: 1 });
    await h.crash();
    const command = { queue: parseQueueName('shop#later'), pids: [], keys: ['k'], includeData: true };
    const [found] = await h.engine.getTasks(command);
    expect([found?.pid, Buffer.from(found?.data ?? '').toString()]).toEqual(['a', 'from mail']);
  });

  test('move keeps a dead letter one that can be put back', async () => {
    await using h = await engineHarness();
    await die(h, QUEUE, { a: 'timeout' });
    await runOf(h, DEAD, { action: BULK_ACTION_MOVE, target: 'shop#archive' });
    await runOf(h, 'shop#archive', { action: BULK_ACTION_RETRY }, 'back');
    expect(await pidsIn(h, QUEUE)).toEqual(['a']);
  });

  test('move creates no queue for which the node has no room', async () => {
    await using h = await engineHarness({ config: { maxQueues: 1 } });
    await h.enqueue(QUEUE, ['a']);
    const run = await runOf(h, QUEUE, { action: BULK_ACTION_MOVE, target: 'shop#new' });
    expect(run).toMatchObject({ changed: 0, skipped: [{ reason: 'TOO_MANY_QUEUES', tasks: 1 }] });
    expect(await pidsIn(h, QUEUE)).toEqual(['a']);
  });

  test.each([
    ['that refuses more leaves the others where they are', WhenFull.WHEN_FULL_REFUSE, 3],
    ['that drops tasks takes them beyond its cap, because a move loses none', WhenFull.WHEN_FULL_DROP_OLDEST, 5],
    ['that drops new tasks does, too', WhenFull.WHEN_FULL_DROP_NEWEST, 5],
  ])('move to a full queue %s', async (_what, whenFull, expected) => {
    await using h = await engineHarness();
    await putSettings(h.engine, 'shop#new', { maxBacklog: 3, whenFull });
    await h.enqueue(QUEUE, ['a', 'b', 'c', 'd']);
    await h.enqueue('shop#new', ['x']);
    const run = await runOf(h, QUEUE, { action: BULK_ACTION_MOVE, target: 'shop#new' });
    const skipped = expected === 5 ? [] : [{ reason: 'BACKLOG_FULL', tasks: 2 }];
    expect(run).toMatchObject({ changed: expected - 1, skipped });
    expect(await pidsIn(h, 'shop#new')).toHaveLength(expected);
    expect(await pidsIn(h, QUEUE)).toHaveLength(5 - expected);
  });

  test('delete removes waiting tasks, and leaves leased ones to their workers', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b', 'c']);
    const [leased] = await h.lease(QUEUE);
    const run = await runOf(h, QUEUE, {});
    expect(run).toMatchObject({ changed: 2, skipped: [{ reason: 'TASK_LEASED', tasks: 1 }] });
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'a', token: leased?.token }] });
    expect(await pidsIn(h, QUEUE)).toEqual([]);
  });

  test('delete finds a task whose last attempt is over where it is then', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'a', retry: { maxAttempts: 1 } }] });
    await h.lease(QUEUE, { for: 1000 });
    await h.clock.advance(1000);
    expect(await runOf(h, QUEUE, {})).toMatchObject({ changed: 0, lookedAt: 0 });
    expect(await pidsIn(h, DEAD)).toEqual(['a']);
  });

  test('cancel removes waiting tasks, marks leased ones, and says why', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b']);
    const [leased] = await h.lease(QUEUE, { for: HOUR });
    const run = await runOf(h, QUEUE, { action: BULK_ACTION_CANCEL, cancelReason: 'gone' });
    expect(run).toMatchObject({ changed: 2, skipped: [] });
    const { renewed } = await h.update({ renew: [{ queue: QUEUE, pid: 'a', token: leased?.token, for: 1 }] });
    expect(renewed[0]?.cancelReason).toBe('gone');
    expect(await h.waitFor(QUEUE, ['b'])).toMatchObject([{ end: { outcome: 'cancelled', cancelReason: 'gone' } }]);
  });

  test('reschedule hides waiting tasks for a time or until an instant, and promote shows delayed ones', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b']);
    await runOf(h, QUEUE, { action: BULK_ACTION_RESCHEDULE, delayMs: 1000 });
    expect(await h.counts(QUEUE)).toEqual({ available: 0, leased: 0, delayed: 2 });
    await h.clock.advance(1000);
    expect(await h.counts(QUEUE)).toEqual({ available: 2, leased: 0, delayed: 0 });
    const at = h.clock.now() + HOUR;
    await runOf(h, QUEUE, { action: BULK_ACTION_RESCHEDULE, runAtUnixMs: at }, 'at');
    const view = { queue: parseQueueName(QUEUE), pids: ['a' as never], includeData: false };
    expect((await h.engine.getTasks(view))[0]?.state?.visibility).toEqual({ kind: 'hidden', until: at });
    await h.enqueue(QUEUE, ['c']);
    expect(await runOf(h, QUEUE, { action: BULK_ACTION_PROMOTE }, 'now')).toMatchObject({ changed: 2, lookedAt: 3 });
    expect(await h.counts(QUEUE)).toEqual({ available: 3, leased: 0, delayed: 0 });
  });
});

/** Age of the oldest tasks, in ms. */
const AGE = 10_000;
const ALL_BUT_TENANT = ['dead', 'held', 'later', 'new', 'old'];

describe('a filter', () => {
  const withHeader = (pid: string, headers: Record<string, string>): EnqueueSpec => {
    const { data, headerBytes } = withHeaders(headers, Buffer.from('x'));
    return { queue: QUEUE, pid, data: Buffer.from(data).toString('latin1'), headerBytes };
  };

  test.each([
    ['by state', { tasks: BULK_TASKS_AVAILABLE }, ['dead', 'new', 'old', 'tenant']],
    ['by a delay', { tasks: BULK_TASKS_DELAYED }, ['later']],
    ['by a lease', { tasks: BULK_TASKS_LEASED }, ['held']],
    ['for dead letters', { tasks: BULK_TASKS_DEAD_LETTERS }, ['dead']],
    ['by age', { minAgeMs: AGE }, ['held', 'old']],
    ['by youth', { maxAgeMs: 1000 }, ['dead', 'later', 'new', 'tenant']],
    ['by both', { minAgeMs: 500, maxAgeMs: AGE / 2 }, []],
    ['by an error', { errorContains: 'FULL' }, ['dead']],
    [
      'by a header',
      { headers: { all: [{ key: 't', test: { $case: 'in', value: { values: ['acme'] } } }] } },
      ['tenant'],
    ],
    [
      'by a missing header',
      { headers: { all: [{ key: 't', test: { $case: 'exists', value: false } }] } },
      ALL_BUT_TENANT,
    ],
    ['by the beginning of a key', { keyPrefix: 'order-1' }, ['new']],
  ] as const)('chooses tasks %s', async (_how, filter, expected) => {
    await using h = await engineHarness({ config: { cacheBytes: 1 } });
    await h.enqueue(QUEUE, ['held', 'old']);
    await h.lease(QUEUE, { for: HOUR });
    await h.clock.advance(AGE);
    await die(h, 'shop#bills', { dead: 'the disk is full' });
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'later', delay: HOUR }] });
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'new', key: 'order-17' }, withHeader('tenant', { t: 'acme' })] });
    const command = { queues: parseQueueName('shop#*'), spec: aBulkSpec({ filter: filter as never }) };
    for (const restart of [false, true]) {
      if (restart) await h.crash();
      const preview = await h.engine.bulkRuns.preview(command);
      expect(preview.samples.map(({ pid }) => pid).sort()).toEqual(expected);
      expect(preview).toMatchObject({ queues: 2, tasks: 6, lookedAt: 6, matched: expected.length });
    }
    await runOf(h, 'shop#*', { action: BULK_ACTION_CANCEL, filter: filter as never });
    const changed = (await bulkRunOf(h.engine, 'shop'))?.changed;
    expect(changed).toBe(expected.length);
  });
});

describe('a run', () => {
  test('leaves tasks alone that come after its start, also the dead letters of tasks that it has put back', async () => {
    await using h = await engineHarness();
    await die(h, QUEUE, { a: 'x', b: 'x', c: 'x' });
    await h.clock.advance(1);
    await startBulk(h.engine, 'shop#*', { action: BULK_ACTION_RETRY, rate: 10 });
    await h.clock.advance(100);
    expect(await pidsIn(h, QUEUE)).toEqual(['a']);
    // It dies again, and the run has not come so far.
    const [again] = await h.lease(QUEUE, { maxPid: 'a' });
    await die(h, QUEUE, { d: 'x' });
    await h.update({ release: [{ queue: QUEUE, pid: 'a', token: again?.token, error: 'x', deadLetter: true }] });
    await h.clock.advance(1000);
    expect(await bulkRunOf(h.engine, 'shop')).toMatchObject({ state: BULK_RUN_STATE_DONE, changed: 3 });
    expect(await pidsIn(h, DEAD)).toEqual(['a', 'd']);
    expect(await pidsIn(h, QUEUE)).toEqual(['b', 'c']);
  });

  test('keeps its rate, and ends after its number of tasks', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, numbered(200));
    await startBulk(h.engine, QUEUE, { rate: 50, maxTasks: 120 });
    const counts: number[] = [];
    for (let second = 0; second < 4; second++) {
      await h.clock.advance(1000);
      counts.push(200 - (await h.counts(QUEUE)).available);
    }
    expect(counts).toEqual([50, 100, 120, 120].map((count) => expect.toBeOneOf([count, count + 5])));
    expect(await bulkRunOf(h.engine, 'shop')).toMatchObject({ state: BULK_RUN_STATE_DONE, changed: 120 });
  });

  test('is one run for each id: again is the same, and something else is refused', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    expect(await startBulk(h.engine, QUEUE, { rate: 1 })).toBe(true);
    expect(await startBulk(h.engine, QUEUE, { rate: 1 })).toBe(false);
    await expect(startBulk(h.engine, QUEUE, { rate: 2 })).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
    await expect(startBulk(h.engine, DEAD, { rate: 1 })).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
    await h.clock.advance(100);
    expect(await startBulk(h.engine, QUEUE, { rate: 1 })).toBe(false);
    expect(await h.engine.bulkRuns.list('shop')).toHaveLength(1);
  });

  test('changes nothing more after it was cancelled, also after a crash', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b', 'c']);
    await startBulk(h.engine, QUEUE, { rate: 10 });
    await h.clock.advance(100);
    expect(await cancelBulk(h.engine, 'shop')).toBe(true);
    expect(await cancelBulk(h.engine, 'shop')).toBe(false);
    expect(await cancelBulk(h.engine, 'shop', 'another')).toBe(false);
    const left = await pidsIn(h, QUEUE);
    await h.crash();
    await h.clock.advance(5000);
    expect(await pidsIn(h, QUEUE)).toEqual(left);
    const run = await bulkRunOf(h.engine, 'shop');
    expect(run).toMatchObject({ state: BULK_RUN_STATE_CANCELLED, changed: 3 - left.length });
  });

  test('tells its end once when it is on disk, done, cancelled or failed, also after a crash', async () => {
    const told: unknown[] = [];
    const onBulkRunEnd = ({ id, state, changed }: { id: string; state: BulkRunState; changed: number }) =>
      void told.push([id, state, changed]);
    await using h = await engineHarness({ onBulkRunEnd, syncMs: 10 });
    const run = (promise: Promise<unknown>) => h.clock.run(promise);
    await run(h.enqueue(QUEUE, ['a', 'b', 'c']));
    await run(startBulk(h.engine, QUEUE, { rate: 10 }, 'cancelled'));
    const cancelled = cancelBulk(h.engine, 'shop', 'cancelled');
    await h.clock.advance(1);
    expect(told).toEqual([]);
    await run(cancelled);
    expect(await h.clock.run(cancelBulk(h.engine, 'shop', 'cancelled'))).toBe(false);
    const [ended] = told;
    expect(ended).toEqual(['cancelled', BULK_RUN_STATE_CANCELLED, expect.any(Number)]);
    await run(startBulk(h.engine, QUEUE, { action: 99 as BulkAction }, 'failed'));
    await run(startBulk(h.engine, QUEUE, { rate: 10 }, 'done'));
    await h.clock.advance(150);
    await h.crash();
    await h.clock.advance(5000);
    const left = 3 - (ended as [string, number, number])[2];
    expect(told.slice(1).toSorted()).toEqual([
      ['done', BULK_RUN_STATE_DONE, left],
      ['failed', BULK_RUN_STATE_FAILED, 0],
    ]);
  });

  test('goes a week after its end, and earlier if the group has too many runs', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    for (let at = 0; at < limits.bulkRuns; at++) await startBulk(h.engine, 'shop#none', {}, `run ${at}`);
    await h.clock.advance(500);
    await startBulk(h.engine, QUEUE, { rate: 1 }, 'one more');
    expect(await h.engine.bulkRuns.list('shop')).toHaveLength(limits.bulkRuns);
    await h.clock.advance(1000);
    h.lose();
    // Without timers, because a week has very many of them.
    await h.clock.advance(limits.bulkRunRetentionMs);
    await h.open();
    await h.clock.advance(1000);
    expect(await h.engine.bulkRuns.list('shop')).toEqual([]);
  });

  test('is refused while as many go on as a group may have', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, numbered(1000));
    for (let at = 0; at < limits.bulkRuns; at++) {
      await startBulk(h.engine, QUEUE, { rate: 1, filter: { tasks: BULK_TASKS_DELAYED } }, `run ${at}`);
    }
    await expect(startBulk(h.engine, QUEUE, {}, 'one more')).rejects.toMatchObject({ reason: 'TOO_MANY_ITEMS' });
  });

  test('says who started it, and how far it is', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b']);
    const startedUnixMs = h.clock.now();
    await startBulk(h.engine, 'shop#m*', { rate: 1 });
    const begun = { id: 'run', queues: 'shop#m*', startedBy: 'ann', startedUnixMs, tasks: 2, endedUnixMs: 0 };
    expect(await bulkRunOf(h.engine, 'shop')).toMatchObject({ ...begun, state: BULK_RUN_STATE_RUNNING, lookedAt: 0 });
    await h.clock.advance(5000);
    const run = await bulkRunOf(h.engine, 'shop');
    expect(run).toMatchObject({ state: BULK_RUN_STATE_DONE, lookedAt: 2, changed: 2, problem: '' });
    expect(run?.endedUnixMs).toBeGreaterThan(startedUnixMs);
  });

  test('waits on a full disk, unless it frees space', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b']);
    await startBulk(h.engine, QUEUE, { action: BULK_ACTION_RESCHEDULE, delayMs: HOUR });
    await startBulk(h.engine, 'shop#other', {}, 'deletes');
    h.disk.space = 'short';
    await h.clock.advance(1000);
    expect(await bulkRunOf(h.engine, 'shop')).toMatchObject({ state: BULK_RUN_STATE_RUNNING, changed: 0 });
    expect(await bulkRunOf(h.engine, 'shop', 'deletes')).toMatchObject({ state: BULK_RUN_STATE_DONE });
    h.disk.space = 'plenty';
    await h.clock.advance(1000);
    expect(await bulkRunOf(h.engine, 'shop')).toMatchObject({ state: BULK_RUN_STATE_DONE, changed: 2 });
  });

  test('that deletes can be started on a full disk, and no other', async () => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a', 'b']);
    h.disk.space = 'short';
    await h.clock.advance(1000);
    const other = startBulk(h.engine, QUEUE, { action: BULK_ACTION_PROMOTE });
    await expect(other).rejects.toMatchObject({ reason: 'DISK_FULL' });
    expect(await runOf(h, QUEUE, {})).toMatchObject({ state: BULK_RUN_STATE_DONE, changed: 2 });
  });

  test.each([
    ['an action', { action: 99 as BulkAction }],
    ['a state of tasks', { filter: { tasks: 99 as BulkTasks } }],
    ['a test of headers', { filter: { headers: { all: [{ key: 'k', test: undefined }] } } }],
  ])('with %s that this release does not know fails, and changes nothing', async (_what, spec) => {
    await using h = await engineHarness();
    await h.enqueue(QUEUE, ['a']);
    const run = await runOf(h, QUEUE, spec);
    expect(run).toMatchObject({ state: BULK_RUN_STATE_FAILED, changed: 0, lookedAt: 0 });
    expect(run?.problem).toMatch('later release');
    expect(await pidsIn(h, QUEUE)).toEqual(['a']);
  });

  test('finds every task of a large queue once, whatever memory and the store have of them', async () => {
    await using h = await engineHarness({ config: { cacheBytes: 10_000, checkpointIntervalMs: 1000 } });
    const pids = numbered(3000);
    await h.enqueue(QUEUE, pids.slice(0, 1500));
    await h.clock.advance(5000);
    await h.update({ enqueue: pids.slice(1500, 1600).map((pid) => ({ queue: QUEUE, pid, delay: HOUR })) });
    await h.enqueue(QUEUE, pids.slice(1600));
    await h.lease(QUEUE, { max: 700, for: 10 });
    await startBulk(h.engine, QUEUE, { action: BULK_ACTION_MOVE, target: 'shop#all', rate: 5000 });
    for (let at = 0; at < 20; at++) {
      await h.clock.advance(1);
      await h.enqueue(QUEUE, [`later ${at}`]);
      await h.clock.advance(100);
    }
    const run = await bulkRunOf(h.engine, 'shop');
    expect(run).toMatchObject({ state: BULK_RUN_STATE_DONE });
    const { changed = 0, skipped = [] } = run ?? {};
    expect(changed + skipped.reduce((sum, { tasks }) => sum + tasks, 0)).toBe(3000);
    const { available, delayed } = await h.counts('shop#all');
    expect(available + delayed).toBe(changed);
  });

  test('gives other calls their turns while it changes many tasks', async () => {
    await using h = await engineHarness({ writeMs: 1, syncMs: 1 });
    const tasks = 4_000;
    await h.clock.run(h.enqueue(QUEUE, numbered(tasks)));
    await h.clock.run(startBulk(h.engine, QUEUE, {}));
    let turns = 0;
    while ((await h.clock.run(bulkRunOf(h.engine, 'shop')))?.state === BULK_RUN_STATE_RUNNING) {
      turns++;
      await h.clock.run(h.enqueue('shop#other', [`t${turns}`]));
    }
    expect(await h.clock.run(h.counts(QUEUE))).toEqual({ available: 0, leased: 0, delayed: 0 });
    // Each atom changes at most 200 tasks, and a call needs two steps of the disk as an atom does.
    expect(turns).toBeGreaterThan(tasks / 200 / 2);
  });
});

test('a task whose lease ends while a run looks at it is moved without the lease, or left where it is', async () => {
  for (let afterMs = 80; afterMs <= 130; afterMs++) {
    await using h = await engineHarness({ readMs: 3, writeMs: 1, syncMs: 1, config: { cacheBytes: 1 } });
    await h.clock.run(h.enqueue(QUEUE, ['a']));
    const [task] = await h.clock.run(h.lease(QUEUE, { for: afterMs }));
    await h.clock.run(startBulk(h.engine, QUEUE, { action: BULK_ACTION_MOVE, target: 'shop#new' }));
    await h.clock.advance(1000);
    const view = { queue: parseQueueName('shop#new'), pids: ['a' as never], includeData: false };
    const [found] = await h.clock.run(h.engine.getTasks(view));
    // It has lost the lease before it went.
    if (found?.state !== undefined) expect(found.state.history?.failures).toMatchObject([{ at: task?.until }]);
    const [left, moved] = [await h.clock.run(h.counts(QUEUE)), await h.clock.run(h.counts('shop#new'))];
    expect([left.available + moved.available, left.leased + moved.leased], `a lease of ${afterMs} ms`).toEqual([1, 0]);
    const run = await h.clock.run(bulkRunOf(h.engine, 'shop'));
    expect([run?.changed, run?.state]).toEqual([moved.available, BULK_RUN_STATE_DONE]);
    const late = h.update({ dequeue: [{ queue: 'shop#new', pid: 'a', token: task?.token }] });
    await expect(h.clock.run(late)).rejects.toMatchObject({
      reason: expect.stringMatching(moved.available === 1 ? 'LEASE_LOST' : 'TASK_NOT_FOUND'),
    });
  }
});

describe('the end of the node', () => {
  const LATENCY = { writeMs: 3, syncMs: 5, readMs: 1 };
  const TASKS = 24;

  test.each(['crash', 'kill'] as const)(
    'at any durable step repeats no change and leaves none out (%s)',
    async (end) => {
      for (let step = 1; step <= 24; step++) {
        const h = new EngineHarness({ ...LATENCY, seed: step });
        await h.open();
        await h.clock.run(h.enqueue(QUEUE, numbered(TASKS)));
        await h.clock.run(startBulk(h.engine, 'shop#m*', { action: BULK_ACTION_MOVE, target: 'shop#new', rate: 40 }));
        const last = h.disk.steps + step;
        let isDown = false;
        h.disk.onStep = ({ number }) => {
          if (number !== last) return;
          isDown = true;
          h.clock.stop();
          h.disk[end]();
        };
        await h.clock.advance(2000);
        expect(isDown, `step ${step} was not reached`).toBe(true);
        h.disk.onStep = undefined;
        await h.crash();
        const { available } = await h.clock.run(h.counts('shop#new'));
        expect((await h.clock.run(bulkRunOf(h.engine, 'shop')))?.changed, `step ${step}`).toBe(available);
        await h.clock.advance(3000);
        const run = await h.clock.run(bulkRunOf(h.engine, 'shop'));
        expect(run).toMatchObject({ state: BULK_RUN_STATE_DONE, changed: TASKS, lookedAt: TASKS, skipped: [] });
        expect(pidsOf(await h.clock.run(h.lease('shop#new', { max: 99 })))).toEqual(numbered(TASKS));
        await h[Symbol.asyncDispose]();
      }
    },
    60_000,
  );
});

test('reads over no rows of tasks that are gone more than once', async () => {
  await using h = await engineHarness({ config: { cacheBytes: 1 } });
  const pids = numbered(3000);
  await h.enqueue(QUEUE, pids);
  const command = { queues: parseQueueName(QUEUE), spec: aBulkSpec() };
  const scan = vi.spyOn(h.store as Store, 'scan');
  const scansOf = (family: Family) =>
    scan.mock.calls.filter(([of]) => of === family).map(([, { gte, lt }]) => [pidOfTaskKey(gte), pidOfTaskKey(lt)]);
  await h.engine.bulkRuns.preview(command);
  expect(scansOf(Family.hidden)).toEqual([]);
  // A few hidden tasks at the end: they are read as far as the available ones are, and then only there.
  await h.update({ enqueue: [{ queue: QUEUE, pid: 'z', delay: HOUR }] });
  scan.mockClear();
  expect(await h.engine.bulkRuns.preview(command)).toMatchObject({ matched: 3001, lookedAt: 3001 });
  const ends = scansOf(Family.hidden).map(([, lt]) => lt);
  expect(ends.slice(0, 5)).toEqual([500, 1000, 1500, 2000, 2500].map((n) => `${pids[n - 1]}\0`));
});

test('a preview ends after some time, with what it has seen, and goes on from there', async () => {
  await using h = await engineHarness({ readMs: 700, config: { cacheBytes: 1 } });
  await h.clock.run(h.enqueue(QUEUE, numbered(9000)));
  const command = { queues: parseQueueName(QUEUE), spec: aBulkSpec() };
  const preview = await h.clock.run(h.engine.bulkRuns.preview(command));
  expect(preview.lookedAt).toBeGreaterThan(0);
  expect(preview.lookedAt).toBeLessThan(9000);
  expect(preview).toMatchObject({ tasks: 9000, matched: preview.lookedAt });
  // The queue of the place may go meanwhile: then the next one follows.
  await h.clock.run(h.enqueue('shop#b', numbered(1500)));
  const both = { ...command, queues: parseQueueName('shop#*') };
  let { lookedAt, next } = await h.clock.run(h.engine.bulkRuns.preview(both));
  for (const before = new Set<unknown>(); next !== undefined; ) {
    expect(before.has(next.after)).toBe(false);
    before.add(next.after);
    const page = await h.clock.run(h.engine.bulkRuns.preview(both, next));
    lookedAt += page.lookedAt;
    next = page.next;
  }
  expect(lookedAt).toBe(10_500);
  const { next: place } = preview;
  await h.clock.run(h.engine.deleteQueue(parseQueueName(QUEUE)));
  expect(await h.clock.run(h.engine.bulkRuns.preview(both, place))).toMatchObject({ lookedAt: 1500, next: undefined });
});

test('a preview is bounded, counts leased tasks, and changes nothing', async () => {
  await using h = await engineHarness();
  await h.enqueue(QUEUE, numbered(30));
  await h.lease(QUEUE, { max: 2 });
  const command = { queues: parseQueueName('shop#*'), spec: aBulkSpec() };
  const preview = await h.engine.bulkRuns.preview(command);
  expect(preview).toMatchObject({ queues: 1, tasks: 30, lookedAt: 30, matched: 30, leased: 2, next: undefined });
  expect(preview.samples.map(({ pid }) => pid)).toEqual(numbered(10));
  expect(await h.engine.bulkRuns.list('shop')).toEqual([]);
  const cancel = { ...command, spec: aBulkSpec({ action: BULK_ACTION_CANCEL }) };
  expect(await h.engine.bulkRuns.preview(cancel)).toMatchObject({ matched: 30, leased: 0 });
});

test('a move to a queue whose tasks become due all the time goes on', async () => {
  await using h = await engineHarness({ readMs: 2 });
  await h.enqueue(QUEUE, ['a', 'b']);
  await h.update({
    enqueue: Array.from({ length: 500 }, (_, at) => ({ queue: 'shop#later', pid: `p${at}`, delay: at + 1 })),
  });
  await putSettings(h.engine, 'shop#later', { maxBacklog: 1 });
  await startBulk(h.engine, QUEUE, { action: BULK_ACTION_MOVE, target: 'shop#later' });
  await h.clock.advance(300);
  expect(await bulkRunOf(h.engine, 'shop')).toMatchObject({ state: BULK_RUN_STATE_DONE });
});

test('a run does not count the tasks of the queue that it moves others to', async () => {
  await using h = await engineHarness();
  await h.enqueue(QUEUE, ['a', 'b']);
  await h.enqueue('shop#later', ['c']);
  const run = await runOf(h, 'shop#*', { action: BULK_ACTION_MOVE, target: 'shop#later' });
  expect(run).toMatchObject({ tasks: 2, lookedAt: 2, changed: 2 });
});
