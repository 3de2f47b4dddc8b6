import { EnqueueMode, limits } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { GroupLimits } from '../domain/group-limits.ts';
import { Refusal } from '../domain/refusal.ts';
import { putSchedule } from '../schedules/test-support.ts';
import { type EngineHarness, engineHarness } from '../testing/engine-harness.ts';

const setUp = (limits: GroupLimits) =>
  engineHarness({ groupLimits: (group) => (group === 'small' ? limits : undefined) });

const refused = (quota: string, limit: number, used: number) => ({
  reason: 'QUOTA_EXCEEDED',
  metadata: { quota, limit: String(limit), used: String(used), group: 'small' },
});

describe('a group with a quota', () => {
  test('of tasks takes no more, and pipelines in it go on', async () => {
    await using h = await setUp({ tasks: 2 });
    await h.update({ enqueue: [{ queue: 'small#a', pid: '1' }] });
    const two = ['2', '3'].map((pid) => ({ queue: 'small#a', pid }));
    await expect(h.update({ enqueue: two })).rejects.toMatchObject(refused('tasks', 2, 1));
    await h.update({ enqueue: [{ queue: 'small#b', pid: '2' }] });
    await expect(h.update({ enqueue: [{ queue: 'small#b', pid: '3' }] })).rejects.toMatchObject(refused('tasks', 2, 2));
    await h.update({ dequeue: [{ queue: 'small#b', pid: '2' }], enqueue: [{ queue: 'small#c', pid: '2' }] });
    await h.update({ enqueue: [{ queue: 'large#a', pid: '1' }] });
    await h.update({ dequeue: [{ queue: 'small#a', pid: '1' }] });
    await h.update({ enqueue: [{ queue: 'small#b', pid: '3' }] });
  });

  test('of tasks does not count results and keys', async () => {
    await using h = await setUp({ tasks: 1, bytes: 3, queues: 1 });
    const next = (pid: string) => [{ queue: 'small#a', pid, key: `key of ${pid}`, data: 'abc' }];
    await h.update({ enqueue: next('1') });
    await h.update({ dequeue: [{ queue: 'small#a', pid: '1', result: 'a long result' }], enqueue: next('2') });
    await expect(h.update({ enqueue: next('3') })).rejects.toMatchObject(refused('tasks', 1, 1));
  });

  test('of bytes counts payloads, also those that replace others', async () => {
    await using h = await setUp({ bytes: 10 });
    await h.update({ enqueue: [{ queue: 'small#a', pid: '1', data: '1234567890' }] });
    await expect(h.update({ enqueue: [{ queue: 'small#a', pid: '2', data: '1' }] })).rejects.toMatchObject(
      refused('bytes', 10, 10),
    );
    await h.update({ enqueue: [{ queue: 'small#a', pid: '2' }] });
  });

  test('of bytes counts signals that come before their tasks, until these are there', async () => {
    await using h = await setUp({ bytes: 1_000 });
    const signal = (pid: string, length = 400) => ({
      enqueue: [{ queue: 'small#a', pid, mode: EnqueueMode.ENQUEUE_MODE_SIGNAL, data: 'x'.repeat(length) }],
    });
    await h.update(signal('early'));
    const kept = h.engine.limitedGroups().next().value?.usage.bytes ?? 0;
    expect(kept).toBeGreaterThanOrEqual(400);
    await h.update(signal('early'));
    const filled = { reason: 'QUOTA_EXCEEDED', metadata: { quota: 'bytes' } };
    await expect(h.update(signal('early'))).rejects.toMatchObject(filled);
    await expect(h.update(signal('other'))).rejects.toMatchObject(filled);
    // In one batch, too: what is before counts.
    await h.crash();
    await h.update({ enqueue: [{ queue: 'small#a', pid: 'early', waitFor: 9 }] });
    const outcomes = await h.batch([signal('1'), signal('2'), signal('3'), signal('early')]);
    const refused = outcomes.map((outcome) => (outcome instanceof Refusal ? outcome.reason : 'taken'));
    expect(refused).toEqual(['taken', 'taken', 'QUOTA_EXCEEDED', 'taken']);
    await expect(h.update({ enqueue: [{ queue: 'small#b', pid: '1', data: 'x'.repeat(400) }] })).rejects.toMatchObject(
      filled,
    );
    await h.clock.advance(limits.signalRetentionMs + 1_000);
    expect(h.engine.limitedGroups().next().value?.usage.bytes).toBe(0);
  });

  test('of queues creates no more, except for dead tasks', async () => {
    await using h = await setUp({ queues: 1 });
    await h.update({ enqueue: [{ queue: 'small#a', pid: '1', retry: { maxAttempts: 1, deadLetterQueue: 'dead' } }] });
    await expect(h.update({ enqueue: [{ queue: 'small#b', pid: '1' }] })).rejects.toMatchObject(
      refused('queues', 1, 1),
    );
    const [task] = await h.lease('small#a', {});
    await h.update({ release: [{ queue: 'small#a', pid: '1', token: task?.token }] });
    expect(h.engine.figures().queues).toBe(2);
  });

  test('counts the same after a restart and after the deletion of a queue', async () => {
    await using h = await setUp({ tasks: 1_000 });
    const usage = () => Array.from(h.engine.limitedGroups(), ({ usage: used }) => ({ ...used }));
    await h.update({ enqueue: ['1', '2', '3'].map((pid) => ({ queue: 'small#a', pid, data: pid })) });
    await h.update({ enqueue: [{ queue: 'small#b', pid: '1', data: '12345' }] });
    await h.update({ dequeue: [{ queue: 'small#a', pid: '2' }] });
    expect(usage()).toEqual([{ queues: 2, tasks: 3, bytes: 7 }]);
    await h.crash();
    expect(usage()).toEqual([{ queues: 2, tasks: 3, bytes: 7 }]);
    await h.clock.run(h.engine.deleteQueue({ group: 'small', name: 'b' }));
    expect(usage()).toEqual([{ queues: 1, tasks: 2, bytes: 2 }]);
  });
});

