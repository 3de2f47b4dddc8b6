import { describe, expect, test } from 'vitest';
import { engineHarness } from '../testing/engine-harness.ts';

describe('counts', () => {
  test('show what was due when they were asked for, though a search for it was under way already', async () => {
    await using h = await engineHarness({ readMs: 10 });
    await h.clock.run(h.enqueue('mail', ['a', 'b']));
    await h.clock.run(h.lease('mail', { for: 100 }));
    await h.clock.run(h.lease('mail', { for: 105 }));
    await h.clock.advance(100);
    const earlier = h.counts('mail');
    await h.clock.advance(6);
    const later = h.counts('mail');
    expect(await h.clock.run(earlier)).toEqual({ available: 1, leased: 1, delayed: 0 });
    expect(await h.clock.run(later)).toEqual({ available: 2, leased: 0, delayed: 0 });
  });
});
