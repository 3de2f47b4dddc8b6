import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Key } from '@taskmaster/engine/domain';
import { Family, WriteBatch } from '@taskmaster/engine/ports';
import { expect, test } from 'vitest';
import { type OpenStoreOptions, openPostgresStore } from './open-store.ts';
import { connectTo } from './pg-database.ts';
import { describeOnPostgres, WITHOUT_FSYNC } from './testing/index.ts';

function put(key: string, value = 'value'): WriteBatch {
  const batch = new WriteBatch();
  batch.put(Family.ready, key as Key, Buffer.from(value));
  return batch;
}

/** What a server answers when a timeout has ended a statement: an error, and that it waits for the next one. */
const CANCELED = Buffer.concat([
  message('E', 'SERROR\0C57014\0Mcanceling statement due to statement timeout\0\0'),
  message('Z', 'I'),
]);

function message(type: string, body: string): Buffer {
  const head = Buffer.from(`${type}....`);
  head.writeUInt32BE(4 + body.length, 1);
  return Buffer.concat([head, Buffer.from(body)]);
}

describeOnPostgres('sessions with a server', WITHOUT_FSYNC, (server) => {
  let schemas = 0;

  const open = (more: Partial<OpenStoreOptions> = {}) =>
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

  /** A relay to the server. `onStatement` says what becomes of a statement; bytes are the answer to it. */
  const between = async (
    onStatement: (statement: string) => Buffer | 'pass' | 'lose',
    use: (port: number) => Promise<void>,
  ) => {
    const sockets: Socket[] = [];
    const listener = createServer((from) => {
      const to = connect(server().port, '127.0.0.1');
      sockets.push(from, to);
      for (const socket of [from, to]) socket.on('error', () => {});
      from.on('data', (bytes) => {
        // Statements begin with a Q and their length.
        const does = bytes[0] === 0x51 ? onStatement(bytes.toString('utf8', 5, bytes.length - 1)) : 'pass';
        if (does === 'pass') to.write(bytes);
        else if (does !== 'lose') from.write(does);
      });
      to.pipe(from);
    }).listen(0, '127.0.0.1');
    try {
      await once(listener, 'listening');
      await use((listener.address() as AddressInfo).port);
    } finally {
      for (const socket of sockets) socket.destroy();
      listener.close();
    }
  };

  const hostAt = (port: number) => ({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' });

  test('are not waited for when a server accepts a connection and is silent then', () =>
    between(
      () => 'lose',
      async (port) => {
        await expect(connectTo(hostAt(port), 300)).rejects.toThrow('no answer within 300 ms');
      },
    ));

  test('begin although the timeout of the role ends their first statement again and again', async () => {
    const statements: string[] = [];
    const tooSlow = (statement: string) => (statements.push(statement) <= 3 ? CANCELED : 'pass');
    await between(tooSlow, async (port) => {
      const client = await connectTo(hostAt(port), 5_000);
      expect(statements.slice(0, 4)).toEqual(Array(4).fill('SET statement_timeout TO 0'));
      expect(statements[4]).not.toContain('statement_timeout');
      await client.end();
    });
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

  test('replace rows that they took for new ones', async () => {
    const statements: string[] = [];
    await using store = await open({ onStatement: (kind) => void statements.push(kind) });
    const families = [Family.data, Family.ready, Family.log, Family.requests];
    for (const value of ['first', 'second', 'third']) {
      const batch = new WriteBatch();
      for (const family of families) batch.put(family, 'a' as Key, Buffer.from(value));
      await store.write(batch, { sync: true });
      for (const family of families) expect(await store.get(family, ['a' as Key])).toEqual([Buffer.from(value)]);
    }
    expect(statements.filter((kind) => kind === 'commit')).toHaveLength(3);
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
