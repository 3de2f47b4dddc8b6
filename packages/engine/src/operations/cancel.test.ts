import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { EndedTask } from '../domain/commands.ts';
import type { Pid } from '../domain/ids.ts';
import type { TaskState } from '../domain/task.ts';
import { type EngineHarness, type EnqueueSpec, engineHarness, type UpdateSpec } from '../testing/engine-harness.ts';

const QUEUE = 'g#q';
const GONE = { available: 0, leased: 0, delayed: 0 };

const cancel = (h: EngineHarness, reason = 'too late') =>
  h.clock.run(h.update({ dequeue: [{ queue: QUEUE, pid: 'p', cancel: reason }] }));

/** An engine with a leased task. */
async function withLeased(spec: Partial<EnqueueSpec> = {}) {
  const h = await engineHarness();
  await h.update({ enqueue: [{ queue: QUEUE, pid: 'p', data: 'data', ...spec }] });
  const [task] = await h.lease(QUEUE, { for: 10_000 });
  const item = { queue: QUEUE, pid: 'p', token: task?.token };
  return { h, item, token: task?.token };
}

async function stateOf(h: EngineHarness): Promise<TaskState | undefined> {
  const command = { queue: parseQueueName(QUEUE), pids: ['p' as Pid], includeData: false };
  return (await h.clock.run(h.engine.getTasks(command)))[0]?.state;
}

const endOf = async (h: EngineHarness) => (await h.clock.run(h.waitFor(QUEUE, ['p'])))[0]?.end;
const shown = ([ended]: readonly EndedTask[]) => [ended?.end.outcome, ended?.end.cancelReason];

describe('a waiting task that is cancelled', () => {
  test.each([
    ['available', {}],
    ['delayed', { delay: 60_000 }],
  ])('goes at once, and waits learn why: %s', async (_state, spec) => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'p', ...spec }] });
    const waiting = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(1);
    await cancel(h);
    expect(shown(await waiting)).toEqual(['cancelled', 'too late']);
    await h.crash();
    expect(await endOf(h)).toMatchObject({ outcome: 'cancelled', cancelReason: 'too late', attempts: 0 });
    expect(await h.counts(QUEUE)).toEqual(GONE);
    expect(h.engine.figures().tasksCompleted).toBe(0);
  });

  test('goes at once if its lease is over, whether or not a search has found that', async () => {
    const { h } = await withLeased();
    await using _ = h;
    await h.clock.advance(10_000);
    await cancel(h);
    expect(await endOf(h)).toMatchObject({ outcome: 'cancelled', attempts: 1 });
  });

  test('must be there', async () => {
    await using h = await engineHarness();
    await expect(cancel(h)).rejects.toMatchObject({ reason: 'TASK_NOT_FOUND' });
  });
});

