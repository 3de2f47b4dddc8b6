import type { Key } from '@taskmaster/engine/domain';
import { metaKeys } from '@taskmaster/engine/domain';
import {
  Family,
  type Store,
  StoreLostError,
  StoreUnfinishedError,
  StoreUsedError,
  WriteBatch,
} from '@taskmaster/engine/ports';
import { expect, test } from 'vitest';
import { openPostgresStore, openStoreToRestore } from './open-store.ts';
import { describeOnPostgres, WITHOUT_FSYNC } from './testing/index.ts';

const RELEASE = '0.0.0';

describeOnPostgres('a restore into PostgreSQL', WITHOUT_FSYNC, (server) => {
  let schemas = 0;

  const newSchema = (): string => `s${++schemas}`;
  const open = (schema: string, name = 'node') =>
    openPostgresStore({ url: server().url(), schema, name, release: RELEASE });
  const openToRestore = (schema: string) => openStoreToRestore({ url: server().url(), schema, release: RELEASE });
  const put = (store: Store, key: string, family: Family = Family.ready): Promise<void> => {
    const batch = new WriteBatch();
    batch.put(family, key as Key, Buffer.from(key));
    return store.write(batch, { sync: true });
  };
  /** What `restoreBackup` writes last. */
  const finish = (store: Store): Promise<void> => put(store, metaKeys.node, Family.meta);
  const keysIn = async (store: Store): Promise<Key[]> => {
    const rows = await store.scan(Family.ready, { gte: '' as Key, lt: '\xff' as Key }, { rows: 100, bytes: 1e6 });
    return rows.map(({ key }) => key);
  };
  const contentsOf = async (schema: string): Promise<unknown> => {
    const tables = ['node', 'store', 'ready', 'meta'].map((table) =>
      server().query(`SELECT * FROM ${schema}.${table}`),
    );
    return (await Promise.all(tables)).map(({ rows }) => rows);
  };

  test('is a store that nodes of any name open once it is complete, and not before', async () => {
    const schema = newSchema();
    {
      await using store = await openToRestore(schema);
      await put(store, 'a');
      const before = await contentsOf(schema);
      await expect(open(schema)).rejects.toBeInstanceOf(StoreUnfinishedError);
      await expect(open(schema)).rejects.toThrow(`a restore into the schema ${schema} has not finished`);
      expect(await contentsOf(schema)).toEqual(before);
      await finish(store);
    }
    await using node = await open(schema, 'any');
    expect(await keysIn(node)).toEqual(['a']);
  });

  test('that has not finished begins anew, also after the database has lost a part of it', async () => {
    const schema = newSchema();
    {
      await using first = await openToRestore(schema);
      await put(first, 'a');
      await put(first, 'b');
      await server().query(`UPDATE ${schema}.node SET seq = 1`);
      await expect(put(first, 'c')).rejects.toMatchObject({ kind: 'reverted' });
    }
    await using second = await openToRestore(schema);
    expect(await keysIn(second)).toEqual([]);
    await put(second, 'd');
    await finish(second);
    await using node = await open(schema);
    expect(await keysIn(node)).toEqual(['d']);
  });

  test('takes the place of an earlier one, which writes nothing more, also when the later one has ended', async () => {
    const schema = newSchema();
    await using first = await openToRestore(schema);
    await put(first, 'a');
    {
      await using second = await openToRestore(schema);
      await put(second, 'b');
      await finish(second);
    }
    await using node = await open(schema);
    await expect(put(first, 'c')).rejects.toBeInstanceOf(StoreLostError);
    await expect(put(first, 'c')).rejects.toMatchObject({ kind: 'fenced' });
    await put(node, 'd');
    expect(await keysIn(node)).toEqual(['b', 'd']);
  });

  test.each<[string, string, (schema: string) => Promise<void>]>([
    [
      'a node',
      'node node',
      async (schema) => {
        await using node = await open(schema);
        await put(node, 'a');
      },
    ],
    [
      'a finished restore',
      'a finished restore',
      async (schema) => {
        await using store = await openToRestore(schema);
        await finish(store);
      },
    ],
  ])('is refused where there is data of %s, and changes nothing', async (_of, whose, prepare) => {
    const schema = newSchema();
    await prepare(schema);
    const before = await contentsOf(schema);
    await expect(openToRestore(schema)).rejects.toBeInstanceOf(StoreUsedError);
    await expect(openToRestore(schema)).rejects.toThrow(
      `the schema ${schema} has the data of ${whose}. Nothing was changed`,
    );
    expect(await contentsOf(schema)).toEqual(before);
  });
});
