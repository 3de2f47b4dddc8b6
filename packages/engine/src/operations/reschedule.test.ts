import { parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Pid } from '../domain/ids.ts';
import type { TaskState } from '../domain/task.ts';
import { type EngineHarness, engineHarness, pidsOf } from '../testing/engine-harness.ts';

const stateOf = async (h: EngineHarness, pid = 'p'): Promise<TaskState | undefined> => {
  const command = { queue: parseQueueName('g#q'), pids: [pid as Pid], includeData: false };
  return (await h.engine.getTasks(command))[0]?.state;
};
const hiddenUntil = async (h: EngineHarness): Promise<number | undefined> => {
  const visibility = (await stateOf(h))?.visibility;
  return visibility?.kind === 'hidden' ? visibility.until : undefined;
};
const change = (more: object) => ({ release: [{ queue: 'g#q', pid: 'p', waiting: true, ...more }] });

describe('an enqueue until an instant', () => {
  test('hides the task until then, and a waiting request gets it then', async () => {
    await using h = await engineHarness();
    const at = h.clock.now() + 5_000;
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', runAt: at }] });
    expect(await hiddenUntil(h)).toBe(at);
    const served: number[] = [];
    void h.lease('g#q', { wait: 60_000 }).then(() => served.push(h.clock.now()));
    await h.clock.advance(4_990);
    expect(served).toEqual([]);
    await h.clock.advance(110);
    expect(served).toHaveLength(1);
    expect((served[0] ?? 0) - at).toBeLessThanOrEqual(100);
  });

  test('in the past is available at once, and not older than it is', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', runAt: 1 }] });
    expect(await stateOf(h)).toMatchObject({ dueAt: h.clock.now(), visibility: { kind: 'available' } });
  });
});

describe('a change of the delay of a waiting task', () => {
  test.each([
    ['to a later instant', { runAt: 9_000_000_000_000 }, 9_000_000_000_000],
    ['to an earlier one', { delay: 10 }, 10],
  ])('%s, also after a crash', async (_what, more, until) => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', delay: 60_000 }] });
    const expected = until < 1_000 ? h.clock.now() + until : until;
    const { released } = await h.update(change(more));
    expect(released).toEqual([{ until: expected, deadLetterQueue: undefined }]);
    await h.crash();
    expect(await hiddenUntil(h)).toBe(expected);
  });

  test('makes it available now, and serves a request that waits', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', delay: 60_000 }] });
    const served: string[] = [];
    void h.lease('g#q', { wait: 60_000 }).then((tasks) => served.push(...pidsOf(tasks)));
    const { released } = await h.update(change({}));
    expect(released).toEqual([{ until: undefined, deadLetterQueue: undefined }]);
    await h.clock.advance(20);
    expect(served).toEqual(['p']);
  });

  test('hides an available task', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p' }] });
    await h.update(change({ delay: 1_000 }));
    expect(await h.lease('g#q')).toEqual([]);
    await h.clock.advance(1_010);
    expect(pidsOf(await h.lease('g#q'))).toEqual(['p']);
  });

  test('is refused while it is leased, and possible when the lease is over', async () => {
    await using h = await engineHarness();
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p' }] });
    await h.lease('g#q', { for: 100 });
    await expect(h.update(change({ delay: 1 }))).rejects.toMatchObject({
      items: [{ index: 0, reason: 'TASK_LEASED' }],
    });
    await h.clock.advance(150);
    await h.update(change({ delay: 5_000 }));
    expect(await hiddenUntil(h)).toBe(h.clock.now() + 5_000);
    expect((await stateOf(h))?.history?.failures).toHaveLength(1);
  });

  test('of a task that is not there is refused', async () => {
    await using h = await engineHarness();
    await expect(h.update(change({}))).rejects.toMatchObject({ reason: 'TASK_NOT_FOUND' });
  });
});

test('a release until an instant hides the task until then', async () => {
  await using h = await engineHarness();
  await h.update({ enqueue: [{ queue: 'g#q', pid: 'p' }] });
  const [task] = await h.lease('g#q');
  const runAt = h.clock.now() + 7_000;
  await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token, runAt }] });
  expect(await hiddenUntil(h)).toBe(runAt);
});
