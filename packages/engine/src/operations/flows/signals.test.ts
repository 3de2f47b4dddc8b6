import { EnqueueMode, EnqueueResult, limits, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { PeekCommand } from '../../domain/commands.ts';
import type { Pid } from '../../domain/ids.ts';
import { Refusal } from '../../domain/refusal.ts';
import { Family } from '../../ports/store.ts';
import { type EngineHarness, type EnqueueSpec, engineHarness, pidsOf } from '../../testing/engine-harness.ts';

const QUEUE = 'g#q';
const { ENQUEUE_MODE_SIGNAL: SIGNAL } = EnqueueMode;
const { ENQUEUE_RESULT_SIGNALLED: SIGNALLED, ENQUEUE_RESULT_SIGNAL_KEPT: KEPT } = EnqueueResult;
const { ENQUEUE_RESULT_COLLAPSED: COLLAPSED } = EnqueueResult;

const add = (h: EngineHarness, pid: string, more: Partial<EnqueueSpec> = {}) =>
  h.update({ enqueue: [{ queue: QUEUE, pid, ...more }] });

/** Signals a task. Resolves with the result. */
async function signal(h: EngineHarness, pid: string, more: Partial<EnqueueSpec> = {}) {
  const item = { queue: QUEUE, mode: SIGNAL, ...('key' in more ? {} : { pid }), ...more };
  return (await h.update({ enqueue: [item] })).enqueued[0]?.result;
}

async function seen(h: EngineHarness, pid: string, queue = QUEUE) {
  const name = parseQueueName(queue);
  const pids = [pid as Pid];
  return (await h.engine.getTasks({ queue: name, pids, includeData: false, includeSignals: true }))[0];
}

const signalsOf = async (h: EngineHarness, pid: string) =>
  (await seen(h, pid))?.signals?.kept.map(({ id, data }) => [id, Buffer.from(data).toString()]);

const lease = async (h: EngineHarness) => pidsOf(await h.lease(QUEUE, { max: 10 }));

const peek = async (h: EngineHarness, kind: PeekCommand['kind']) =>
  pidsOf(await h.engine.peekTasks({ queue: parseQueueName(QUEUE), kind, limit: 10, includeData: false }));

const stats = async (h: EngineHarness) =>
  (await h.engine.queueStats({ kind: 'named', queues: [parseQueueName(QUEUE)] })).queues[0];

describe.each(['in memory', 'after a crash'])('a task that waits for signals, %s', (where) => {
  const restart = (h: EngineHarness): Promise<void> => (where === 'in memory' ? Promise.resolve() : h.crash());

  test('is leased after the last one only', async () => {
    await using h = await engineHarness();
    await add(h, 'p', { waitFor: 2 });
    await restart(h);
    expect(await lease(h)).toEqual([]);
    expect(await signal(h, 'p')).toBe(SIGNALLED);
    await restart(h);
    expect(await lease(h)).toEqual([]);
    expect(await signal(h, 'p')).toBe(SIGNALLED);
    await restart(h);
    expect(await lease(h)).toEqual(['p']);
    expect(await signal(h, 'p')).toBe(COLLAPSED);
  });

  test('is counted, and shown by get and peek', async () => {
    await using h = await engineHarness();
    await add(h, 'a', { delay: 60_000 });
    await add(h, 'p', { waitFor: 3 });
    await restart(h);
    expect(await stats(h)).toMatchObject({ available: 0, delayed: 2, waiting: 1 });
    expect((await seen(h, 'p'))?.state?.history?.waits).toMatchObject({ signals: 3, order: false });
    expect([await peek(h, 'head'), await peek(h, 'delayed'), await peek(h, 'waiting')]).toEqual([[], ['a'], ['p']]);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'p' }] });
    expect(await stats(h)).toMatchObject({ delayed: 1, waiting: 0 });
  });

  test('counts a signal with an id once, and keeps what signals say', async () => {
    await using h = await engineHarness();
    await add(h, 'p', { waitFor: 2 });
    expect(await signal(h, 'p', { signalId: 'x', data: 'one' })).toBe(SIGNALLED);
    await restart(h);
    expect(await signal(h, 'p', { signalId: 'x', data: 'again' })).toBe(COLLAPSED);
    expect(await lease(h)).toEqual([]);
    expect(await signal(h, 'p', { signalId: 'y', data: 'two' })).toBe(SIGNALLED);
    await restart(h);
    expect(await lease(h)).toEqual(['p']);
    expect(await signalsOf(h, 'p')).toEqual([
      ['x', 'one'],
      ['y', 'two'],
    ]);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'p' }] });
    await h.clock.advance(2_000);
    expect(h.taskRows()).toBe(0);
  });

  test('gets the signals that came before it, by its PID and by its key', async () => {
    await using h = await engineHarness();
    expect(await signal(h, 'p', { signalId: 'x', data: 'early' })).toBe(KEPT);
    expect(await signal(h, 'p', { signalId: 'x' })).toBe(COLLAPSED);
    expect(await signal(h, '', { key: 'k' })).toBe(KEPT);
    await restart(h);
    await add(h, 'p', { key: 'k', waitFor: 3 });
    expect((await seen(h, 'p'))?.state?.history?.waits?.signals).toBe(1);
    expect(await signalsOf(h, 'p')).toEqual([['x', 'early']]);
    await restart(h);
    expect(await signal(h, 'p', { signalId: 'x' })).toBe(COLLAPSED);
    expect(await signal(h, '', { key: 'k' })).toBe(SIGNALLED);
    expect(await lease(h)).toEqual(['p']);
  });

  test('is available at once if all its signals came before it', async () => {
    await using h = await engineHarness();
    await signal(h, 'p', { signalId: 'x' });
    await signal(h, 'p', { signalId: 'y' });
    await restart(h);
    await add(h, 'p', { waitFor: 1 });
    expect(await lease(h)).toEqual(['p']);
  });

  test('waits for its delay, too', async () => {
    await using h = await engineHarness();
    await add(h, 'p', { waitFor: 1, delay: 10_000 });
    await restart(h);
    await signal(h, 'p');
    expect(await lease(h)).toEqual([]);
    await h.clock.advance(10_000);
    expect(await lease(h)).toEqual(['p']);
  });

  test('stays parked when it is rescheduled, and then waits for its time', async () => {
    await using h = await engineHarness();
    await add(h, 'p', { waitFor: 1 });
    await h.update({ release: [{ queue: QUEUE, pid: 'p', waiting: true, delay: 5_000 }] });
    await restart(h);
    await h.clock.advance(1_000);
    await signal(h, 'p');
    expect(await lease(h)).toEqual([]);
    await h.clock.advance(4_000);
    expect(await lease(h)).toEqual(['p']);
  });

  test('ends when it is cancelled or its queue is deleted', async () => {
    await using h = await engineHarness();
    await add(h, 'p', { waitFor: 1 });
    await add(h, 'q', { waitFor: 1 });
    await signal(h, 'q', { signalId: 'x', data: 'kept' }).catch(() => {});
    await restart(h);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'p', cancel: 'why' }] });
    expect(await h.waitFor(QUEUE, ['p'])).toMatchObject([{ end: { outcome: 'cancelled', cancelReason: 'why' } }]);
    await h.engine.deleteQueue(parseQueueName(QUEUE));
    await h.clock.advance(limits.defaultResultRetentionMs + 1_000);
    expect(h.taskRows()).toBe(0);
  });

  test.each(['run', 'dead-letter', 'cancel'] as const)('ends its wait with the action %s', async (then) => {
    await using h = await engineHarness();
    await add(h, 'p', { waitFor: { signals: 2, timeoutMs: 10_000, action: then } });
    await signal(h, 'p', { signalId: 'x', data: 'only' });
    const due = new Date(h.clock.now() + 10_000).toISOString();
    await restart(h);
    await h.clock.advance(9_900);
    expect(await lease(h)).toEqual([]);
    await h.clock.advance(100);
    expect(await lease(h)).toEqual(then === 'run' ? ['p'] : []);
    const reason = `waited for signals until ${due}`;
    const dead = await seen(h, 'p', `${QUEUE}.dead`);
    if (then === 'run') expect(await signalsOf(h, 'p')).toEqual([['x', 'only']]);
    else if (then === 'cancel') {
      expect(await h.waitFor(QUEUE, ['p'])).toMatchObject([{ end: { outcome: 'cancelled', cancelReason: reason } }]);
    } else {
      expect(dead?.state?.history).toMatchObject({ waits: undefined, failures: [{ error: { message: reason } }] });
      await h.update({ dequeue: [{ queue: `${QUEUE}.dead`, pid: 'p', requeue: true }] });
      expect(await lease(h)).toEqual(['p']);
    }
  });
});

