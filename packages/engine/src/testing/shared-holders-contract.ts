import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Key, PartitionId } from '../domain/ids.ts';
import type { SharedHolders, SharedPartition } from '../ports/shared-holders.ts';
import { Family, type Store } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';

/** A process that has opened a store which others share. */
interface SharedProcess {
  readonly store: Store;
  readonly holders: SharedHolders;
}

/** A store that several processes share. */
export interface SharedStores extends AsyncDisposable {
  /** Opens the store under a name. */
  open(name: string): Promise<SharedProcess>;
  /** Runs calls until they settle. */
  run<T>(promise: Promise<T>): Promise<T>;
}

const ids = (...numbers: readonly number[]): PartitionId[] => numbers as PartitionId[];
const KEY = 'key' as Key;

/** What every store that nodes share promises about holders; see `SharedHolders`. */
export function sharedHoldersContract(name: string, begin: () => Promise<SharedStores>): void {
  describe(`${name} keeps the contract of shared holders`, () => {
    let stores: SharedStores;
    let a: SharedProcess;
    let b: SharedProcess;
    const run = <T>(promise: Promise<T>): Promise<T> => stores.run(promise);
    const read = async (id: number, from = b): Promise<SharedPartition | undefined> =>
      (await run(from.holders.read())).partitions[id];
    const fence = async (by: SharedProcess, node: string): Promise<boolean> => {
      const found = (await run(by.holders.read())).nodes.get(node);
      if (found === undefined) throw new Error(`the store knows no node ${node}`);
      return run(by.holders.fence(found));
    };
    const put = async ({ store }: SharedProcess, text: string): Promise<void> => {
      const batch = new WriteBatch();
      batch.put(Family.meta, KEY, Buffer.from(text));
      await run(store.write(batch, { sync: true }));
    };

    beforeEach(async () => {
      stores = await begin();
      a = await stores.open('a "quoted" \\ name');
      b = await stores.open('b');
    });
    afterEach(async () => {
      await stores[Symbol.asyncDispose]();
    });

    test('a partition is taken once, at the next epoch', async () => {
      await run(Promise.all([a.holders.take(ids(0, 1)), b.holders.take(ids(1, 0))]));
      const [first, second] = [await read(0), await read(1)];
      expect(first?.epoch).toBe(1);
      expect(second?.epoch).toBe(1);
      await run(b.holders.take(ids(0, 1)));
      expect([await read(0), await read(1)]).toEqual([first, second]);
    });

    test('a partition is given by its holder, at its epoch only', async () => {
      await run(a.holders.take(ids(2)));
      const { self } = a.holders;
      await run(b.holders.give([{ id: 2 as PartitionId, epoch: 1, to: 'b' }]));
      await run(a.holders.give([{ id: 2 as PartitionId, epoch: 2, to: 'b' }]));
      expect(await read(2)).toEqual({ holder: self, epoch: 1, fencedMs: undefined });
      await run(a.holders.give([{ id: 2 as PartitionId, epoch: 1, to: 'b' }]));
      expect(await read(2)).toEqual({ holder: 'b', epoch: 2, fencedMs: undefined });
      await run(b.holders.give([{ id: 2 as PartitionId, epoch: 2, to: self }]));
      expect(await read(2)).toEqual({ holder: self, epoch: 3, fencedMs: undefined });
      await run(a.holders.give([{ id: 2 as PartitionId, epoch: 3, to: undefined }]));
      expect(await read(2)).toEqual({ holder: undefined, epoch: 3, fencedMs: undefined });
      await run(b.holders.take(ids(2)));
      expect(await read(2)).toEqual({ holder: 'b', epoch: 4, fencedMs: undefined });
    });

    test('a node that gives a partition to itself ends the epoch', async () => {
      await run(a.holders.take(ids(3)));
      const { self } = a.holders;
      await run(a.holders.give([{ id: 3 as PartitionId, epoch: 1, to: self }]));
      await run(a.holders.give([{ id: 3 as PartitionId, epoch: 1, to: 'b' }]));
      expect(await read(3)).toEqual({ holder: self, epoch: 2, fencedMs: undefined });
    });

    test('a fenced node writes, takes and gives nothing any more, and its partitions have no holder', async () => {
      await run(a.holders.take(ids(0, 1)));
      await put(a, 'before');
      expect(await fence(b, a.holders.self)).toBe(true);
      expect(await read(0)).toMatchObject({ holder: undefined, epoch: 1, fencedMs: expect.any(Number) });
      await expect(put(a, 'after')).rejects.toMatchObject({ name: 'StoreLostError', kind: 'fenced' });
      await expect(run(a.holders.take(ids(2)))).rejects.toMatchObject({ name: 'StoreLostError' });
      await expect(run(a.holders.give([{ id: 0 as PartitionId, epoch: 1, to: 'b' }]))).rejects.toThrow();
      await run(b.holders.take(ids(0)));
      expect(await read(0)).toMatchObject({ holder: 'b', epoch: 2 });
      expect(await run(b.store.get(Family.meta, [KEY]))).toEqual([Buffer.from('before')]);
    });

    test('who gets a partition reads everything that its last holder has written', async () => {
      await run(a.holders.take(ids(0)));
      await put(a, 'last');
      await run(a.holders.give([{ id: 0 as PartitionId, epoch: 1, to: 'b' }]));
      expect(await run(b.store.get(Family.meta, [KEY]))).toEqual([Buffer.from('last')]);
    });

    test('a node is fenced at the fence that was seen only', async () => {
      await run(a.holders.take(ids(0)));
      const seen = (await run(b.holders.read())).nodes.get(a.holders.self);
      const again = await stores.open(a.holders.self);
      expect(seen && (await run(b.holders.fence(seen)))).toBe(false);
      await run(again.holders.take(ids(0)));
      expect(await read(0)).toMatchObject({ holder: a.holders.self, epoch: 2 });
      await expect(put(a, 'of the earlier process')).rejects.toMatchObject({ kind: 'fenced' });
      await put(again, 'of the next');
    });

    test('the store hears of a node by its reads of holders and by its commits', async () => {
      const seenAt = async (): Promise<number> => (await run(b.holders.read())).nodes.get(a.holders.self)?.seenAt ?? 0;
      const first = await seenAt();
      expect(await seenAt()).toBe(first);
      await run(a.holders.read());
      expect(await seenAt()).toBeGreaterThanOrEqual(first);
      await put(a, 'x');
      expect((await run(a.holders.read())).nodes.size).toBe(2);
    });

    test('a node that has just written knows that its fence holds', async () => {
      await put(a, 'x');
      expect(a.holders.confirm()).toBeUndefined();
    });
  });
}
