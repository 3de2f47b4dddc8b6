import { parseQueueName } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import type { Pid } from '../domain/ids.ts';
import type { Progress } from '../domain/task.ts';
import { type EngineHarness, engineHarness } from '../testing/engine-harness.ts';

async function progressOf(h: EngineHarness, queue = 'g#q'): Promise<Progress | undefined> {
  const command = { queue: parseQueueName(queue), pids: ['p' as Pid], includeData: false };
  return (await h.engine.getTasks(command))[0]?.state?.history?.progress;
}

const report = (h: EngineHarness, task: LeasedTask | undefined, progress?: string) =>
  h.update({
    renew: [{ queue: 'g#q', pid: 'p', token: task?.token, for: 1_000, ...(progress !== undefined && { progress }) }],
  });

test('progress is kept until the next report, also after a crash and in the next attempt', async () => {
  await using h = await engineHarness();
  await h.update({ enqueue: [{ queue: 'g#q', pid: 'p' }] });
  const [task] = await h.lease('g#q');
  await report(h, task, 'half');
  const at = h.clock.now();
  await h.crash();
  expect(await progressOf(h)).toEqual({ at, text: 'half' });
  await report(h, task);
  expect(await progressOf(h)).toEqual({ at, text: 'half' });
  await h.clock.advance(1_100);
  const [again] = await h.lease('g#q');
  expect(again).toMatchObject({ attempt: 2, history: { progress: { text: 'half' } } });
  await report(h, again, '');
  expect(await progressOf(h)).toBeUndefined();
});

test('a dead letter has the progress of its last attempt', async () => {
  await using h = await engineHarness();
  await h.update({ enqueue: [{ queue: 'g#q', pid: 'p', retry: { maxAttempts: 1 } }] });
  const [task] = await h.lease('g#q');
  await report(h, task, 'half');
  await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token }] });
  expect(await progressOf(h, 'g#q.dead')).toMatchObject({ text: 'half' });
});
