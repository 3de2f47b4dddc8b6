/** A parameter of a statement. */
export type SqlValue = string | number | Uint8Array | null;

/** A row of a result, by the names of its columns. */
export type Row = Readonly<Record<string, unknown>>;

/**
 * Runs one statement with its parameters in order, and resolves with its rows, or with none. Inside a transaction it is the query
 * function of the transaction; a relay gets that of a pool or a connection, which commits each statement by itself.
 */
export type Query = (sql: string, params: readonly SqlValue[]) => Promise<readonly Row[]>;

/** As `Query`, but at once: for drivers of SQLite, whose transactions do not wait. */
export type SyncQuery = (sql: string, params: readonly SqlValue[]) => readonly Row[];

/** @throws TypeError if it is no function, but a pool for example. */
export function assertQuery(query: unknown): void {
  if (typeof query !== 'function')
    throw new TypeError('query: must be a query function, such as pgQuery(pool) or sqliteQuery(database)');
}

/** A statement that was not run yet. */
export interface Statement {
  readonly sql: string;
  readonly params: readonly SqlValue[];
}

/** Steps that run statements one after the other and get the rows of each. So the same steps run at once or with waits. */
export type Steps<Result> = Generator<Statement, Result, readonly Row[]>;

/** Runs all steps. */
export async function runSteps<Result>(query: Query, steps: Steps<Result>): Promise<Result> {
  assertQuery(query);
  let next = steps.next();
  while (!next.done) next = steps.next(await query(next.value.sql, next.value.params));
  return next.value;
}

/** As `runSteps`, at once. */
export function runStepsSync<Result>(query: SyncQuery, steps: Steps<Result>): Result {
  assertQuery(query);
  let next = steps.next();
  while (!next.done) next = steps.next(query(next.value.sql, next.value.params));
  return next.value;
}

/** Of the package `pg`: a client, a client of a pool, or a pool. */
export interface PgLike {
  query(text: string, values: unknown[]): Promise<{ readonly rows: readonly Row[] }>;
}

/** The query function of a client or a pool of `pg`. */
export const pgQuery =
  (client: PgLike): Query =>
  async (sql, params) =>
    (await client.query(sql, [...params])).rows;

/** Of the package `mysql2/promise`: a connection or a pool. */
export interface MysqlLike {
  query(sql: string, values: unknown[]): Promise<readonly [unknown, ...unknown[]]>;
}

/** The query function of a connection or a pool of `mysql2/promise`. */
export const mysqlQuery =
  (connection: MysqlLike): Query =>
  async (sql, params) => {
    const [rows] = await connection.query(sql, [...params]);
    return Array.isArray(rows) ? rows : [];
  };

/** A prepared statement of `node:sqlite` or `better-sqlite3`. */
export interface SqliteStatementLike {
  all(...params: SqlValue[]): unknown[];
  run(...params: SqlValue[]): unknown;
}

/** Of `node:sqlite` (`DatabaseSync`) or `better-sqlite3`. */
export interface SqliteLike {
  prepare(sql: string): SqliteStatementLike;
}

const HAS_ROWS = /^\s*(SELECT|WITH)\b/i;

/** The query function of a database of `node:sqlite` or `better-sqlite3`, for use in a transaction that does not wait. */
export const sqliteQuerySync =
  (database: SqliteLike): SyncQuery =>
  (sql, params) => {
    const statement = database.prepare(sql);
    if (HAS_ROWS.test(sql)) return statement.all(...params) as readonly Row[];
    statement.run(...params);
    return [];
  };

/** The query function of a database of `node:sqlite` or `better-sqlite3`, for a relay with a connection of its own. */
export const sqliteQuery = (database: SqliteLike): Query => {
  const query = sqliteQuerySync(database);
  return async (sql, params) => query(sql, params);
};

/** Of Prisma: a client, or the `tx` of `$transaction`. */
export interface PrismaLike {
  $queryRawUnsafe(sql: string, ...values: unknown[]): Promise<unknown>;
  $executeRawUnsafe(sql: string, ...values: unknown[]): Promise<unknown>;
}

/** The query function of a client or a transaction of Prisma. */
export const prismaQuery =
  (prisma: PrismaLike): Query =>
  async (sql, params) => {
    if (HAS_ROWS.test(sql)) return (await prisma.$queryRawUnsafe(sql, ...params)) as readonly Row[];
    await prisma.$executeRawUnsafe(sql, ...params);
    return [];
  };

/** Of Kysely: a database or a transaction. `Compiled` is its type of a compiled query. */
export interface KyselyLike<Compiled> {
  executeQuery(query: Compiled): Promise<{ readonly rows: readonly unknown[] }>;
}

/** `CompiledQuery` of the package `kysely`. */
export interface CompiledQueryLike<Compiled> {
  raw(sql: string, parameters: unknown[]): Compiled;
}

/** The query function of a database or a transaction of Kysely: `kyselyQuery(trx, CompiledQuery)`. */
export const kyselyQuery =
  <Compiled>(kysely: KyselyLike<Compiled>, compiledQuery: CompiledQueryLike<Compiled>): Query =>
  async (sql, params) =>
    (await kysely.executeQuery(compiledQuery.raw(sql, [...params]))).rows as readonly Row[];

/** `sql` of the package `drizzle-orm`. `Chunk` is its type of a piece of SQL. */
export type DrizzleSqlLike<Chunk> = (strings: TemplateStringsArray, ...params: SqlValue[]) => Chunk;

/** Of Drizzle: a database or a transaction. Those of SQLite have `all` and `run`, the others have `execute`. */
export type DrizzleLike<Chunk> =
  | { execute(query: Chunk): PromiseLike<unknown> }
  | { all(query: Chunk): unknown; run(query: Chunk): unknown };

/** The query function of a database or a transaction of Drizzle: `drizzleQuery(tx, sql)`. */
export function drizzleQuery<Chunk>(drizzle: DrizzleLike<Chunk>, sql: DrizzleSqlLike<Chunk>): Query {
  const query = (text: string, params: readonly SqlValue[]): unknown => {
    const chunk = sql(templateOf(text), ...params);
    if ('execute' in drizzle) return drizzle.execute(chunk);
    return HAS_ROWS.test(text) ? drizzle.all(chunk) : drizzle.run(chunk);
  };
  return async (text, params) => drizzleRows(await query(text, params));
}

/** The text between the parameters, as a template literal has it. */
function templateOf(text: string): TemplateStringsArray {
  const parts = text.split(/\$\d+|\?/);
  return Object.assign([...parts], { raw: parts });
}

/** Drivers differ: rows, an object with `rows`, or a list whose first part are the rows. */
function drizzleRows(result: unknown): readonly Row[] {
  if (typeof result === 'object' && result !== null && 'rows' in result) return result.rows as readonly Row[];
  if (!Array.isArray(result)) return [];
  const [first] = result;
  return Array.isArray(first) ? first : result;
}
