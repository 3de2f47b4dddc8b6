import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import type { Pid } from '../domain/ids.ts';
import { type EngineHarness, engineHarness } from '../testing/engine-harness.ts';

const textOf = (bytes: Uint8Array | undefined): string | undefined => bytes && Buffer.from(bytes).toString();

async function checkpointOf(h: EngineHarness, queue = 'g#q'): Promise<string | undefined> {
  const command = { queue: parseQueueName(queue), pids: ['p' as Pid], includeData: false };
  return textOf((await h.engine.getTasks(command))[0]?.state?.history?.checkpoint);
}

const leave = (h: EngineHarness, task: LeasedTask | undefined, checkpoint?: string) =>
  h.update({
    renew: [
      { queue: 'g#q', pid: 'p', token: task?.token, for: 1_000, ...(checkpoint !== undefined && { checkpoint }) },
    ],
  });

async function withCheckpoint(h: EngineHarness, retry?: { maxAttempts: number }): Promise<LeasedTask | undefined> {
  await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', ...(retry && { retry }) }] });
  const [task] = await h.lease('g#q');
  await leave(h, task, 'page 3');
  return task;
}

describe('a checkpoint', () => {
  test('is kept until the next one, also after a crash and by a renewal without one', async () => {
    await using h = await engineHarness();
    const task = await withCheckpoint(h);
    await h.crash();
    expect(await checkpointOf(h)).toBe('page 3');
    await leave(h, task);
    expect(await checkpointOf(h)).toBe('page 3');
    await leave(h, task, 'page 4');
    expect(await checkpointOf(h)).toBe('page 4');
    await leave(h, task, '');
    expect(await checkpointOf(h)).toBeUndefined();
  });

  test.each([
    ['an expired lease', async (h: EngineHarness) => h.clock.advance(1_100)],
    ['a release', (h: EngineHarness) => h.update({ release: [{ queue: 'g#q', pid: 'p' }] })],
    ['a refunded release', (h: EngineHarness) => h.update({ release: [{ queue: 'g#q', pid: 'p', refund: true }] })],
    ['a failure', (h: EngineHarness) => h.update({ release: [{ queue: 'g#q', pid: 'p', error: 'no' }] })],
    ['a reset', (h: EngineHarness) => h.engine.resetLeases(parseQueueName('g#q'))],
  ])('comes with the next attempt after %s', async (_what, end) => {
    await using h = await engineHarness();
    await withCheckpoint(h);
    await end(h);
    const [again] = await h.lease('g#q');
    expect(textOf(again?.history?.checkpoint)).toBe('page 3');
  });

  test('goes with a dead letter and back', async () => {
    await using h = await engineHarness();
    await withCheckpoint(h, { maxAttempts: 1 });
    await h.update({ release: [{ queue: 'g#q', pid: 'p' }] });
    expect(await checkpointOf(h, 'g#q.dead')).toBe('page 3');
    await h.update({ dequeue: [{ queue: 'g#q.dead', pid: 'p', requeue: true }] });
    expect(await checkpointOf(h)).toBe('page 3');
  });

  test('goes with the task', async () => {
    await using h = await engineHarness();
    const task = await withCheckpoint(h);
    await h.update({ dequeue: [{ queue: 'g#q', pid: 'p', token: task?.token }] });
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p' }] });
    expect(await checkpointOf(h)).toBeUndefined();
  });

  test('goes with the run of a task that was enqueued again, and stays if that run fails', async () => {
    await using h = await engineHarness();
    const task = await withCheckpoint(h);
    const again = () =>
      h.update({ enqueue: [{ queue: 'g#q', pid: 'p', mode: EnqueueMode.ENQUEUE_MODE_RERUN, data: 'later' }] });
    await again();
    await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token, error: 'no' }] });
    const [next] = await h.lease('g#q');
    expect(textOf(next?.history?.checkpoint)).toBe('page 3');
    await again();
    await h.update({ dequeue: [{ queue: 'g#q', pid: 'p', token: next?.token }] });
    expect(await checkpointOf(h)).toBeUndefined();
  });

  test('counts for the size of the reply to a lease', async () => {
    await using h = await engineHarness();
    for (const pid of ['p', 'r']) {
      await h.update({ enqueue: [{ queue: 'g#q', pid }] });
      const [task] = await h.lease('g#q');
      const checkpoint = 'x'.repeat(10_000);
      await h.update({ renew: [{ queue: 'g#q', pid, token: task?.token, for: 1_000, checkpoint }] });
    }
    await h.clock.advance(1_100);
    expect(await h.lease('g#q', { max: 2, maxBytes: 15_000 })).toHaveLength(1);
  });
});
