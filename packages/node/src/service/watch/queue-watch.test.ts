import { expect, test } from 'vitest';
import { STEP_MS, untilSample } from './queue-watch.ts';

test('each step has one sample, whether timers are early or late', () => {
  for (const began of [0, 1, 4_999, 5_000, 5_001, 9_999]) {
    for (const late of [-3, 0, 12, 4_000]) {
      const steps: number[] = [];
      for (let now = began; steps.length < 20; now += untilSample(now) + late) steps.push(Math.floor(now / STEP_MS));
      expect(steps, `began ${began}, late ${late}`).toEqual(steps.map((_, nth) => nth));
    }
  }
});
