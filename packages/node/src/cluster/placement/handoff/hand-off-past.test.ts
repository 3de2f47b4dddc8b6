import type { PartitionId, Pid } from '@taskmaster/engine/domain';
import { type EngineHarness, pidsOf, putSettings } from '@taskmaster/engine/testing';
import { EnqueueMode, EnqueueResult, parseQueueName, partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { TwoNodes } from '../../../testing/two-nodes.ts';

const QUEUE = 'orders#new';
const P = partitionOf('orders', 4) as PartitionId;
const AHEAD_MS = 600_000;

const historyOf = async (h: EngineHarness, queue: string) => {
  const [seen] = await h.engine.getTasks({ queue: parseQueueName(queue), pids: ['p' as Pid], includeData: false });
  return seen?.state?.history;
};

test('a moved task keeps its failures, its progress, where it came from, and that it must run again', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: AHEAD_MS });
  await nodes.open();
  const { a, b } = nodes;
  const retry = { maxAttempts: 1 };
  await nodes.run(a.h.update({ enqueue: [{ queue: QUEUE, pid: 'p', data: 'dead', retry }] }));
  const [dead] = await nodes.run(a.h.lease(QUEUE));
  await nodes.run(
    a.h.update({ renew: [{ queue: QUEUE, pid: 'p', token: dead?.token, for: 1_000, progress: 'half' }] }),
  );
  await nodes.run(a.h.update({ release: [{ queue: QUEUE, pid: 'p', token: dead?.token, error: 'no route' }] }));
  await nodes.run(a.h.update({ enqueue: [{ queue: QUEUE, pid: 'p', data: 'first' }] }));
  const [task] = await nodes.run(a.h.lease(QUEUE));
  const mode = EnqueueMode.ENQUEUE_MODE_RERUN;
  await nodes.run(a.h.update({ enqueue: [{ queue: QUEUE, pid: 'p', data: 'second', mode }] }));
  const before = await nodes.run(historyOf(a.h, `${QUEUE}.dead`));
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  expect(nodes.serving(P)).toEqual(['b']);

  const after = await nodes.run(historyOf(b.h, `${QUEUE}.dead`));
  expect(after).toMatchObject({ origin: { queue: 'new', retry }, progress: { text: 'half' } });
  expect(after?.failures).toMatchObject([{ attempt: 1, error: { message: 'no route' } }]);
  // Its instants move with the clocks.
  const shift = (after?.failures[0]?.at ?? 0) - (before?.failures[0]?.at ?? 0);
  expect(Math.abs(shift - AHEAD_MS)).toBeLessThan(1_000);
  expect((after?.progress?.at ?? 0) - (before?.progress?.at ?? 0)).toBe(shift);

  await nodes.run(b.h.update({ dequeue: [{ queue: QUEUE, pid: 'p', token: task?.token }] }));
  const [again] = await nodes.run(b.h.lease(QUEUE));
  expect(Buffer.from(again?.data ?? []).toString()).toBe('second');
  await nodes.run(b.h.update({ dequeue: [{ queue: QUEUE, pid: 'p', token: again?.token }] }));
  await nodes.run(b.h.update({ dequeue: [{ queue: `${QUEUE}.dead`, pid: 'p', requeue: true }] }));
  const [back] = await nodes.run(b.h.lease(QUEUE));
  expect([Buffer.from(back?.data ?? []).toString(), back?.history?.progress?.text]).toEqual(['dead', 'half']);
});

