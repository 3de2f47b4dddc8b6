import type { PartitionId } from '@taskmaster/engine/domain';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HolderView } from './holder-view.ts';

const P = 3 as PartitionId;

test('the later epoch counts, even if the earlier one arrives later', () => {
  const view = new HolderView(8);
  expect(view.learn(P, { nodeId: 'b', epoch: 2 })).toBe(true);
  expect(view.learn(P, { nodeId: 'a', epoch: 1 })).toBe(false);
  expect(view.learn(P, { nodeId: 'b', epoch: 2 })).toBe(false);
  expect(view.get(P)).toEqual({ nodeId: 'b', epoch: 2 });
});

test('partitions that the cluster does not have are ignored', () => {
  const view = new HolderView(8);
  expect(view.learn(8 as PartitionId, { nodeId: 'a', epoch: 1 })).toBe(false);
  expect(view.learn(-1 as PartitionId, { nodeId: 'a', epoch: 1 })).toBe(false);
  expect([...view.entries()]).toEqual([]);
});

test('nodes with the same reports have the same view', () => {
  const news = fc.array(
    fc.record({ id: fc.nat({ max: 3 }), nodeId: fc.constantFrom('a', 'b', 'c'), epoch: fc.nat(4) }),
  );
  fc.assert(
    fc.property(news, (heard) => {
      const [one, other] = [new HolderView(4), new HolderView(4)];
      for (const { id, ...holder } of heard) one.learn(id as PartitionId, holder);
      for (const { id, ...holder } of [...heard].reverse()) other.learn(id as PartitionId, holder);
      expect([...other.entries()]).toEqual([...one.entries()]);
    }),
  );
});

test('only the newest counts of a holder are kept, and only while it holds', () => {
  const view = new HolderView(8);
  const counts = (tasks: number, countedMs: number) => ({ queues: 1, tasks, countedMs });
  view.learnCounts(P, 1, counts(9, 9));
  expect(view.counts(P)).toBeUndefined();
  view.learn(P, { nodeId: 'a', epoch: 1 });
  view.learnCounts(P, 1, counts(5, 20));
  view.learnCounts(P, 1, counts(4, 10));
  view.learnCounts(P, 2, counts(3, 30));
  expect(view.counts(P)).toEqual(counts(5, 20));
  view.learn(P, { nodeId: 'b', epoch: 2 });
  expect(view.counts(P)).toBeUndefined();
  // The clock of another holder may be behind.
  view.learnCounts(P, 2, counts(6, 15));
  expect(view.counts(P)).toEqual(counts(6, 15));
});

test('the largest mark is kept, and only of the present holder and epoch', () => {
  const view = new HolderView(8);
  const [a, again, b] = [
    { nodeId: 'a', epoch: 1 },
    { nodeId: 'a', epoch: 3 },
    { nodeId: 'b', epoch: 2 },
  ];
  view.learnDurableMark(P, a, 5);
  expect(view.durableMark(P)).toBe(0);
  view.learn(P, a);
  view.learnDurableMark(P, a, 7);
  view.learnDurableMark(P, a, 6);
  view.learnDurableMark(P, { nodeId: 'other', epoch: 1 }, 9);
  expect(view.durableMark(P)).toBe(7);
  view.learn(P, b);
  expect(view.durableMark(P)).toBe(0);
  view.learn(P, again);
  view.learnDurableMark(P, a, 8);
  expect(view.durableMark(P)).toBe(0);
});
