import { expect, test } from 'vitest';
import { EngineHarness } from '../testing/engine-harness.ts';
import { putSchedule, ScheduleWorker, scheduleOf } from './test-support.ts';

const INTERVAL_MS = 100;
const RUNS = 20;
/** Durable steps of the disk in which it crashes, one in each run. */
const STEPS = 40;
const LATENCY = { writeMs: 3, syncMs: 5, readMs: 1 };

test.each([
  { end: 'crash', atomicBatches: true },
  { end: 'crash', atomicBatches: false },
  { end: 'kill', atomicBatches: true },
] as const)(
  'at any durable step the end of the node neither loses nor repeats a run ($end, atomic batches: $atomicBatches)',
  async ({ end, atomicBatches }) => {
    for (let step = 1; step <= STEPS; step++) {
      const h = new EngineHarness({ ...LATENCY, atomicBatches, seed: step });
      await h.open();
      const { view } = await h.clock.run(putSchedule(h, { intervalMs: INTERVAL_MS }));
      const from = view.record.anchorUnixMs;
      const worker = new ScheduleWorker();
      worker.start(h);
      const last = h.disk.steps + step;
      let isDown = false;
      h.disk.onStep = ({ number }) => {
        if (number !== last) return;
        isDown = true;
        h.clock.stop();
        h.disk[end]();
      };
      await h.clock.advance(1000);
      expect(isDown, `step ${step} was not reached`).toBe(true);
      h.disk.onStep = undefined;
      await h.crash();
      worker.start(h);
      await h.clock.advance(from + RUNS * INTERVAL_MS + 1000 - h.clock.wall());
      expect(worker.missing(from, RUNS, INTERVAL_MS), `ended at step ${step}`).toEqual([]);
      expect(worker.again, `ended at step ${step}`).toEqual([]);
      expect((await h.clock.run(scheduleOf(h)))?.record.missed).toBe(0);
      await h[Symbol.asyncDispose]();
    }
  },
  60_000,
);
