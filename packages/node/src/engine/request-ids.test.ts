import { partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { engineHarness } from '../testing/engine-harness.ts';

/** Memory forgets an id as soon as it may. */
const FORGETFUL = { requestIdBytes: 1 };
const mail = { enqueue: [{ queue: 'mail', data: 'hello' }], id: 'once' };

describe('a request that is repeated', () => {
  test.each([
    ['in the same turn', { config: FORGETFUL }],
    ['in the same turn, on a slow disk', { config: FORGETFUL, writeMs: 5, syncMs: 5, readMs: 1 }],
    ['in the same turn, without atomic batches', { config: FORGETFUL, writeMs: 5, syncMs: 5, atomicBatches: false }],
    ['with everything in memory', {}],
  ])('%s gets the first outcome and is not applied again', async (_how, options) => {
    await using h = await engineHarness(options);
    const calls = [h.update(mail), h.update(mail), h.update(mail)];
    const [first, ...others] = await h.clock.run(Promise.all(calls));
    for (const other of others) expect(other).toEqual(first);
    expect(await h.clock.run(h.update(mail))).toEqual(first);
    expect(await h.clock.run(h.counts('mail'))).toMatchObject({ available: 1 });
  });

  test.each([true, false])('across a crash gets the first outcome (memory forgets: %s)', async (forgets) => {
    await using h = await engineHarness({ config: forgets ? FORGETFUL : {} });
    const first = await h.update(mail);
    const [task] = await h.lease('mail');
    await h.update({ dequeue: [{ queue: 'mail', pid: task?.pid ?? '', token: task?.token }] });
    await h.crash();
    expect(await h.update(mail)).toEqual(first);
    expect(await h.lease('mail')).toEqual([]);
  });

  test('gets the first outcome while another one with its id comes and goes', async () => {
    await using h = await engineHarness({ config: { ...FORGETFUL, cacheBytes: 1 }, readMs: 20 });
    await h.clock.run(h.enqueue('mail', ['a', 'b']));
    await h.crash();
    const replaceA = {
      enqueue: [
        { queue: 'mail', pid: 'a' },
        { queue: 'mail', data: 'new' },
      ],
      id: 'once',
    };
    const slow = h.update(replaceA);
    await h.clock.advance(30);
    const quick = h.update(replaceA);
    expect(await h.clock.run(quick)).toEqual(await h.clock.run(slow));
    expect(await h.clock.run(h.counts('mail'))).toMatchObject({ available: 3 });
  });

  test('after its window is a new request', async () => {
    await using h = await engineHarness({ config: { requestIdWindowMs: 1000 } });
    await h.update(mail);
    await h.clock.advance(2001);
    await h.update(mail);
    expect(await h.counts('mail')).toMatchObject({ available: 2 });
  });

  // How many ids push out exactly the two depends on what one weighs.
  test.each([9, 10, 11, 12, 13])(
    'is known within its window, though an older one is forgotten after it (%i)',
    async (n) => {
      const config = { requestIdBytes: 3000, requestIdWindowMs: 10_000 };
      await using h = await engineHarness({ config });
      // Rows are loaded partition by partition, so here the younger id comes first.
      const [low = '', high = ''] = ['g', 'h'].sort((a, b) => partitionOf(a, 1024) - partitionOf(b, 1024));
      await h.update({ enqueue: [{ queue: `${high}#mail`, pid: 'a' }], id: 'older' });
      await h.clock.advance(19_000);
      const younger = { enqueue: [{ queue: `${low}#mail`, data: 'hello' }], id: 'younger' };
      const first = await h.update(younger);
      await h.crash();
      for (let i = 0; i < n; i++) await h.update({ enqueue: [{ queue: 'other', pid: `${i}` }], id: `${i}` });
      await h.clock.advance(1001);
      expect(await h.update(younger)).toEqual(first);
      expect(await h.counts(`${low}#mail`)).toMatchObject({ available: 1 });
    },
  );
});
