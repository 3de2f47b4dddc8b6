/**
 * Tasks in the transactions of your own database.
 *
 * - `new Outbox({ dialect })`: `enqueue` writes a task in your transaction; `stats`, `refused`, `retryRefused`.
 * - `new Relay({ client, outbox, query })`: takes the tasks to the node, each exactly once.
 * - `new Completions({ dialect })`: `record` says in your transaction that the work of a task is done.
 * - `migrate(dialect, query)`, `migrations(dialect)`: the tables.
 * - `pgQuery`, `mysqlQuery`, `sqliteQuery`, `prismaQuery`, `kyselyQuery`, `drizzleQuery`: the query function of your driver.
 */

export { type CompletionOptions, Completions, type Fenced, StaleLeaseError } from './completions.ts';
export type { DialectName } from './dialect.ts';
export type { RefusedRow, SentBatch } from './lane-sender.ts';
export { type Listen, type PgListener, pgListen } from './listen.ts';
export {
  Outbox,
  type OutboxOptions,
  type OutboxQueueOptions,
  type OutboxStats,
  outboxQueue,
  type RefusedTask,
} from './outbox.ts';
export {
  type CompiledQueryLike,
  type DrizzleLike,
  type DrizzleSqlLike,
  drizzleQuery,
  type KyselyLike,
  kyselyQuery,
  type MysqlLike,
  mysqlQuery,
  type PgLike,
  type PrismaLike,
  pgQuery,
  prismaQuery,
  type Query,
  type Row,
  type SqliteLike,
  type SqliteStatementLike,
  type SqlValue,
  type SyncQuery,
  sqliteQuery,
  sqliteQuerySync,
} from './query.ts';
export { Relay, type RelayError, type RelayOptions, type RelayStats } from './relay.ts';
export { type Migration, migrate, migrateSync, migrations } from './schema.ts';
