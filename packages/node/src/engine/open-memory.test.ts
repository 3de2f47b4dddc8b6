import { describe, expect, test } from 'vitest';
import { engineHarness, pidsOf } from '../testing/engine-harness.ts';

const HOUR = 3_600_000;

describe('the clock of a node that starts again', () => {
  test.each([-HOUR, HOUR])(
    'does not follow the system clock, set by %i ms, before the first checkpoint either',
    async (step) => {
      await using h = await engineHarness();
      await h.enqueue('mail', ['a']);
      const [a] = await h.lease('mail', { for: 10_000 });
      h.clock.stepWall(step);
      await h.crash();
      await h.clock.advance(9_999);
      expect(await h.lease('mail')).toEqual([]);
      expect(h.clock.now()).toBe((a?.until ?? 0) - 1);
      await h.clock.advance(1);
      expect(pidsOf(await h.lease('mail'))).toEqual(['a']);
    },
  );
});
