import type { PartitionId } from '@taskmaster/engine/domain';
import { putSchedule, ScheduleWorker, scheduleOf } from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { TwoNodes } from '../../../testing/two-nodes.ts';

const P = partitionOf('g', 4) as PartitionId;
const INTERVAL_MS = 250;

// The clocks of nodes differ. So a run may come earlier or later than at the other node, but it comes once.
test.each([0, 700, -700, 60_000])(
  'a schedule goes on where its group moves, whose clock is %i ms ahead',
  async (bIsAheadMs) => {
    const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs });
    await nodes.open();
    const worker = new ScheduleWorker();
    worker.start(nodes.a.h);
    worker.start(nodes.b.h);
    const { view } = await nodes.run(putSchedule(nodes.a.h, { intervalMs: INTERVAL_MS }));
    const from = view.record.anchorUnixMs;
    for (let move = 0; move < 20; move++) {
      await nodes.time.advance(300 + move * 17);
      const [source, target] = move % 2 === 0 ? [nodes.a, nodes.b] : [nodes.b, nodes.a];
      const { name } = target;
      await nodes.run(Promise.resolve(source.handOffs?.send(P, { nodeId: name, address: name })));
      expect(nodes.serving(P)).toEqual([name]);
      if (move % 5 === 4) {
        target.lose();
        await nodes.run(target.start());
        worker.start(target.h);
      }
    }
    // The moves end at node a. It may wait for the instants that b has decided ahead.
    await nodes.time.advance(2000 + Math.max(0, bIsAheadMs));
    const count = Math.floor((nodes.a.h.clock.wall() - 1000 - from) / INTERVAL_MS);
    expect(worker.missing(from, count, INTERVAL_MS)).toEqual([]);
    expect(worker.again).toEqual([]);
    const record = (await nodes.run(scheduleOf(nodes.a.h)))?.record;
    expect(record?.missed).toBe(0);
    expect(record?.runs).toBe(worker.seen.size);
  },
);

test('a schedule is due by the system clock of each node, not by the difference of their clocks', async () => {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, bIsAheadMs: 60_000 });
  await nodes.open();
  await nodes.run(putSchedule(nodes.a.h, { intervalMs: 120_000 }));
  const worker = new ScheduleWorker();
  worker.start(nodes.b.h);
  await nodes.run(Promise.resolve(nodes.a.handOffs?.send(P, { nodeId: 'b', address: 'b' })));
  await nodes.time.advance(50_000);
  expect(worker.seen.size).toBe(0);
  await nodes.time.advance(11_000);
  expect(worker.seen.size).toBe(1);
});