test('a signal serves a request that waits, with the completion of another task', async () => {
  await using h = await engineHarness();
  await h.enqueue(QUEUE, ['a']);
  await add(h, 'p', { waitFor: 1 });
  const [task] = await h.lease(QUEUE);
  const waiting = h.lease(QUEUE, { wait: 60_000 });
  await h.update({
    dequeue: [{ queue: QUEUE, pid: 'a', token: task?.token }],
    enqueue: [{ queue: QUEUE, pid: 'p', mode: SIGNAL }],
  });
  expect(pidsOf(await waiting)).toEqual(['p']);
});

test('a signal behind a task that its own update enqueues too late is kept for the next one', async () => {
  await using h = await engineHarness();
  const late = { queue: QUEUE, pid: 'p', startBy: h.clock.now(), waitFor: 2 };
  const { enqueued } = await h.update({ enqueue: [late, { queue: QUEUE, pid: 'p', mode: SIGNAL }] });
  expect(enqueued[1]?.result).toBe(KEPT);
  await add(h, 'p', { waitFor: 1 });
  expect(await lease(h)).toEqual(['p']);
});

test('a signal of an update that is refused does not count', async () => {
  await using h = await engineHarness();
  await add(h, 'p', { waitFor: 1 });
  const refused = h.update({
    dequeue: [{ queue: QUEUE, pid: 'none' }],
    enqueue: [{ queue: QUEUE, pid: 'p', mode: SIGNAL }],
  });
  await expect(refused).rejects.toMatchObject({ reason: 'TASK_NOT_FOUND' });
  expect(await lease(h)).toEqual([]);
});

