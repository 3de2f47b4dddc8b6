import type { GroupLimits } from '@taskmaster/server/domain';
import { describe, expect, test } from 'vitest';
import { engineHarness } from '../testing/engine-harness.ts';

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
