import { MissedRuns, parseQueueName } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { type EngineHarness, engineHarness } from '../testing/engine-harness.ts';
import { putSchedule, scheduleOf, TARGET, waitingIn } from './test-support.ts';

const { MISSED_RUNS_ALL: all, MISSED_RUNS_ONCE: once } = MissedRuns;
const WEEK = 7 * 86_400_000;

/** The node is down until then. */
async function outage(h: EngineHarness, ms: number): Promise<void> {
  h.lose();
  await h.clock.advance(ms);
  await h.open();
}

test('after a long outage the latest run of a short interval comes with one commit', async () => {
  await using h = await engineHarness();
  await putSchedule(h, { intervalMs: 100, missedRuns: once });
  await outage(h, WEEK + 50);
  const { atoms } = h.engine.figures();
  // Until the first search.
  await h.clock.advance(110);
  expect(h.engine.figures().atoms).toBe(atoms + 1);
  expect((await scheduleOf(h))?.record).toMatchObject({ runs: 1, missed: WEEK / 100 });
  expect(await waitingIn(h)).toHaveLength(1);
});

test('a schedule with many missed runs does not delay the others of its group', async () => {
  await using h = await engineHarness({ writeMs: 5 });
  const { clock } = h;
  await clock.run(putSchedule(h, { intervalMs: 1000, missedRuns: all }, 'g#a'));
  for (const name of ['b', 'c']) await clock.run(putSchedule(h, { intervalMs: 1000_000 }, `g#${name}`));
  await outage(h, 1000_500);
  await clock.advance(400);
  const command = { queue: parseQueueName(TARGET), kind: 'head' as const, limit: 2000, includeData: false };
  const tasks = await clock.run(h.engine.peekTasks(command));
  expect(tasks).toHaveLength(1002);
  const enqueuedAt = (schedule: string): number[] =>
    tasks.flatMap(({ pid, state }) => (pid.endsWith(`/${schedule}`) && state ? [state.enqueuedAt] : []));
  const latest = Math.max(...enqueuedAt('a'));
  for (const name of ['b', 'c']) expect(enqueuedAt(name)[0]).toBeLessThan(latest - 20);
});

test('many schedules that are due at one instant are enqueued with few commits', async () => {
  await using h = await engineHarness();
  const count = 1000;
  for (let number = 0; number < count; number++) await putSchedule(h, { intervalMs: 1000_000 }, `g#s${number}`);
  const { atoms } = h.engine.figures();
  await h.clock.advance(1000_100);
  expect(await waitingIn(h)).toHaveLength(count);
  expect(h.engine.figures().atoms - atoms).toBeLessThan(20);
});

test('schedules with much data are enqueued in commits of a bounded size', async () => {
  await using h = await engineHarness();
  const data = Buffer.alloc(60_000);
  for (let number = 0; number < 60; number++) await putSchedule(h, { intervalMs: 1000_000, data }, `g#s${number}`);
  const { commits, commitBytes } = h.engine.figures();
  await h.clock.advance(1000_100);
  expect(await waitingIn(h)).toHaveLength(60);
  const now = h.engine.figures();
  expect((now.commitBytes - commitBytes) / (now.commits - commits)).toBeLessThan(2 * 1024 * 1024);
  expect(now.commits - commits).toBeGreaterThan(5);
});