test('a moved task keeps its checkpoint, that it was interrupted, and whether its worker has begun it', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: AHEAD_MS });
  await nodes.open();
  const { a, b } = nodes;
  const p = { queue: QUEUE, pid: 'p' };
  await nodes.run(a.h.update({ enqueue: [p, { ...p, pid: 'q' }] }));
  const [first] = await nodes.run(a.h.lease(QUEUE));
  const { token } = first ?? {};
  await nodes.run(a.h.update({ renew: [{ ...p, token, for: 1_000, checkpoint: 'half' }] }));
  await nodes.run(a.h.update({ release: [{ ...p, token, interrupted: true }] }));
  const starts = { now: 1, together: 1 };
  expect(pidsOf(await nodes.run(a.h.lease(QUEUE, { max: 2, for: 5_000, starts })))).toEqual(['p', 'q']);
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  expect(nodes.serving(P)).toEqual(['b']);

  expect(await nodes.run(historyOf(b.h, QUEUE))).toMatchObject({ interruptions: 1 });
  // Their worker dies with the first one begun and the second one leased ahead.
  await nodes.time.advance(10_000);
  const [p2, q2] = await nodes.run(b.h.lease(QUEUE, { max: 2 }));
  expect([p2?.attempt, q2?.attempt]).toEqual([2, 1]);
  expect(Buffer.from(p2?.history?.checkpoint ?? []).toString()).toBe('half');
});

test('a result moves with its group, is kept for its time by the clock of the new holder, and waits are told', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: AHEAD_MS });
  await nodes.open();
  const { a, b } = nodes;
  await nodes.run(a.h.enqueue(QUEUE, ['p', 'q']));
  await nodes.run(a.h.update({ dequeue: [{ queue: QUEUE, pid: 'p', result: '42', keep: 60_000 }] }));
  const waiting = a.h.waitFor(QUEUE, ['q'], { wait: 600_000 });
  waiting.catch(() => {});
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  await expect(nodes.run(waiting)).rejects.toMatchObject({ reason: 'NOT_HOLDER' });
  await expect(nodes.run(a.h.waitFor(QUEUE, ['p']))).rejects.toMatchObject({ reason: 'NOT_HOLDER' });

  const resultOf = async () => (await nodes.run(b.h.waitFor(QUEUE, ['p'])))[0]?.end;
  const end = await resultOf();
  expect([end?.outcome, Buffer.from(end?.result ?? []).toString()]).toEqual(['completed', '42']);
  await nodes.time.advance(50_000);
  expect((await resultOf())?.outcome).toBe('completed');
  await nodes.time.advance(20_000);
  expect((await resultOf())?.outcome).toBe('unknown');
});

test('a completed task is kept out for its time by the clock of the new holder', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: AHEAD_MS });
  await nodes.open();
  const { a, b } = nodes;
  await nodes.run(putSettings(a.h.engine, QUEUE, { keepOutMs: 60_000 }));
  await nodes.run(a.h.enqueue(QUEUE, ['p']));
  const [task] = await nodes.run(a.h.lease(QUEUE));
  await nodes.run(a.h.update({ dequeue: [{ queue: QUEUE, pid: 'p', token: task?.token }] }));
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));

  const enqueue = async () =>
    (await nodes.run(b.h.update({ enqueue: [{ queue: QUEUE, pid: 'p' }] }))).enqueued[0]?.result;
  expect(await enqueue()).toBe(EnqueueResult.ENQUEUE_RESULT_KEPT_OUT);
  await nodes.time.advance(50_000);
  expect(await enqueue()).toBe(EnqueueResult.ENQUEUE_RESULT_KEPT_OUT);
  await nodes.time.advance(20_000);
  expect(await enqueue()).toBe(EnqueueResult.ENQUEUE_RESULT_CREATED);
});

