import { EnqueueMode, limits, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Pid } from '../domain/ids.ts';
import type { TaskState } from '../domain/task.ts';
import { type EngineHarness, engineHarness } from '../testing/engine-harness.ts';

async function stateOf(h: EngineHarness, queue = 'g#q'): Promise<TaskState | undefined> {
  const command = { queue: parseQueueName(queue), pids: ['p' as Pid], includeData: false };
  return (await h.engine.getTasks(command))[0]?.state;
}

const enqueue = (h: EngineHarness) =>
  h.update({ enqueue: [{ queue: 'g#q', pid: 'p', retry: { maxAttempts: 2, backoffInitialMs: 1_000 } }] });

/** Leases the task, and releases it because its worker stops. */
async function interrupt(h: EngineHarness, times = 1): Promise<void> {
  for (; times > 0; times--) {
    const [task] = await h.lease('g#q');
    await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token, interrupted: true }] });
  }
}

describe('an interrupted attempt', () => {
  test('does not count and leaves the task available, also after a crash', async () => {
    await using h = await engineHarness();
    await enqueue(h);
    await interrupt(h, 3);
    await h.crash();
    const state = await stateOf(h);
    expect(state).toMatchObject({ attempts: 0, visibility: { kind: 'available' } });
    expect(state?.history).toMatchObject({ interruptions: 3, failures: [] });
  });

  test('is counted apart from failures and from leases that are given back', async () => {
    await using h = await engineHarness();
    await enqueue(h);
    await interrupt(h);
    const [task] = await h.lease('g#q');
    await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token, refund: true }] });
    expect(h.engine.figures()).toMatchObject({ attemptsInterrupted: 1, attemptsFailed: 0 });
    expect((await stateOf(h))?.history?.interruptions).toBe(1);
  });

  test('counts as failed after too many of them, and the task ends', async () => {
    await using h = await engineHarness({ jitter: 0.5 });
    await enqueue(h);
    await interrupt(h, limits.interruptions);
    expect(await stateOf(h)).toMatchObject({ attempts: 0, history: { failures: [] } });
    await interrupt(h);
    const error = { message: 'interrupted more than 100 times', details: '' };
    const failed = {
      attempts: 1,
      visibility: { kind: 'hidden', lease: undefined },
      history: { failures: [{ error }] },
    };
    expect(await stateOf(h)).toMatchObject(failed);
    await h.clock.advance(1_000);
    await interrupt(h);
    expect(await stateOf(h)).toBeUndefined();
    const dead = { history: { interruptions: limits.interruptions, failures: [{ error }, { error }] } };
    expect(await stateOf(h, 'g#q.dead')).toMatchObject(dead);
    await h.update({ dequeue: [{ queue: 'g#q.dead', pid: 'p', requeue: true }] });
    expect((await stateOf(h))?.history?.interruptions).toBe(0);
  });

  test.each(['interrupted', 'refund', 'reset'])(
    'of a task that was enqueued again meanwhile leaves it all its attempts (%s)',
    async (how) => {
      await using h = await engineHarness();
      const again = { queue: 'g#q', pid: 'p', mode: EnqueueMode.ENQUEUE_MODE_RERUN };
      await h.update({ enqueue: [{ ...again, retry: { maxAttempts: 2 } }] });
      const fail = async (): Promise<void> => {
        const [task] = await h.lease('g#q');
        await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token, error: 'no' }] });
      };
      await fail();
      const [last] = await h.lease('g#q');
      await h.update({ enqueue: [again] });
      if (how === 'reset') await h.engine.resetLeases(parseQueueName('g#q'));
      else await h.update({ release: [{ queue: 'g#q', pid: 'p', token: last?.token, [how]: true }] });
      await fail();
      expect(await stateOf(h)).toMatchObject({ attempts: 1 });
      await fail();
      expect(await stateOf(h)).toBeUndefined();
    },
  );

  test('ends a task that was cancelled', async () => {
    await using h = await engineHarness();
    await enqueue(h);
    const [task] = await h.lease('g#q');
    await h.update({ dequeue: [{ queue: 'g#q', pid: 'p', cancel: 'no' }] });
    await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token, interrupted: true }] });
    expect(await stateOf(h)).toBeUndefined();
  });
});
