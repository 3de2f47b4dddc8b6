import type { SqlValue, Statement } from './query.ts';

/** A kind of database. MariaDB is `mysql`. */
export type DialectName = 'postgres' | 'mysql' | 'sqlite';

/** Where the SQL of databases differs. */
export interface Dialect {
  readonly name: DialectName;
  /** The time of the database, in ms since 1970. */
  readonly nowMs: string;
  /** The end of an INSERT that changes nothing if the row is there. `column`: any column of the key. */
  orIgnore(column: string): string;
  /** The end of a SELECT that waits for other transactions and reads what they have committed. */
  readonly forUpdate: string;
  /** The larger one of two numbers. */
  readonly greatest: string;
  /** How an INSERT names the value that it would have inserted. */
  inserted(column: string): string;
  /** The begin of what follows if the row of an INSERT is there. */
  onConflict(column: string): string;
  /** The names of queues with rows, behind one name, in order. One parameter: that name. */
  queues(table: string, limit: number): string;
}

/** Jumps from name to name in the index: the cost follows from the number of queues, not of rows. */
const jumping = (table: string, limit: number): string =>
  `WITH RECURSIVE found(queue) AS (` +
  `SELECT min(queue) FROM ${table} WHERE queue > ? UNION ALL ` +
  `SELECT (SELECT min(o.queue) FROM ${table} o WHERE o.queue > found.queue) FROM found WHERE found.queue IS NOT NULL` +
  `) SELECT queue FROM found WHERE queue IS NOT NULL LIMIT ${limit}`;

export const dialects: Readonly<Record<DialectName, Dialect>> = {
  postgres: {
    name: 'postgres',
    nowMs: '(extract(epoch from clock_timestamp()) * 1000)::bigint',
    orIgnore: () => 'ON CONFLICT DO NOTHING',
    forUpdate: 'FOR UPDATE',
    greatest: 'greatest',
    inserted: (column) => `excluded.${column}`,
    onConflict: (column) => `ON CONFLICT (${column}) DO UPDATE SET`,
    queues: jumping,
  },
  mysql: {
    name: 'mysql',
    nowMs: 'CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)',
    // INSERT IGNORE would hide other errors, too.
    orIgnore: (column) => `ON DUPLICATE KEY UPDATE ${column} = ${column}`,
    forUpdate: 'FOR UPDATE',
    greatest: 'greatest',
    inserted: (column) => `VALUES(${column})`,
    onConflict: () => 'ON DUPLICATE KEY UPDATE',
    // It jumps by itself ("Using index for group-by"), and its recursion has a limit.
    queues: (table, limit) => `SELECT DISTINCT queue FROM ${table} WHERE queue > ? ORDER BY queue LIMIT ${limit}`,
  },
  sqlite: {
    name: 'sqlite',
    nowMs: "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    orIgnore: () => 'ON CONFLICT DO NOTHING',
    forUpdate: '',
    greatest: 'max',
    inserted: (column) => `excluded.${column}`,
    onConflict: (column) => `ON CONFLICT (${column}) DO UPDATE SET`,
    queues: jumping,
  },
};

/** A statement. In its text each parameter is a `?`. */
export function statement(dialect: Dialect, text: string, ...params: readonly SqlValue[]): Statement {
  let at = 0;
  return { sql: dialect.name === 'postgres' ? text.replaceAll('?', () => `$${++at}`) : text, params };
}

/** Drivers return 64-bit numbers as text, as a bigint or as a number. */
export function numberOf(value: unknown): number {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  throw new TypeError(`the database returned ${String(value)} where a whole number is expected`);
}

/** Drivers return text of binary columns as bytes. */
export const textOf = (value: unknown): string =>
  value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : String(value);

/** @throws TypeError if the options name none. */
export function dialectOf(options: { readonly dialect: DialectName } | undefined): Dialect {
  const name = options?.dialect;
  if (name !== undefined && Object.hasOwn(dialects, name)) return dialects[name];
  throw new TypeError(`dialect: '${String(name)}' is not 'postgres', 'mysql' or 'sqlite'`);
}