test('a repeated request signals once', async () => {
  await using h = await engineHarness();
  await add(h, 'p', { waitFor: 2 });
  const update = () => h.update({ enqueue: [{ queue: QUEUE, pid: 'p', mode: SIGNAL }], id: 'id' });
  await update();
  await h.crash();
  expect((await update()).enqueued[0]?.result).toBe(SIGNALLED);
  expect((await seen(h, 'p'))?.state?.history?.waits?.signals).toBe(1);
});

test('an early signal by the PID and by the key of its task counts once', async () => {
  await using h = await engineHarness();
  await signal(h, 'p', { signalId: 'x', data: 'by PID' });
  await signal(h, '', { key: 'k', signalId: 'x', data: 'by key' });
  await signal(h, '', { key: 'k', signalId: 'y', data: 'another' });
  await add(h, 'p', { key: 'k', waitFor: 3 });
  expect((await seen(h, 'p'))?.state?.history?.waits?.signals).toBe(1);
  expect(await signalsOf(h, 'p')).toEqual([
    ['x', 'by PID'],
    ['y', 'another'],
  ]);
});

test('no more early signals are kept than a task may wait for', async () => {
  await using h = await engineHarness();
  await h.update({
    enqueue: Array.from({ length: limits.signals }, () => ({ queue: QUEUE, pid: 'p', mode: SIGNAL })),
  });
  expect(await signal(h, 'p', { signalId: 'more' })).toBe(COLLAPSED);
  expect(await signal(h, 'p')).toBe(COLLAPSED);
  await add(h, 'p', { waitFor: limits.signals });
  expect(await lease(h)).toEqual(['p']);
});

