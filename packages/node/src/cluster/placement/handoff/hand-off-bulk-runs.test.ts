import type { PartitionId } from '@taskmaster/engine/domain';
import { bulkRunOf, startBulk } from '@taskmaster/engine/testing';
import { BulkAction, BulkRunState, partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { TwoNodes } from '../../../testing/two-nodes.ts';

const P = partitionOf('orders', 4) as PartitionId;
const QUEUE = 'orders#new';
const MOVED = 'orders#moved';
const TASKS = 60;

test.each([600_000, -600_000])(
  'a bulk run goes on where it was when its group moves, and leaves later tasks alone, with a clock that is %i ms ahead',
  async (bIsAheadMs) => {
    const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs });
    await nodes.open();
    const { a, b } = nodes;
    const pids = Array.from({ length: TASKS }, (_, at) => `p${String(at).padStart(3, '0')}`);
    await nodes.run(a.h.enqueue(QUEUE, pids));
    await nodes.time.advance(10);
    await nodes.run(
      startBulk(a.h.engine, 'orders#n*', { action: BulkAction.BULK_ACTION_MOVE, target: MOVED, rate: 20 }),
    );
    await nodes.time.advance(1000);
    const before = (await nodes.run(bulkRunOf(a.h.engine, 'orders')))?.changed ?? 0;
    expect(before).toBeGreaterThan(0);
    expect(before).toBeLessThan(TASKS);
    await nodes.run(a.h.enqueue(QUEUE, ['z later']));
    await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
    expect(nodes.serving(P)).toEqual(['b']);
    await nodes.run(b.h.enqueue(QUEUE, ['z later still']));
    await nodes.time.advance(5000);

    const run = await nodes.run(bulkRunOf(b.h.engine, 'orders'));
    expect(run).toMatchObject({ state: BulkRunState.BULK_RUN_STATE_DONE, changed: TASKS, skipped: [] });
    expect(await nodes.run(b.h.counts(MOVED))).toEqual({ available: TASKS, leased: 0, delayed: 0 });
    expect(await nodes.run(b.h.counts(QUEUE))).toEqual({ available: 2, leased: 0, delayed: 0 });
  },
);

test.each([600_000, -600_000])(
  'a dead letter is as old after a move of its group as before, with a clock that is %i ms ahead',
  async (bIsAheadMs) => {
    const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs });
    await nodes.open();
    const { a, b } = nodes;
    await nodes.run(a.h.enqueue(QUEUE, ['a']));
    const [task] = await nodes.run(a.h.lease(QUEUE));
    // Without an error it has no failure, which would say when it died.
    await nodes.run(a.h.update({ release: [{ queue: QUEUE, pid: 'a', token: task?.token, deadLetter: true }] }));
    await nodes.time.advance(10_000);
    await nodes.run(Promise.resolve(a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
    const retry = { action: BulkAction.BULK_ACTION_RETRY };
    await nodes.run(startBulk(b.h.engine, `${QUEUE}.dead`, { ...retry, filter: { maxAgeMs: 9_000 } }, 'young'));
    await nodes.run(startBulk(b.h.engine, `${QUEUE}.dead`, { ...retry, filter: { minAgeMs: 20_000 } }, 'old'));
    await nodes.time.advance(1000);
    expect(await nodes.run(b.h.counts(`${QUEUE}.dead`))).toMatchObject({ available: 1 });
    const between = { minAgeMs: 9_000, maxAgeMs: 20_000 };
    await nodes.run(startBulk(b.h.engine, `${QUEUE}.dead`, { ...retry, filter: between }, 'between'));
    await nodes.time.advance(1000);
    expect(await nodes.run(b.h.counts(QUEUE))).toMatchObject({ available: 1 });
  },
);
