import { DatabaseSync } from 'node:sqlite';
import { type DialectName, migrate, mysqlQuery, Outbox, pgQuery, type Query, sqliteQuery } from '@taskmaster/outbox';
import mysql from 'mysql2/promise';
import pg from 'pg';

/** A database with the tables of an outbox of its own. */
export interface TestDatabase extends AsyncDisposable {
  readonly dialect: DialectName;
  readonly prefix: string;
  readonly outbox: Outbox;
  /** Each statement is a transaction. */
  readonly query: Query;
  /** Rolls back if `work` throws. */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T>;
}

let made = 0;

async function testDatabase(
  dialect: DialectName,
  parts: Pick<TestDatabase, 'query' | 'transaction'> & { readonly close: () => Promise<unknown> },
): Promise<TestDatabase> {
  const prefix = `t${++made}`;
  await migrate(dialect, parts.query, { prefix });
  return {
    dialect,
    prefix,
    outbox: new Outbox({ dialect, prefix }),
    query: parts.query,
    transaction: parts.transaction,
    [Symbol.asyncDispose]: async () => {
      await parts.close();
    },
  };
}

export function openSqlite(path = ':memory:'): Promise<TestDatabase> {
  const database = new DatabaseSync(path);
  const query = sqliteQuery(database);
  return testDatabase('sqlite', {
    query,
    transaction: (work) => inTransaction(query, () => work(query)),
    close: async () => database.close(),
  });
}

/** `end` resolves before the connections are closed: a server that stops then still tells the pool of it. */
export function postgresPool(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  // Statements reject by themselves.
  pool.on('error', () => undefined);
  return pool;
}

export async function openPostgres(url: string): Promise<TestDatabase> {
  const pool = postgresPool(url);
  return testDatabase('postgres', {
    query: pgQuery(pool),
    transaction: async (work) => {
      const client = await pool.connect();
      try {
        const query = pgQuery(client);
        return await inTransaction(query, () => work(query));
      } finally {
        client.release();
      }
    },
    close: () => pool.end(),
  });
}

export async function openMysql(url: string): Promise<TestDatabase> {
  const pool = mysql.createPool({ uri: url, connectionLimit: 8 });
  return testDatabase('mysql', {
    query: mysqlQuery(pool),
    transaction: async (work) => {
      const connection = await pool.getConnection();
      try {
        const query = mysqlQuery(connection);
        return await inTransaction(query, () => work(query));
      } finally {
        connection.release();
      }
    },
    close: () => pool.end(),
  });
}

async function inTransaction<T>(query: Query, work: () => Promise<T>): Promise<T> {
  await query('BEGIN', []);
  try {
    const result = await work();
    await query('COMMIT', []);
    return result;
  } catch (error) {
    await query('ROLLBACK', []);
    throw error;
  }
}
