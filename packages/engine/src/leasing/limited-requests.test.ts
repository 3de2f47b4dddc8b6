import { describe, expect, test } from 'vitest';
import { Family } from '../ports/store.ts';
import { engineHarness, pidsOf } from '../testing/engine-harness.ts';
import { limitQueues } from '../testing/limit-queues.ts';

const A = 'shop#a';
const B = 'shop#b';

describe('requests for queues of a limit', () => {
  test.each([0, 5000])(
    'are answered while an expired lease of another queue cannot be read, with a wait of %i ms',
    async (wait) => {
      await using h = await engineHarness({ readMs: 10 });
      await h.clock.run(h.enqueue(A, ['a']));
      await h.clock.run(h.enqueue(B, ['b']));
      await h.clock.run(limitQueues(h.engine, 'shop#*', { maxLeased: 1 }));
      await h.clock.run(h.lease(A, { for: 20_000 }));
      await h.clock.run(h.close());
      await h.open();
      for (const { key } of h.disk.rowsOf(Family.due)) h.disk.corrupt(Family.due, key);
      await h.clock.advance(20_100);
      let got: readonly string[] | undefined;
      void h.lease(B, { wait }).then((tasks) => {
        got = pidsOf(tasks);
      });
      await h.clock.advance(wait + 1500);
      expect(got).toEqual([]);
    },
  );
});
