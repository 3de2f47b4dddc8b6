import { MissedRuns, parseQueueName } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { engineHarness } from '../testing/engine-harness.ts';
import { putSchedule, SCHEDULE } from './test-support.ts';

const { MISSED_RUNS_ONCE: once } = MissedRuns;

test('the node counts its schedules and their runs, and how late they came', async () => {
  const late: number[] = [];
  await using h = await engineHarness({ onRun: (ms) => late.push(ms), groupLimits: () => ({ tasks: 4 }) });
  await putSchedule(h, { intervalMs: 1000 });
  await putSchedule(h, { intervalMs: 1000, missedRuns: once, skipWhileRunning: true }, 'g#poll');
  await putSchedule(h, { intervalMs: 60_000 }, 'other#s');
  await h.clock.advance(2100);
  // Two runs of the first one, and one of the second, whose next one is skipped.
  expect(h.engine.figures()).toMatchObject({ schedules: 3, runsEnqueued: 3, runsMissed: 0, runsSkipped: 1 });
  expect(late).toHaveLength(3);
  for (const ms of late) expect(ms).toBeLessThanOrEqual(100);
  await h.engine.schedules.trigger(parseQueueName(SCHEDULE));
  await h.engine.schedules.delete(parseQueueName('g#poll'));
  // The quota is reached now, so no further run comes.
  await h.clock.advance(3000);
  expect(h.engine.figures()).toMatchObject({ schedules: 2, runsEnqueued: 3, runsMissed: 0, runsTriggered: 1 });
});

test('runs that were missed during an outage are counted when they are decided', async () => {
  const late: number[] = [];
  await using h = await engineHarness({ onRun: (ms) => late.push(ms) });
  await putSchedule(h, { intervalMs: 1000, missedRuns: once });
  h.lose();
  await h.clock.advance(4500);
  await h.open();
  await h.clock.advance(200);
  expect(h.engine.figures()).toMatchObject({ schedules: 1, runsEnqueued: 1, runsMissed: 3 });
  expect(late).toHaveLength(1);
  expect(late[0]).toBeGreaterThanOrEqual(500);
});
