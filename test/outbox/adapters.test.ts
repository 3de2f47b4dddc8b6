import { DatabaseSync } from 'node:sqlite';
import {
  drizzleQuery,
  kyselyQuery,
  migrateSync,
  Outbox,
  prismaQuery,
  type Query,
  type SqlValue,
  sqliteQuery,
  sqliteQuerySync,
} from '@taskmaster/outbox';
import { describeOnPostgres, WITHOUT_FSYNC } from '@taskmaster/postgres/testing';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { openPostgres, postgresPool } from './databases.ts';

const noStock = (): never => {
  throw new Error('no stock');
};

describeOnPostgres('the query function of a transaction', WITHOUT_FSYNC, (server) => {
  /** Runs work in a transaction of an ORM. */
  type Transact = (work: (query: Query) => Promise<void>) => Promise<unknown>;

  async function check(transact: Transact): Promise<void> {
    await using db = await openPostgres(server().url());
    const { outbox, query } = db;
    await transact((tx) => outbox.enqueue(tx, 'q', 'kept'));
    await expect(transact((tx) => outbox.enqueue(tx, 'q', 'dropped').then(noStock))).rejects.toThrow('no stock');
    const rows = await query(`SELECT queue, bytes FROM ${outbox.tables.rows}`, []);
    expect(rows).toEqual([{ queue: 'q', bytes: expect.anything() }]);
    // Rows come back, too.
    await transact(async (tx) => expect(await outbox.stats(tx)).toMatchObject({ pending: 1 }));
  }

  test('of Kysely', async () => {
    const pool = postgresPool(server().url());
    await using kysely = {
      db: new Kysely({ dialect: new PostgresDialect({ pool }) }),
      [Symbol.asyncDispose]: () => pool.end(),
    };
    await check((work) => kysely.db.transaction().execute((trx) => work(kyselyQuery(trx, CompiledQuery))));
  });

  test('of Drizzle', async () => {
    const pool = postgresPool(server().url());
    await using orm = { db: drizzle(pool), [Symbol.asyncDispose]: () => pool.end() };
    await check((work) => orm.db.transaction((tx) => work(drizzleQuery(tx, sql))));
  });

  test('of Prisma, as far as its raw queries are concerned', async () => {
    const client = new pg.Client({ connectionString: server().url() });
    client.on('error', () => undefined);
    await client.connect();
    await using _end = { [Symbol.asyncDispose]: () => client.end() };
    // Prisma has a generated client and an engine of its own; these two methods are what the adapter knows of it.
    const run = async (text: string, values: unknown[]) => client.query(text, values);
    const prisma = {
      $queryRawUnsafe: async (text: string, ...values: unknown[]) => (await run(text, values)).rows,
      $executeRawUnsafe: async (text: string, ...values: unknown[]) => (await run(text, values)).rowCount,
    };
    await check(async (work) => {
      await client.query('BEGIN');
      try {
        await work(prismaQuery(prisma));
        await client.query('COMMIT');
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      }
    });
  });
});

describe('a driver that answers at once', () => {
  test('takes a task within its transaction', async () => {
    using database = new DatabaseSync(':memory:');
    const query = sqliteQuerySync(database);
    migrateSync('sqlite', query);
    expect(migrateSync('sqlite', query)).toBe(1);
    const outbox = new Outbox({ dialect: 'sqlite' });
    database.exec('BEGIN');
    outbox.enqueueSync(query, 'q', 1);
    database.exec('ROLLBACK');
    outbox.enqueueSync(query, 'q', 2);
    expect(await outbox.stats(sqliteQuery(database))).toMatchObject({ pending: 1 });
  });

  test('gets the statements that better-sqlite3 takes', () => {
    // Its `all` refuses a statement without rows, and its `run` one with rows.
    using database = new DatabaseSync(':memory:');
    const strict = {
      prepare: (text: string) => {
        const statement = database.prepare(text);
        const hasRows = statement.columns().length > 0;
        return {
          all: (...params: SqlValue[]) => (hasRows ? statement.all(...params) : fail(text)),
          run: (...params: SqlValue[]) => (hasRows ? fail(text) : statement.run(...params)),
        };
      },
    };
    const fail = (text: string): never => {
      throw new TypeError(`the wrong method for ${text}`);
    };
    const query = sqliteQuerySync(strict);
    migrateSync('sqlite', query);
    new Outbox({ dialect: 'sqlite' }).enqueueSync(query, 'q', 1);
    expect(query('SELECT queue FROM taskmaster_outbox', [])).toMatchObject([{ queue: 'q' }]);
  });
});
