import type { Partitions } from '@taskmaster/engine';
import type { PartitionId } from '@taskmaster/engine/domain';
import { VirtualClock, VirtualTime } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import type { HandOffs } from './handoff/hand-offs.ts';
import { Placement } from './placement.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const DESIRED = 'id-b';

/** A node that must hand over all its partitions, two at once. `tasks`: number of tasks in each partition. */
function placing(tasks: readonly number[]) {
  const time = new VirtualTime();
  const underWay = new Map<number, () => void>();
  const gone = new Set<number>();
  const partitions = {
    holding: (id: number) => ({ kind: gone.has(id) ? 'released' : 'serving' }),
    tasksIn: (id: number) => tasks[id],
  } as unknown as Partitions;
  const send = (id: number): Promise<void> => new Promise((resolve) => underWay.set(id, resolve));
  const placement = new Placement({
    partitions,
    nodeId: 'id-a',
    members: () => new Map(),
    maxConcurrentTransfers: 2,
    handOffs: { send } as unknown as HandOffs,
    clock: new VirtualClock({ time }),
    log: SILENT,
  });
  placement.update(
    tasks.map(() => DESIRED),
    () => 'b:1',
  );
  const end = async (id: number): Promise<void> => {
    gone.add(id);
    underWay.get(id)?.();
    underWay.delete(id);
    await time.advance(1);
  };
  return { end, moving: (): PartitionId[] => [...underWay.keys()] as PartitionId[] };
}

test('eight partitions with few tasks move at once if two large ones may', async () => {
  const { moving, end } = placing(Array(20).fill(1_000));
  expect(moving()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  await end(3);
  expect(moving()).toEqual([0, 1, 2, 4, 5, 6, 7, 8]);
});

test('no more large partitions move at once than are allowed', async () => {
  const { moving, end } = placing(Array(5).fill(1_001));
  expect(moving()).toEqual([0, 1]);
  await end(0);
  expect(moving()).toEqual([1, 2]);
});

test('a large partition among small ones gets its turn', async () => {
  const { moving, end } = placing([0, 0, 0, 0, 0, 5_000, 0, 0]);
  expect(moving()).toEqual([0, 1, 2, 3, 4]);
  await end(0);
  expect(moving()).toEqual([1, 2, 3, 4, 5]);
  await end(5);
  expect(moving()).toEqual([1, 2, 3, 4, 6, 7]);
});