test('a cancelled task moves as one, and goes when its attempt ends', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: AHEAD_MS });
  await nodes.open();
  const { a, b } = nodes;
  await nodes.run(a.h.enqueue(QUEUE, ['p']));
  const [task] = await nodes.run(a.h.lease(QUEUE));
  await nodes.run(a.h.update({ dequeue: [{ queue: QUEUE, pid: 'p', cancel: 'too late' }] }));
  const before = await nodes.run(historyOf(a.h, QUEUE));
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  const after = await nodes.run(historyOf(b.h, QUEUE));
  expect(after?.cancelled?.reason).toBe('too late');
  const shift = (after?.cancelled?.at ?? 0) - (before?.cancelled?.at ?? 0);
  expect(Math.abs(shift - AHEAD_MS)).toBeLessThan(1_000);
  await nodes.run(b.h.update({ release: [{ queue: QUEUE, pid: 'p', token: task?.token }] }));
  const [ended] = await nodes.run(b.h.waitFor(QUEUE, ['p']));
  expect(ended?.end).toMatchObject({ outcome: 'cancelled', cancelReason: 'too late', attempts: 1 });
});

test('a moved task is found by its key, wherever it is in its queue', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1 });
  await nodes.open();
  const { a, b } = nodes;
  const put = (pid: string) => ({
    enqueue: [{ queue: QUEUE, pid, key: 'k', mode: EnqueueMode.ENQUEUE_MODE_REPLACE }],
  });
  const names = { queue: parseQueueName(QUEUE), pids: [], keys: ['k'], includeData: false };
  const find = async (h: EngineHarness) => (await nodes.run(h.engine.getTasks(names)))[0]?.pid;
  await nodes.run(a.h.update(put('5')));
  const moving = Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' }));
  await nodes.run(Promise.all([moving, a.h.update(put('3'))]));
  await expect(find(a.h)).rejects.toMatchObject({ reason: 'NOT_HOLDER' });
  expect(await find(b.h)).toBe('3');
  await nodes.run(b.h.update(put('1')));
  await nodes.run(b.h.update({ dequeue: [{ queue: QUEUE, key: 'k' }] }));
  expect(await find(b.h)).toBe('');
});

test('moved queues follow the settings of their group, also those that are put during the move', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bytesPerSecond: 10_000 });
  await nodes.open();
  const { a, b } = nodes;
  await nodes.run(putSettings(a.h.engine, 'orders#*', { leaseDurationMs: 1_000 }));
  await nodes.run(putSettings(a.h.engine, QUEUE, { leaseDurationMs: 2_000 }));
  await nodes.run(
    a.h.update({ enqueue: [{ queue: QUEUE, pid: 'p', data: 'x'.repeat(20_000), retry: 'by settings' }] }),
  );
  const moving = Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' }));
  const retry = { maxAttempts: 3, backoffInitialMs: 0, backoffMaxMs: 0, deadLetterQueue: '' };
  const putting = putSettings(a.h.engine, QUEUE, { retry });
  await nodes.run(Promise.all([moving, putting]));
  expect(nodes.serving(P)).toEqual(['b']);
  expect(await nodes.run(b.h.lease(QUEUE, { for: 0 }))).toMatchObject([{ leaseDurationMs: 1_000, maxAttempts: 3 }]);
});

test('a moved lease ends at its time limit by the clock of the new holder', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: AHEAD_MS });
  await nodes.open();
  const { a, b } = nodes;
  await nodes.run(a.h.update({ enqueue: [{ queue: QUEUE, pid: 'p', timeLimit: 30_000 }] }));
  const [task] = await nodes.run(a.h.lease(QUEUE, { for: 10_000 }));
  await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  const renewal = { queue: QUEUE, pid: 'p', token: task?.token, for: 60_000 };
  const { renewed } = await nodes.run(b.h.update({ renew: [renewal] }));
  const leftMs = (renewed[0]?.until ?? 0) - b.h.clock.now();
  expect(leftMs).toBeGreaterThan(25_000);
  expect(leftMs).toBeLessThanOrEqual(30_000);
  await nodes.time.advance(30_000);
  expect((await nodes.run(b.h.lease(QUEUE)))[0]).toMatchObject({ attempt: 2, timeLimitMs: 30_000 });
  const message = 'the attempt exceeded its time limit of 30000 ms';
  expect((await nodes.run(historyOf(b.h, QUEUE)))?.failures).toMatchObject([{ error: { message } }]);
});
