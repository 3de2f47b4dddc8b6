import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Key } from '@taskmaster/engine/domain';
import { Family, StoreLostError, WriteBatch } from '@taskmaster/engine/ports';
import { keptLog } from '@taskmaster/engine/testing';
import { beforeAll, expect, test } from 'vitest';
import { hostsOf } from './hosts.ts';
import { acceptStoreLoss, openPostgresStore } from './open-store.ts';
import { connectTo } from './pg-database.ts';
import { describeOnPostgres, PostgresServer, WITHOUT_FSYNC } from './testing/index.ts';

const RELEASE = '0.0.0';

function put(key: string): WriteBatch {
  const batch = new WriteBatch();
  batch.put(Family.ready, key as Key, Buffer.from(key));
  return batch;
}

describeOnPostgres(
  'a store in PostgreSQL',
  { ...WITHOUT_FSYNC, access: ['host all guarded 127.0.0.1/32 scram-sha-256'] },
  (server) => {
    let databases = 0;
    beforeAll(async () => {
      await server().query(`CREATE ROLE guarded LOGIN PASSWORD 'right'`);
      await server().query('CREATE ROLE poor LOGIN');
    });

    const newDatabase = async (): Promise<string> => {
      const name = `d${++databases}`;
      await server().query(`CREATE DATABASE ${name}`);
      return name;
    };
    const open = (url: string, name = 'node') => openPostgresStore({ url, name, release: RELEASE });
    const opened = async (): Promise<string> => {
      const database = await newDatabase();
      await (await open(server().url(database))).close();
      return database;
    };
    /** Everything that an open could change. */
    const contentsOf = async (database: string): Promise<unknown> => {
      const { rows: tables } = await server().query(
        `SELECT relname, relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE nspname = 'taskmaster' ORDER BY 1`,
        database,
      );
      const names = tables.flatMap(({ relname, relkind }) => (relkind === 'r' ? [relname] : []));
      const rows = names.map(
        async (name) => (await server().query(`SELECT * FROM taskmaster."${name}"`, database)).rows,
      );
      return { tables, rows: await Promise.all(rows) };
    };

    test.each<[string, (database: string) => Promise<string | undefined>, RegExp]>([
      [
        'the database is missing',
        async () => server().url('missing'),
        /127.0.0.1:\d+\/missing: database "missing" does not exist/,
      ],
      [
        'nothing listens',
        async () => 'postgres://postgres@127.0.0.1:1/x',
        /cannot use the store: 127.0.0.1:1\/x: .*ECONNREFUSED/,
      ],
      [
        'the password is wrong',
        async (database) => server().url(database, 'guarded:wrong'),
        /password authentication failed for user "guarded"/,
      ],
      [
        'the role may not create the schema',
        async (database) => server().url(database, 'poor'),
        /permission denied for database .*CREATE SCHEMA taskmaster AUTHORIZATION/,
      ],
      [
        'the role has no right to the tables',
        async (database) => {
          await (await open(server().url(database))).close();
          return server().url(database, 'poor');
        },
        /permission denied for/,
      ],
      [
        'the schema has tables of something else',
        async (database) => {
          await server().query('CREATE SCHEMA taskmaster CREATE TABLE users (id int)', database);
          return undefined;
        },
        /has tables of something else \(store.format is missing\): name another schema/,
      ],
      [
        'somebody changed a column',
        async (database) => {
          await (await open(server().url(database))).close();
          await server().query('ALTER TABLE taskmaster.node ALTER COLUMN seq TYPE integer', database);
          return undefined;
        },
        /were changed \(node.seq is integer instead of bigint\)/,
      ],
      [
        'somebody dropped a key',
        async (database) => {
          await (await open(server().url(database))).close();
          await server().query('ALTER TABLE taskmaster.data DROP CONSTRAINT data_pkey', database);
          return undefined;
        },
        /were changed \(data.key is bytea instead of bytea key, data.hash is/,
      ],
      [
        'the data is of a newer release',
        async (database) => {
          await (await open(server().url(database))).close();
          await server().query(
            `UPDATE taskmaster.store SET format = 99, oldest_reader = 98, written_by = '9.1.0', readable_from = '9.0.0'`,
            database,
          );
          return undefined;
        },
        /has data format 99, written by release 9.1.0; this release, 0.0.0, reads .* Start release 9.0.0 or newer/,
      ],
      [
        'the database is that of a cluster',
        async (database) => {
          await (await open(server().url(database))).close();
          await server().query(`UPDATE taskmaster.store SET cluster = 'c1'`, database);
          return undefined;
        },
        /is the store of the nodes of a cluster, .* without --join and --bootstrap/,
      ],
      [
        'another node has it',
        async (database) => {
          await (await open(server().url(database), 'other')).close();
          return undefined;
        },
        /is the store of node other alone: start this one with --name other to take its place/,
      ],
      [
        'commits are lost',
        async (database) => {
          await (await open(server().url(database))).close();
          await server().query('UPDATE taskmaster.node SET lost = 7', database);
          return undefined;
        },
        /has lost commits of node node that were acknowledged, up to number 7: .*taskmaster-node accept-loss node/,
      ],
      [
        'the database is read-only',
        async (database) => {
          await server().query(`ALTER DATABASE ${database} SET default_transaction_read_only = on`);
          return undefined;
        },
        /the server is read-only/,
      ],
      [
        'there are too many connections',
        async (database) => {
          await server().query(`ALTER DATABASE ${database} CONNECTION LIMIT 0`);
          await server().query(`ALTER ROLE poor CONNECTION LIMIT 0`);
          return server().url(database, 'poor');
        },
        /too many connections/,
      ],
      ['the URL is none', async () => 'localhost', /must be a URL such as postgres:/],
      ['the URL has no port', async () => 'postgres://a@b:x/c', /the URL of the store cannot be read/],
      [
        'the URL asks for a standby',
        async () => 'postgres://a@b/c?target_session_attrs=standby',
        /target_session_attrs=standby .* must be read-write/,
      ],
    ])('is refused, and nothing is changed, if %s', async (_why, prepare, message) => {
      const database = await newDatabase();
      const url = (await prepare(database)) ?? server().url(database);
      const before = await contentsOf(database);
      await expect(open(url)).rejects.toThrow(message);
      expect(await contentsOf(database)).toEqual(before);
    });

    test('is refused by a standby, and found on another host', async () => {
      await using standby = await PostgresServer.start(WITHOUT_FSYNC);
      await standby.stop();
      await writeFile(join(standby.dir, 'data', 'standby.signal'), '');
      await standby.restart();
      await expect(open(standby.url())).rejects.toThrow('the server is a standby, or still in recovery');
      const database = await newDatabase();
      const both = `postgres://postgres@127.0.0.1:1,127.0.0.1:${standby.port},127.0.0.1:${server().port}/${database}`;
      await using store = await open(both.replace(`/${database}`, `/postgres`));
      await store.write(put('a'), { sync: true });
      await server().query('DROP SCHEMA taskmaster CASCADE');
    });

    test('of an older data format is raised to the present one', async () => {
      const database = await opened();
      const format = async (): Promise<unknown> =>
        (await server().query('SELECT format, oldest_reader, written_by FROM taskmaster.store', database)).rows[0];
      const present = await format();
      await server().query(
        `UPDATE taskmaster.store SET format = 1, oldest_reader = 1, written_by = '0.0.0-old'`,
        database,
      );
      await (await open(server().url(database))).close();
      expect(await format()).toEqual(present);
    });

    test('is begun once by nodes that start at the same time', async () => {
      const url = server().url(await newDatabase());
      const names = ['a', 'b', 'c', 'd'];
      const shared = { requestIdWindowMs: 120_000 };
      const stores = await Promise.all(names.map((name) => openPostgresStore({ url, name, release: RELEASE, shared })));
      await Promise.all(stores.map((store, at) => store.write(put(`k${at}`), { sync: true })));
      for (const store of stores) await store.close();
    });

    test('belongs to one of the processes of a name that start at the same time', async () => {
      const url = server().url(await newDatabase());
      const stores = await Promise.all(Array.from({ length: 4 }, () => open(url)));
      const writes = await Promise.allSettled(stores.map((store, at) => store.write(put(`k${at}`), { sync: true })));
      expect(writes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      for (const store of stores) await store.close();
    });

    test('is taken over by another process, and the first one may use it no more', async () => {
      const database = await newDatabase();
      await using first = await open(server().url(database));
      await first.write(put('a'), { sync: true });
      await using second = await open(server().url(database));
      const states: string[] = [];
      first.onStateChange(({ kind }) => states.push(kind));
      await expect(first.write(put('b'), { sync: true })).rejects.toBeInstanceOf(StoreLostError);
      await expect(first.get(Family.ready, ['a' as Key])).rejects.toMatchObject({ kind: 'fenced' });
      await expect(first.deleteRange(Family.ready, { gte: 'a' as Key, lt: 'b' as Key })).rejects.toMatchObject({
        kind: 'fenced',
      });
      expect([first.state.kind, states]).toEqual(['failed', ['failed']]);
      expect(await second.get(Family.ready, ['a', 'b'] as Key[])).toEqual([Buffer.from('a'), undefined]);
      expect(second.state).toEqual({ kind: 'writable' });
    });

    test('that has lost commits is not used until somebody accepts it', async () => {
      const database = await newDatabase();
      const url = server().url(database);
      const log = keptLog();
      const first = await openPostgresStore({ url, name: 'node', release: RELEASE, log });
      for (const key of ['a', 'b', 'c']) await first.write(put(key), { sync: true });
      // As after a failover to a standby that was behind.
      await server().query(
        `UPDATE taskmaster.node SET seq = 1; DELETE FROM taskmaster.ready WHERE key > 'a'`,
        database,
      );
      await expect(first.write(put('d'), { sync: true })).rejects.toMatchObject({ kind: 'reverted' });
      await first.close();
      await expect(open(url)).rejects.toThrow('has lost commits of node node that were acknowledged, up to number 3');
      const now = 1_000 as never;
      expect(await acceptStoreLoss({ url, name: 'node', now })).toEqual({ acknowledged: 3, seq: 1 });
      expect(await acceptStoreLoss({ url, name: 'node', now })).toBeUndefined();
      await expect(acceptStoreLoss({ url, name: 'other', now })).rejects.toThrow('no node other has used');
      await using again = await open(url);
      expect(await again.get(Family.ready, ['a', 'b'] as Key[])).toEqual([Buffer.from('a'), undefined]);
    });

    test('goes on after all connections were ended, with the outcome of each write known', async () => {
      const database = await newDatabase();
      await using store = await open(server().url(database));
      const writes: Promise<void>[] = [];
      for (let round = 0; round < 30; round++) {
        writes.push(store.write(put(`k${round}`), { sync: true }));
        if (round % 3 === 0) await writes.at(-1);
        if (round % 5 === 0) {
          await server().query(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${database}' AND application_name = 'taskmaster'`,
          );
        }
      }
      await Promise.all(writes);
      const rows = await store.scan(Family.ready, { gte: 'k' as Key, lt: 'l' as Key }, { rows: 100, bytes: 1e6 });
      expect(rows).toHaveLength(30);
      const { rows: node } = await server().query('SELECT fence, lost FROM taskmaster.node', database);
      expect(node).toEqual([{ fence: '1', lost: null }]);
    });

    test('deletes a large range in slices, while other commits go on', async () => {
      const database = await newDatabase();
      await using store = await open(server().url(database));
      const batch = new WriteBatch();
      for (let row = 0; row < 9_000; row++) batch.put(Family.data, `a${row}` as Key, Buffer.from('x'));
      await store.write(batch, { sync: true });
      const ended: string[] = [];
      const gone = store.deleteRange(Family.data, { gte: 'a' as Key, lt: 'b' as Key }).then(() => ended.push('range'));
      const within = new WriteBatch();
      within.put(Family.data, 'a5' as Key, Buffer.from('new'));
      const other = store.write(put('other'), { sync: true }).then(() => ended.push('other'));
      const later = store.write(within, { sync: true }).then(() => ended.push('within'));
      await Promise.all([gone, other, later]);
      expect(ended).toEqual(['other', 'range', 'within']);
      const rows = await store.scan(Family.data, { gte: 'a' as Key, lt: 'b' as Key }, { rows: 10, bytes: 1e6 });
      expect(rows.map(({ key }) => key)).toEqual(['a5']);
    });

    test('commits while several ranges are deleted one after the other', async () => {
      const database = await newDatabase();
      await using store = await open(server().url(database));
      const rangeOf = (of: string) => ({ gte: `${of}0` as Key, lt: `${of}a` as Key });
      const batch = new WriteBatch();
      for (let row = 0; row < 9_000; row++) batch.put(Family.data, `a${row}` as Key, Buffer.from('x'));
      for (let row = 0; row < 10; row++) batch.put(Family.data, `b${row}` as Key, Buffer.from('x'));
      await store.write(batch, { sync: true });
      const ended: string[] = [];
      const wait = (call: Promise<void>, name: string) => call.then(() => void ended.push(name));
      const within = new WriteBatch();
      within.put(Family.data, 'b5' as Key, Buffer.from('new'));
      await Promise.all([
        wait(store.deleteRange(Family.data, rangeOf('a')), 'a'),
        wait(store.write(put('first'), { sync: true }), 'first'),
        wait(store.deleteRange(Family.data, rangeOf('b')), 'b'),
        wait(store.write(put('second'), { sync: true }), 'second'),
        wait(store.write(within, { sync: true }), 'within b'),
        wait(store.write(put('third'), { sync: true }), 'third'),
      ]);
      expect(ended).toEqual(['first', 'second', 'a', 'b', 'within b', 'third']);
      const rows = await store.scan(Family.data, { gte: 'a' as Key, lt: 'c' as Key }, { rows: 10, bytes: 1e6 });
      expect(rows.map(({ key }) => key)).toEqual(['b5']);
    });

    test('warns of a database that promises less than it needs', async () => {
      const log = keptLog();
      const database = await newDatabase();
      await (await openPostgresStore({ url: server().url(database), name: 'node', release: RELEASE, log })).close();
      const warnings = log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message);
      expect(warnings).toEqual([
        expect.stringContaining('has fsync off'),
        expect.stringContaining('has no synchronous standby'),
      ]);
    });

    test('makes commits durable although the database does not by default', async () => {
      const database = await opened();
      await server().query(`ALTER DATABASE ${database} SET synchronous_commit = off`);
      const [host] = hostsOf(server().url(database));
      const client = await connectTo(host, 5000);
      const { rows } = await client.query('SHOW synchronous_commit');
      await client.end();
      expect(rows).toEqual([{ synchronous_commit: 'on' }]);
    });
  },
);
