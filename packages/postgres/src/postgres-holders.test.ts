import type { PartitionId } from '@taskmaster/engine/domain';
import { sharedHoldersContract } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import { type DatabaseStore, openPostgresStore } from './open-store.ts';
import { describeOnPostgres, WITHOUT_FSYNC } from './testing/index.ts';

const SHARED = { requestIdWindowMs: 120_000 };

describeOnPostgres('PostgreSQL', WITHOUT_FSYNC, (server) => {
  let schemas = 0;

  sharedHoldersContract('a store in PostgreSQL', async () => {
    const schema = `holders_${++schemas}`;
    const opened: DatabaseStore[] = [];
    return {
      async open(name) {
        const store = await openPostgresStore({ url: server().url(), schema, name, shared: SHARED, release: '0.0.0' });
        opened.push(store);
        return { store, holders: store.holders };
      },
      run: (promise) => promise,
      async [Symbol.asyncDispose]() {
        await Promise.all(opened.map((store) => store.close()));
      },
    };
  });

  test('a shared store and the store of one node are not mistaken for each other', async () => {
    const open = (schema: string, name: string, isShared: boolean) =>
      openPostgresStore({ url: server().url(), schema, name, ...(isShared && { shared: SHARED }), release: '0.0.0' });
    await using alone = await open('alone', 'node', false);
    await expect(open('alone', 'a', true)).rejects.toThrow('the store of node node alone');
    await using shared = await open('shared', 'a', true);
    await expect(open('shared', 'a', false)).rejects.toThrow('started without --join and --bootstrap');
    expect([alone.state.kind, shared.state.kind]).toEqual(['writable', 'writable']);
  });

  test('nodes that would forget request ids at other times do not share a store', async () => {
    const open = (name: string, requestIdWindowMs: number) =>
      openPostgresStore({ url: server().url(), schema: 'ids', name, shared: { requestIdWindowMs }, release: '0.0.0' });
    await using first = await open('a', 120_000);
    await expect(open('b', 60_000)).rejects.toThrow('engine.requestIdWindowMs 120000, and this node has 60000');
    await using second = await open('b', 120_000);
    expect([first.state.kind, second.state.kind]).toEqual(['writable', 'writable']);
  });

  test.each([
    ['that was not heard for a while counts as fenced since then', false],
    ['that was heard meanwhile counts as fenced from now on', true],
  ])('a node %s', async (_what, isHeard) => {
    const schema = `silence_${isHeard}`;
    const open = (name: string) =>
      openPostgresStore({ url: server().url(), schema, name, shared: SHARED, release: '0.0.0' });
    await using a = await open('a');
    await using b = await open('b');
    await b.holders.take([0 as PartitionId]);
    const asked = performance.now();
    const { nodes } = await a.holders.read();
    const known = performance.now();
    while (performance.now() - known < 300) await server().query('SELECT pg_sleep(0.05)');
    if (isHeard) await b.holders.read();
    const began = performance.now();
    expect(await a.holders.fence(nodes.get('b') ?? { name: 'b', fence: 0 })).toBe(true);
    const { partitions } = await a.holders.read();
    const fencedMs = partitions[0]?.fencedMs ?? Number.NaN;
    expect(fencedMs).toBeLessThan(performance.now() - (isHeard ? began : asked) + 5);
    expect(fencedMs).toBeGreaterThanOrEqual(isHeard ? 0 : 299);
  });

  test('a store tells the time of its database', async () => {
    await using store = await openPostgresStore({
      url: server().url(),
      schema: 'time',
      name: 'node',
      release: '0.0.0',
    });
    const before = store.time();
    const { rows } = await server().query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS ms');
    const database = Number(rows[0]?.ms);
    // Half of the wait for an answer may be missing on either side.
    expect(database - before).toBeGreaterThan(-1_000);
    expect(store.time() - database).toBeGreaterThan(-1_000);
    expect(store.time() - before).toBeLessThan(10_000);
  });

  test('the first cluster that is recorded stays', async () => {
    const options = { url: server().url(), schema: 'clusters', shared: SHARED, release: '0.0.0' };
    await using a = await openPostgresStore({ ...options, name: 'a' });
    await using b = await openPostgresStore({ ...options, name: 'b' });
    const first = { clusterId: 'c1', firstNode: 'n1' };
    expect(await a.claim(first)).toEqual(first);
    expect(await b.claim({ clusterId: 'c2', firstNode: 'n2' })).toEqual(first);
  });
});
