import { describe, expect, test } from 'vitest';
import type { Holder, Routes } from '../ports/routes.ts';

/**
 * A cluster of the nodes `a` and `b`. Both are alive, and each holds partitions. Node `a` has the id `id-a` and the address
 * `a:1`, and node `b` likewise.
 */
export interface RoutesWorld {
  /** The routes that are tested. They know both nodes and all holders. */
  readonly routes: Routes;
  /** Number of partitions of the cluster. */
  readonly partitions: number;
  /** Hands a partition to another node of the cluster, at the next epoch. Resolves when the routes had time to learn of it. */
  move(partition: number, to: 'a' | 'b'): Promise<void>;
  /** Ends node `b`. Resolves when the routes had time to learn of it. */
  loseB(): Promise<void>;
}

/** What every implementation of `Routes` must do. */
export function routesContract(name: string, open: () => Promise<RoutesWorld>): void {
  describe(`${name} keeps the contract of routes`, () => {
    const holderAt = (nodeName: string, epoch: number): Holder => ({
      nodeId: `id-${nodeName}`,
      address: `${nodeName}:1`,
      epoch,
    });

    /** The world, a partition of node `a`, and the number of changes that were announced. */
    async function setUp() {
      const world = await open();
      const { routes, partitions } = world;
      const ids = Array.from({ length: partitions }, (_, id) => id);
      const partition =
        ids.find((id) => routes.holderOf(id)?.nodeId === 'id-a') ?? expect.unreachable('a holds nothing');
      let changes = 0;
      const unsubscribe = routes.onChange(() => changes++);
      const epoch = routes.holderOf(partition)?.epoch ?? 0;
      return { ...world, ids, partition, epoch, unsubscribe, changes: () => changes };
    }

    test('they know the nodes, and the holder of every partition', async () => {
      const { routes, partitions, ids, epoch } = await setUp();
      expect(routes.partitions).toBe(partitions);
      const byName = routes.nodes().toSorted((one, other) => (one.name < other.name ? -1 : 1));
      expect(byName).toEqual([
        { nodeId: 'id-a', name: 'a', address: 'a:1', alive: true },
        { nodeId: 'id-b', name: 'b', address: 'b:1', alive: true },
      ]);
      const known = ids.map((id) => routes.holderOf(id)?.address);
      expect([...new Set(known)].toSorted()).toEqual(['a:1', 'b:1']);
      expect(epoch).toBeGreaterThan(0);
    });

    test('they follow a partition that moves', async () => {
      const { routes, move, partition, epoch, changes } = await setUp();
      await move(partition, 'b');
      expect(routes.holderOf(partition)).toEqual(holderAt('b', epoch + 1));
      expect(changes()).toBeGreaterThan(0);
    });

    test.each(['b', 'new'])(
      'they learn a later holder that a node named, here %s, and tell their listeners',
      async (nodeName) => {
        const { routes, ids, partition, epoch, changes } = await setUp();
        const others = ids.filter((id) => id !== partition).map((id) => routes.holderOf(id));
        const later = holderAt(nodeName, epoch + 1);
        routes.learn(partition, later);
        expect(routes.holderOf(partition)).toEqual(later);
        expect(changes()).toBe(1);
        expect(ids.filter((id) => id !== partition).map((id) => routes.holderOf(id))).toEqual(others);
      },
    );

    test('they ignore an older holder, the known one, and partitions that do not exist', async () => {
      const { routes, partitions, partition, epoch, changes } = await setUp();
      const later = holderAt('b', epoch + 2);
      routes.learn(partition, later);
      routes.learn(partition, holderAt('a', epoch + 1));
      routes.learn(partition, later);
      expect(routes.holderOf(partition)).toEqual(later);
      routes.learn(partitions, holderAt('a', 9));
      expect(routes.holderOf(partitions)).toBeUndefined();
      expect(changes()).toBe(1);
    });

    test('they keep a node that does not answer, as not alive, and its partitions', async () => {
      const { routes, loseB, ids } = await setUp();
      const before = ids.map((id) => routes.holderOf(id));
      await loseB();
      const alive = routes.nodes().map((node) => [node.name, node.alive]);
      expect(Object.fromEntries(alive)).toEqual({ a: true, b: false });
      expect(ids.map((id) => routes.holderOf(id))).toEqual(before);
    });

    test('they call no listener that was removed', async () => {
      const { routes, partition, epoch, unsubscribe, changes } = await setUp();
      const others: number[] = [];
      routes.onChange(() => others.push(1));
      unsubscribe();
      unsubscribe();
      routes.learn(partition, holderAt('b', epoch + 1));
      expect(changes()).toBe(0);
      expect(others).toHaveLength(1);
    });
  });
}
