import { BulkAction, BulkRunState, EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { Refusal } from '../../domain/refusal.ts';
import { bulkRunOf, startBulk } from '../../testing/bulk-runs.ts';
import { type EngineHarness, engineHarness } from '../../testing/engine-harness.ts';

const MIB = 1024 * 1024;
const PARENTS = 'g#parents';
const CHILDREN = 'g#children';
const range = (count: number): number[] => Array.from({ length: count }, (_, at) => at);

/** What they keep is more than may be read at once: what one task may need. */
const COUNT = 120;

/** Children of different parents, which keep 240 KiB each, and a task without a parent. */
async function withFullParents(): Promise<EngineHarness> {
  const h = await engineHarness({ config: { maxInFlightBytes: 8 * MIB, cacheBytes: 1 } });
  const data = 'x'.repeat(60 * 1024);
  for (const at of range(COUNT)) {
    const parent = { queue: PARENTS, pid: `p${at}` };
    const signals = ['1', '2', '3', '4'].map((signalId) => ({
      ...parent,
      mode: EnqueueMode.ENQUEUE_MODE_SIGNAL,
      data,
      signalId,
    }));
    await h.update({ enqueue: [{ ...parent, waitFor: { signals: 5, collect: true } }, ...signals] });
  }
  const children = range(COUNT).map((at) => ({
    queue: CHILDREN,
    pid: `c${at}`,
    retry: { maxAttempts: 1 },
    parent: { queue: PARENTS, pid: `p${at}`, onFailure: 'continue' as const },
  }));
  await h.update({ enqueue: [...children, { queue: CHILDREN, pid: 'z' }] });
  // All rows are written meanwhile.
  await h.clock.advance(3_000);
  return h;
}

describe('ends of children whose parents keep much are told', () => {
  test('when leases expire', async () => {
    await using h = await withFullParents();
    await h.clock.run(h.lease(CHILDREN, { max: 1000, for: 10_000 }));
    await h.clock.advance(3_000);
    await h.crash();
    await h.clock.advance(60_000);
    expect(await h.clock.run(h.lease(CHILDREN))).toMatchObject([{ pid: 'z' }]);
    expect(await h.clock.run(h.counts(PARENTS))).toMatchObject({ available: COUNT });
    expect(await h.clock.run(h.counts(`${CHILDREN}.dead`))).toMatchObject({ available: COUNT });
  });

  test('when their queue is deleted, and later flows begin', async () => {
    await using h = await withFullParents();
    await h.crash();
    await h.clock.run(h.engine.deleteQueue(parseQueueName(CHILDREN)));
    await h.clock.advance(60_000);
    expect(await h.clock.run(h.counts(PARENTS))).toMatchObject({ available: COUNT });
    await h.clock.run(h.update({ enqueue: [{ queue: 'g#other', pid: 'new', waitFor: 1 }] }));
  });

  test('when cancelled workers lose their leases', async () => {
    await using h = await withFullParents();
    await h.clock.run(h.lease(CHILDREN, { max: 1000, for: 600_000 }));
    const dequeue = range(COUNT).map((at) => ({ queue: CHILDREN, pid: `c${at}`, cancel: 'enough' }));
    await h.clock.run(h.update({ dequeue }));
    await h.clock.advance(3_000);
    await h.crash();
    await h.clock.run(h.engine.resetLeases(parseQueueName(CHILDREN)));
    expect(await h.clock.run(h.counts(PARENTS))).toMatchObject({ available: COUNT });
  });

  test('when a bulk run cancels them', async () => {
    await using h = await withFullParents();
    await h.crash();
    await h.clock.run(startBulk(h.engine, CHILDREN, { action: BulkAction.BULK_ACTION_CANCEL }, 'run'));
    await h.clock.advance(60_000);
    const done = { state: BulkRunState.BULK_RUN_STATE_DONE, changed: COUNT + 1, lookedAt: COUNT + 1, skipped: [] };
    expect(await h.clock.run(bulkRunOf(h.engine, 'g', 'run'))).toMatchObject(done);
    expect(await h.clock.run(h.counts(PARENTS))).toMatchObject({ available: COUNT });
  });

  test('when many updates complete them in one batch: some have to come again', async () => {
    await using h = await withFullParents();
    await h.crash();
    let left = range(COUNT).map((at) => ({ queue: CHILDREN, pid: `c${at}` }));
    const rounds: number[] = [];
    while (left.length > 0) {
      const outcomes = await h.clock.run(h.batch(left.map((task) => ({ dequeue: [task] }))));
      const refused = outcomes.map((outcome) => outcome instanceof Refusal);
      for (const outcome of outcomes) if (outcome instanceof Refusal) expect(outcome.reason).toBe('OVERLOADED');
      left = left.filter((_, at) => refused[at]);
      rounds.push(left.length);
    }
    expect(rounds.length).toBeGreaterThan(1);
    expect(await h.clock.run(h.counts(PARENTS))).toMatchObject({ available: COUNT });
  });

  test('by one update that completes one child of a hundred of them', async () => {
    await using h = await withFullParents();
    const parents = range(100).map((at) => ({ queue: PARENTS, pid: `p${at}` }));
    await h.update({ enqueue: [{ queue: CHILDREN, pid: 'of all', parents }] });
    await h.clock.advance(3_000);
    await h.crash();
    await h.clock.run(h.update({ dequeue: [{ queue: CHILDREN, pid: 'of all', result: 'done' }] }));
    expect(await h.clock.run(h.counts(PARENTS))).toMatchObject({ available: 100 });
  });
});