/** Attempts that have ended count as ended, although no request has looked at their queue since. */
describe.each([
  ['without a look', () => Promise.resolve()],
  ['after a look', async (h: EngineHarness) => void (await h.counts('small#a'))],
])('what a group holds, %s', (_when, look) => {
  const FILLED = { reason: 'QUOTA_EXCEEDED' };
  const ONCE = { maxAttempts: 1 };
  const enqueue = (queue: string, pid = '1') => ({
    enqueue: [{ queue: `small#${queue}`, pid, data: '1', retry: ONCE }],
  });

  test('has no cancelled task whose lease is over', async () => {
    await using h = await setUp({ tasks: 1, bytes: 1 });
    await h.update(enqueue('a'));
    await h.lease('small#a', { for: 20 });
    await h.update({ dequeue: [{ queue: 'small#a', pid: '1', cancel: 'because' }] });
    await expect(h.update(enqueue('b'))).rejects.toMatchObject(FILLED);
    await h.clock.advance(20);
    await look(h);
    await h.clock.run(h.update(enqueue('b')));
    await expect(h.update(enqueue('b', '2'))).rejects.toMatchObject(FILLED);
  });

  test('has one dead letter of a task', async () => {
    await using h = await setUp({ tasks: 2 });
    for (const _attempt of ['first', 'second']) {
      await h.update(enqueue('a'));
      await h.lease('small#a', { for: 20 });
      await h.clock.advance(20);
    }
    await look(h);
    await h.clock.run(h.update(enqueue('b')));
    await expect(h.update(enqueue('b', '2'))).rejects.toMatchObject(FILLED);
  });

  test('has the dead-letter queue of a last attempt that is over', async () => {
    await using h = await setUp({ queues: 2 });
    await h.update(enqueue('a'));
    await h.lease('small#a', { for: 20 });
    await h.clock.advance(20);
    await look(h);
    await expect(h.clock.run(h.update(enqueue('b')))).rejects.toMatchObject(FILLED);
    await h.clock.run(h.update(enqueue('a.dead', '2')));
  });

  test('leaves room for the runs of schedules', async () => {
    await using h = await setUp({ tasks: 1 });
    // The run is decided between two searches for dead tasks.
    await h.clock.advance(200);
    await h.clock.run(putSchedule(h, { queue: 'small#b' }, 'small#hourly'));
    await h.update(enqueue('a'));
    await h.lease('small#a', { for: 950 });
    await h.update({ dequeue: [{ queue: 'small#a', pid: '1', cancel: 'because' }] });
    await h.clock.advance(950);
    await look(h);
    await h.clock.advance(150);
    expect(await h.counts('small#b')).toMatchObject({ available: 1 });
  });

  test('leaves room for a triggered run', async () => {
    await using h = await setUp({ tasks: 1 });
    await h.update(enqueue('a'));
    await h.lease('small#a', { for: 20 });
    await h.update({ dequeue: [{ queue: 'small#a', pid: '1', cancel: 'because' }] });
    await h.clock.run(putSchedule(h, { queue: 'small#b' }, 'small#hourly'));
    await h.clock.advance(20);
    await look(h);
    await h.clock.run(h.engine.schedules.trigger({ group: 'small', name: 'hourly' }));
    expect(await h.counts('small#b')).toMatchObject({ available: 1 });
  });
});