test('early signals go with their time', async () => {
  await using h = await engineHarness();
  await signal(h, 'p', { signalId: 'x', data: 'early' });
  expect(h.taskRows()).toBe(1);
  h.lose();
  h.clock.stepWall(limits.signalRetentionMs);
  h.clock = h.clock.reboot();
  await h.open();
  await h.clock.advance(1_000);
  expect(h.taskRows()).toBe(0);
  await add(h, 'p', { waitFor: 1 });
  expect(await lease(h)).toEqual([]);
});

test('what does not fit into the box is counted, not kept', async () => {
  await using h = await engineHarness();
  await add(h, 'p', { waitFor: 10 });
  const data = 'x'.repeat(limits.signalBytes);
  for (let i = 0; i < 5; i++) await signal(h, 'p', { signalId: `${i}`, data });
  const box = (await seen(h, 'p'))?.signals;
  expect([box?.kept.length, box?.dropped]).toEqual([3, 2]);
  expect((await seen(h, 'p'))?.state?.history?.waits?.signals).toBe(5);
});

test('many waiting tasks make no row of due times, and leave the floor alone', async () => {
  await using h = await engineHarness();
  const enqueue = Array.from({ length: 200 }, (_, i) => ({ queue: QUEUE, pid: `p${i}`, waitFor: 1 }));
  await h.update({ enqueue });
  await h.clock.advance(120_000);
  expect(h.disk.rowsOf(Family.due)).toEqual([]);
  expect(await stats(h)).toMatchObject({ waiting: 200, oldestAgeMs: 0 });
});

test('a task that waits keeps its place, and the latest data', async () => {
  await using h = await engineHarness();
  await add(h, '5', { key: 'k', waitFor: 1 });
  const replaced = await add(h, '1', { key: 'k', mode: EnqueueMode.ENQUEUE_MODE_REPLACE, data: 'new' });
  expect(replaced.enqueued).toMatchObject([{ pid: '5', result: EnqueueResult.ENQUEUE_RESULT_REPLACED }]);
  await signal(h, '', { key: 'k' });
  expect(await h.lease(QUEUE)).toMatchObject([{ pid: '5', data: Buffer.from('new') }]);
});

test('an update whose signals would write too much is refused', async () => {
  await using h = await engineHarness();
  const data = 'x'.repeat(limits.signalBytes);
  const pids = Array.from({ length: 200 }, (_, at) => `p${at}`);
  const signals = (pid: string, ids: readonly string[], text: string) =>
    ids.map((signalId) => ({ queue: QUEUE, mode: SIGNAL, pid, signalId, data: text }));
  for (const pid of pids) {
    await h.update({ enqueue: [{ queue: QUEUE, pid, waitFor: 5 }, ...signals(pid, ['a', 'b', 'c'], data)] });
  }
  const enqueue = pids.flatMap((pid) => signals(pid, ['d'], ''));
  const [refused] = await h.update({ enqueue }).then(
    () => [],
    (error: { items: readonly { index: number; reason: string }[] }) => error.items,
  );
  expect(refused).toMatchObject({ reason: 'REQUEST_TOO_LARGE' });
  expect(refused?.index).toBe(Math.floor(limits.signalRewriteBytes / (3 * limits.signalBytes)));
  expect((await seen(h, 'p0'))?.state?.history?.waits?.signals).toBe(2);
  await h.update({ enqueue: enqueue.slice(0, 100) });
  expect((await seen(h, 'p0'))?.state?.history?.waits?.signals).toBe(1);
});

test('signals of one batch write once what their task keeps, and those of refused updates nothing', async () => {
  await using h = await engineHarness();
  await add(h, 'p', { waitFor: 500 });
  const signals = Array.from({ length: 200 }, (_, at) => ({
    enqueue: [{ queue: QUEUE, pid: 'p', mode: SIGNAL, signalId: `s${at}`, data: `${at}`.padEnd(1_000) }],
    ...(at % 10 === 0 && { dequeue: [{ queue: QUEUE, pid: 'none' }] }),
  }));
  const before = h.engine.figures().commitBytes;
  const outcomes = await h.batch(signals);
  expect(outcomes.filter((outcome) => outcome instanceof Refusal)).toHaveLength(20);
  expect(h.engine.figures().commitBytes - before).toBeLessThan(1024 * 1024);
  await h.crash();
  expect((await seen(h, 'p'))?.state?.history?.waits?.signals).toBe(320);
  expect((await signalsOf(h, 'p'))?.map(([id]) => id)).toEqual(
    Array.from({ length: 200 }, (_, at) => `s${at}`).filter((_, at) => at % 10 !== 0),
  );
});

