import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Key } from '@taskmaster/engine/domain';
import { Family, WriteBatch } from '@taskmaster/engine/ports';
import { expect, test } from 'vitest';
import { openPostgresStore } from './open-store.ts';
import { connectTo } from './pg-database.ts';
import { describeOnPostgres, WITHOUT_FSYNC } from './testing/index.ts';

function put(key: string, value = 'value'): WriteBatch {
  const batch = new WriteBatch();
  batch.put(Family.ready, key as Key, Buffer.from(value));
  return batch;
}

describeOnPostgres('sessions with a server', WITHOUT_FSYNC, (server) => {
  let schemas = 0;

  const open = (more: { readonly url?: string; readonly answerTimeoutMs?: number } = {}) =>
    openPostgresStore({ url: server().url(), schema: `s${++schemas}`, name: 'node', release: '0.0.0', ...more });

  const waitingSessions = async (event: string): Promise<number> => {
    const { rows } = await server().query(
      `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = 'taskmaster' AND wait_event LIKE '${event}'`,
    );
    return rows[0].count;
  };

  /** Commits wait for a standby that does not exist, until the function that this resolves with is called. */
  const withoutStandby = async (): Promise<() => Promise<void>> => {
    const configure = async (change: string): Promise<void> => {
      await server().query(`ALTER SYSTEM ${change}`);
      await server().query('SELECT pg_reload_conf()');
    };
    await configure(`SET synchronous_standby_names = 'nobody'`);
    return () => configure('RESET synchronous_standby_names');
  };

  /** Writes until a write waits for the standby. */
  const writeThatWaits = async (write: () => Promise<void>): Promise<{ readonly done: Promise<boolean> }> => {
    for (;;) {
      const done = write().then(() => true);
      for (;;) {
        if ((await waitingSessions('SyncRep')) > 0) return { done };
        if (await Promise.race([done, Promise.resolve(false)])) break;
      }
    }
  };

  test.each(['bytea_output=escape', 'default_transaction_isolation=serializable', 'statement_timeout=1'])(
    'read what they wrote although the role has %s',
    async (setting) => {
      await using store = await open({ url: `${server().url()}?options=-c%20${setting}` });
      const values = ['plain', '\\x00', '\\', 'a\0b'];
      await Promise.all(values.map((value, at) => store.write(put(`k${at}`, value), { sync: true })));
      const keys = values.map((_, at) => `k${at}` as Key);
      expect(await store.get(Family.ready, keys)).toEqual(values.map((value) => Buffer.from(value)));
      const rows = await store.scan(Family.ready, { gte: 'k' as Key, lt: 'l' as Key }, { rows: 9, bytes: 1e6 });
      expect(rows.map(({ key }) => key)).toEqual(keys);
    },
  );

  test('are not waited for when a server accepts a connection and is silent then', async () => {
    const sockets: Socket[] = [];
    const silent = createServer((from) => {
      const to = connect(server().port, '127.0.0.1');
      sockets.push(from, to);
      for (const socket of [from, to]) socket.on('error', () => {});
      // Statements get lost: they begin with a Q.
      from.on('data', (bytes) => bytes[0] === 0x51 || to.write(bytes));
      to.pipe(from);
    }).listen(0, '127.0.0.1');
    try {
      await once(silent, 'listening');
      const { port } = silent.address() as AddressInfo;
      const host = { host: '127.0.0.1', port, user: 'postgres', database: 'postgres' };
      await expect(connectTo(host, 300)).rejects.toThrow('no answer within 300 ms');
    } finally {
      for (const socket of sockets) socket.destroy();
      silent.close();
    }
  });

  test('commit changes of any families together', async () => {
    await using store = await open();
    for (const last of [Family.log, Family.requests, Family.meta]) {
      const batch = new WriteBatch();
      for (const family of [Family.data, Family.ready, Family.hidden, Family.due, Family.queues]) {
        batch.put(family, 'a' as Key, Buffer.from('1'));
        batch.delete(family, 'b' as Key);
      }
      batch.put(last, 'a' as Key, Buffer.from('1'));
      await store.write(batch, { sync: true });
      expect(await store.get(last, ['a' as Key])).toEqual([Buffer.from('1')]);
    }
  });

  test('do not acknowledge a commit whose wait for a standby was cancelled', async () => {
    await using store = await open();
    const standbyIsThere = await withoutStandby();
    const { done } = await writeThatWaits(() => store.write(put('a'), { sync: true }));
    await server().query(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
    // The next commit waits, too. Only its answer would say that a standby has both.
    while ((await waitingSessions('SyncRep')) === 0);
    expect(await Promise.race([done, Promise.resolve('not yet')])).toBe('not yet');
    await standbyIsThere();
    expect(await done).toBe(true);
  });

  test('leave no waiting statements behind on a server that does not answer', async () => {
    await using store = await open({ answerTimeoutMs: 200 });
    const standbyIsThere = await withoutStandby();
    const { done } = await writeThatWaits(() => store.write(put('a'), { sync: true }));
    // The server ends a statement that nobody waits for within a second. So after a while one of them went without an answer.
    let most = 0;
    for (let ended = false, before = 0; !ended; ) {
      const now = await waitingSessions('transactionid');
      ended = now < before;
      most = Math.max(most, now);
      before = now;
    }
    expect(most).toBeLessThan(20);
    await standbyIsThere();
    expect(await done).toBe(true);
  });
});