describe('a leased task that is cancelled', () => {
  test('stays until its attempt ends, says so, and is completed if its worker completes it', async () => {
    const { h, item } = await withLeased();
    await using _ = h;
    await cancel(h);
    await h.crash();
    expect(await stateOf(h)).toMatchObject({ history: { cancelled: { reason: 'too late' } } });
    const { renewed } = await h.update({ renew: [{ ...item, for: 20_000 }] });
    expect(renewed).toMatchObject([{ cancelReason: 'too late' }]);
    await h.update({ dequeue: [{ ...item, result: 'done' }] });
    expect(await endOf(h)).toMatchObject({ outcome: 'completed', cancelReason: undefined });
  });

  test.each<[string, (item: { queue: string; pid: string; token: number | undefined }) => UpdateSpec]>([
    ['released', (item) => ({ release: [item] })],
    ['released with an error', (item) => ({ release: [{ ...item, error: 'stopped' }] })],
    ['snoozed', (item) => ({ release: [{ ...item, refund: true, delay: 60_000 }] })],
    ['sent to its dead-letter queue', (item) => ({ release: [{ ...item, deadLetter: true }] })],
  ])('goes when it is %s', async (_how, spec) => {
    const { h, item } = await withLeased();
    await using _ = h;
    await cancel(h);
    const { released } = await h.update(spec(item));
    expect(released).toEqual([{ until: undefined, deadLetterQueue: undefined }]);
    await h.crash();
    expect(await endOf(h)).toMatchObject({ outcome: 'cancelled', cancelReason: 'too late', attempts: 1 });
    expect([await h.counts(QUEUE), await h.counts(`${QUEUE}.dead`)]).toEqual([GONE, GONE]);
  });

  test.each([
    ['without a policy', {}],
    ['in its last attempt', { retry: { maxAttempts: 1 } }],
  ])('goes within a second after its lease has expired: %s', async (_which, spec) => {
    const { h, item } = await withLeased(spec);
    await using _ = h;
    await cancel(h);
    await h.crash();
    await h.clock.advance(9_000);
    const again = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(2_000);
    expect(shown(await again)).toEqual(['cancelled', 'too late']);
    await expect(h.update({ dequeue: [item] })).rejects.toMatchObject({ reason: 'TASK_NOT_FOUND' });
  });

  test('goes when the leases of its queue are reset', async () => {
    const { h } = await withLeased();
    await using _ = h;
    await cancel(h);
    await h.enqueue(QUEUE, ['other']);
    await h.lease(QUEUE);
    expect(await h.engine.resetLeases(parseQueueName(QUEUE))).toBe(2);
    expect(await h.counts(QUEUE)).toEqual({ available: 1, leased: 0, delayed: 0 });
    expect(await endOf(h)).toMatchObject({ outcome: 'cancelled' });
  });

  test('keeps the first reason', async () => {
    const { h } = await withLeased();
    await using _ = h;
    await cancel(h, 'first');
    await cancel(h, 'second');
    expect(await stateOf(h)).toMatchObject({ history: { cancelled: { reason: 'first' } } });
  });

  test('runs again if it is enqueued again afterwards, and not if it was before', async () => {
    const { h, item } = await withLeased();
    await using _ = h;
    const again = { queue: QUEUE, pid: 'p', data: 'again', mode: EnqueueMode.ENQUEUE_MODE_RERUN };
    await h.update({ enqueue: [again] });
    await cancel(h, 'first');
    await h.update({ enqueue: [again] });
    const { renewed } = await h.update({ renew: [{ ...item, for: 1_000 }] });
    expect(renewed).toMatchObject([{ cancelReason: undefined }]);
    await h.update({ release: [{ ...item, delay: 0 }] });
    expect(await stateOf(h)).toMatchObject({ attempts: 0, visibility: { kind: 'available' } });
    const [next] = await h.lease(QUEUE);
    expect(await stateOf(h)).toMatchObject({ history: undefined });
    await h.update({ enqueue: [again] });
    await cancel(h, 'second');
    await h.update({ release: [{ ...item, token: next?.token }] });
    expect(await endOf(h)).toMatchObject({ outcome: 'cancelled', cancelReason: 'second' });
  });

  test('tells a repeated renewal the same', async () => {
    const { h, item } = await withLeased();
    await using _ = h;
    await cancel(h, 'grüße');
    const renew = () => h.update({ renew: [{ ...item, for: 20_000 }], id: 'r' });
    const first = await renew();
    expect(await renew()).toEqual(first);
    await h.crash();
    expect(await h.clock.run(renew())).toEqual(first);
    expect(first.renewed).toMatchObject([{ cancelReason: 'grüße' }]);
  });
});

describe('a wait of the worker', () => {
  test('ends when the task is cancelled', async () => {
    const { h, token } = await withLeased();
    await using _ = h;
    const worker = h.waitFor(QUEUE, ['p'], { wait: 60_000, token });
    const other = h.waitFor(QUEUE, ['p'], { wait: 60_000 });
    await h.clock.advance(1);
    await cancel(h);
    expect(shown(await worker)).toEqual(['cancel-requested', 'too late']);
    expect(shown(await h.waitFor(QUEUE, ['p'], { token }))).toEqual(['cancel-requested', 'too late']);
    expect(h.engine.figures().taskWaits).toBe(1);
    await h.engine.resetLeases(parseQueueName(QUEUE));
    expect(shown(await other)).toEqual(['cancelled', 'too late']);
  });

  test('ends when its lease is not current any more, and goes on after a renewal', async () => {
    const { h, token, item } = await withLeased();
    await using _ = h;
    const worker = h.waitFor(QUEUE, ['p'], { wait: 60_000, token });
    await h.update({ renew: [{ ...item, for: 5_000, progress: 'half' }] });
    await h.clock.advance(5_000);
    expect(h.engine.figures().taskWaits).toBe(1);
    await h.lease(QUEUE);
    expect(shown(await worker)).toEqual(['lease-lost', undefined]);
    expect(shown(await h.waitFor(QUEUE, ['p'], { token }))).toEqual(['lease-lost', undefined]);
  });

  test('ends when the task does', async () => {
    const { h, token } = await withLeased();
    await using _ = h;
    const worker = h.waitFor(QUEUE, ['p'], { wait: 60_000, token });
    await h.clock.advance(1);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'p' }] });
    expect(shown(await worker)).toEqual(['removed', undefined]);
  });
});