test('early signals of one batch, their task and its end are one after the other', async () => {
  await using h = await engineHarness();
  const early = (signalId: string) => ({
    enqueue: [{ queue: QUEUE, pid: 'p', mode: SIGNAL, signalId, data: signalId }],
  });
  await h.batch([
    early('a'),
    early('b'),
    { enqueue: [{ queue: QUEUE, pid: 'p', waitFor: 4 }] },
    early('a'),
    early('c'),
  ]);
  expect((await seen(h, 'p'))?.state?.history?.waits?.signals).toBe(1);
  expect((await signalsOf(h, 'p'))?.map(([id]) => id)).toEqual(['a', 'b', 'c']);
  await h.batch([early('d'), { dequeue: [{ queue: QUEUE, pid: 'p' }] }, early('e')]);
  await h.crash();
  await add(h, 'p', { waitFor: 4 });
  expect((await signalsOf(h, 'p'))?.map(([id]) => id)).toEqual(['e']);
  await h.update({ dequeue: [{ queue: QUEUE, pid: 'p' }] });
  await h.clock.advance(1_000);
  expect(h.taskRows()).toBe(0);
});

test('names of children and ids of signals are a part of what is kept', async () => {
  await using h = await engineHarness();
  await add(h, 'p', { waitFor: { signals: 200, collect: true } });
  const parent = { queue: QUEUE, pid: 'p', onFailure: 'continue' as const };
  const pids = Array.from({ length: 100 }, (_, at) => `${at}`.padEnd(limits.pidBytes, 'x'));
  await h.update({ enqueue: pids.map((pid) => ({ queue: 'g#c', pid, parent })) });
  await h.update({ dequeue: pids.map((pid) => ({ queue: 'g#c', pid })) });
  const box = (await seen(h, 'p'))?.signals;
  expect([box?.kept.length, box?.dropped]).toEqual([63, 37]);
  expect((await seen(h, 'p'))?.state?.history?.waits?.signals).toBe(100);
});

test('a task whose wait is over runs, whatever comes before a search notices that', async () => {
  await using h = await engineHarness();
  const parent = { queue: QUEUE, pid: 'p' };
  await h.update({
    enqueue: [
      { queue: QUEUE, pid: 'p', waitFor: { signals: 2, timeoutMs: 10_000, action: 'run' } },
      { queue: 'g#c', pid: 'a', parent },
    ],
  });
  await h.clock.advance(10_000);
  expect((await h.engine.figures()).startsMissed).toBe(0);
  expect(await signal(h, 'p', { signalId: 'late', data: 'late' })).toBe(COLLAPSED);
  await h.update({ dequeue: [{ queue: 'g#c', pid: 'a', cancel: 'no' }] });
  expect(await lease(h)).toEqual(['p']);
  expect(await signalsOf(h, 'p')).toBeUndefined();
});

test('the ends of many children in one update write once what their parent keeps', async () => {
  await using h = await engineHarness();
  const pids = Array.from({ length: 2_000 }, (_, at) => `c${at}`);
  await add(h, 'p', { waitFor: { signals: pids.length, collect: true } });
  await h.update({
    enqueue: pids.map((pid) => ({ queue: 'g#c', pid, parent: { queue: QUEUE, pid: 'p', onFailure: 'continue' } })),
  });
  const before = h.engine.figures().commitBytes;
  await h.update({ dequeue: pids.map((pid) => ({ queue: 'g#c', pid })) });
  expect(h.engine.figures().commitBytes - before).toBeLessThan(4 * 1024 * 1024);
  expect(await lease(h)).toEqual(['p']);
});
