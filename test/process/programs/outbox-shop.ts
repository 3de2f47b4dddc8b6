import { DatabaseSync } from 'node:sqlite';
import { migrate, Outbox, pgQuery, type Query, sqliteQuery } from '@taskmaster/outbox';
import pg from 'pg';

/** The database of a shop, and what programs do with it. */
export interface Shop {
  readonly outbox: Outbox;
  /** Each statement is a transaction. */
  readonly query: Query;
  readonly insertOrder: string;
  /** Rolls back if `work` throws. */
  transaction(work: (query: Query) => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

/** `database`: the URL of a PostgreSQL database, or the file of one of SQLite. */
export async function openShop(database: string): Promise<Shop> {
  const isPostgres = database.startsWith('postgres:');
  const { query, one, close } = isPostgres ? await openPostgres(database) : openSqlite(database);
  return {
    outbox: new Outbox({ dialect: isPostgres ? 'postgres' : 'sqlite' }),
    query,
    close,
    insertOrder: `INSERT INTO orders (id) VALUES (${isPostgres ? '$1' : '?'})`,
    transaction: async (work) => {
      // SQLite waits for another writer at the begin of a transaction only.
      await one(isPostgres ? 'BEGIN' : 'BEGIN IMMEDIATE', []);
      try {
        await work(one);
        await one('COMMIT', []);
      } catch (error) {
        await one('ROLLBACK', []);
        throw error;
      }
    },
  };
}

/** Makes the tables. */
export async function createShop(database: string): Promise<void> {
  const { query, close } = await openShop(database);
  await query('CREATE TABLE orders (id varchar(64) PRIMARY KEY)', []);
  await migrate(database.startsWith('postgres:') ? 'postgres' : 'sqlite', query);
  await close();
}

interface Opened {
  readonly query: Query;
  /** Of one connection, for transactions. */
  readonly one: Query;
  readonly close: () => Promise<void>;
}

function openSqlite(path: string): Opened {
  const database = new DatabaseSync(path, { timeout: 20_000 });
  database.exec('PRAGMA journal_mode = WAL');
  const query = sqliteQuery(database);
  return { query, one: query, close: async () => database.close() };
}

async function openPostgres(url: string): Promise<Opened> {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  const own = new pg.Client({ connectionString: url });
  // A server that stops tells idle connections, too. Statements reject by themselves.
  pool.on('error', () => undefined);
  own.on('error', () => undefined);
  await own.connect();
  const close = async (): Promise<void> => {
    await Promise.all([pool.end(), own.end()]);
  };
  return { query: pgQuery(pool), one: pgQuery(own), close };
}
