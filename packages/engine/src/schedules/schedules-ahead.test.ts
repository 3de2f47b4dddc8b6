import { parseQueueName } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { engineHarness } from '../testing/engine-harness.ts';
import { putSchedule, SCHEDULE } from './test-support.ts';

const MINUTE = 60_000;
const AHEAD = 20 * MINUTE;

test('schedules that wait for the future of a clock that was wrong are counted, until they run again', async () => {
  await using h = await engineHarness();
  const waiting = (): number => h.engine.figures().schedulesAhead;
  await putSchedule(h, { intervalMs: MINUTE });
  await putSchedule(h, { intervalMs: MINUTE }, 'g#other');
  await putSchedule(h, { intervalMs: MINUTE }, 'h#s');
  await putSchedule(h, { intervalMs: MINUTE }, 'h#paused');
  await h.engine.schedules.pause(parseQueueName('h#paused'), true);
  await h.clock.advance(2 * MINUTE);
  expect(waiting()).toBe(0);
  // The clock is ahead for some minutes, and each schedule runs.
  h.clock.stepWall(AHEAD);
  await h.clock.advance(3 * MINUTE);
  expect(waiting()).toBe(0);
  h.clock.stepWall(-AHEAD);
  await h.clock.advance(2_000);
  expect(waiting()).toBe(3);
  // A schedule that is put as a new one does not wait.
  await h.engine.schedules.delete(parseQueueName(SCHEDULE));
  await putSchedule(h, { intervalMs: MINUTE });
  await h.clock.advance(2 * MINUTE);
  expect(waiting()).toBe(2);
  await h.clock.advance(AHEAD);
  expect(waiting()).toBe(0);
});

test('they are found after a restart, too', async () => {
  await using h = await engineHarness();
  await putSchedule(h, { intervalMs: MINUTE });
  h.clock.stepWall(AHEAD);
  await h.clock.advance(MINUTE);
  h.lose();
  h.clock.stepWall(-AHEAD);
  await h.open();
  await h.clock.advance(2_000);
  expect(h.engine.figures()).toMatchObject({ schedules: 1, schedulesAhead: 1 });
});

test('a small difference of clocks is none', async () => {
  await using h = await engineHarness();
  await putSchedule(h, { intervalMs: 1000 });
  h.clock.stepWall(30_000);
  await h.clock.advance(2_000);
  h.clock.stepWall(-30_000);
  await h.clock.advance(2_000);
  expect(h.engine.figures().schedulesAhead).toBe(0);
});
