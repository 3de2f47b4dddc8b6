import { createRequire } from 'node:module';
import { join } from 'node:path';
import {
  type DialectName,
  type MysqlLike,
  migrate,
  migrations,
  mysqlQuery,
  Outbox,
  type PgLike,
  type PgListener,
  pgListen,
  pgQuery,
  type Query,
  Relay,
  type RelayOptions,
  type SqliteLike,
  sqliteQuery,
} from '@taskmaster/outbox';
import { type Command, Option } from 'commander';
import { someTime, wholeNumber } from '../input/arguments.ts';
import type { Runner, Session } from '../session/session.ts';
import { CommandFailedError, UsageError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { countOf, duration } from '../views/format.ts';
import { notesOf } from '../views/help.ts';
import type { Shell } from '../views/output.ts';

const notes = `
An outbox is tables in the database of an application, which enqueues tasks there in its transactions. A database is
postgres://..., mysql://... or sqlite:FILE. The drivers pg and mysql2 are those that are installed in the working directory.

Examples:
  $ taskmaster outbox schema --dialect postgres
  $ taskmaster outbox migrate --database postgres://localhost/shop
  $ taskmaster outbox relay --database postgres://localhost/shop
  $ taskmaster outbox show --database postgres://localhost/shop
  $ taskmaster outbox retry --database postgres://localhost/shop`;

const DIALECTS: readonly DialectName[] = ['postgres', 'mysql', 'sqlite'];

interface DatabaseFlags {
  readonly database: string;
  readonly prefix?: string;
}

interface RelayFlags extends DatabaseFlags {
  readonly batch: number;
  readonly concurrency: number;
  readonly poll: number;
  readonly takeOverAfter: number;
}

export function addOutbox(program: Command, runner: Runner): void {
  const outbox = program
    .command('outbox')
    .summary('send tasks that transactions of a database have enqueued')
    .description("Sends the tasks of an outbox in an application's database, and shows what waits there.")
    .helpCommand(false)
    .addHelpText('after', notesOf(notes));
  const database = () =>
    new Option('--database <url>', 'postgres://..., mysql://... or sqlite:FILE').makeOptionMandatory();
  const prefix = () => new Option('--prefix <name>', 'what the names of the tables begin with (default: taskmaster)');
  outbox
    .command('relay')
    .summary('send tasks until Ctrl-C')
    .description('Sends the tasks of an outbox, each exactly once, until Ctrl-C or SIGTERM. Several may run at once.')
    .addOption(database())
    .addOption(prefix())
    .option('--batch <n>', 'tasks in one update at most', wholeNumber(1, 1_000), 500)
    .option('--concurrency <n>', 'queues at the same time', wholeNumber(1, 100), 4)
    .addOption(
      new Option('--poll <duration>', 'how often it looks for tasks').argParser(someTime).default(200, '200ms'),
    )
    .addOption(
      new Option('--take-over-after <duration>', 'when another one continues with its queues, if it dies')
        .argParser(someTime)
        .default(10_000, '10s'),
    )
    .addHelpText('after', notesOf(notes))
    .action((flags: RelayFlags) => runner.connected((session) => relay(session, flags)));
  outbox
    .command('schema')
    .summary('print the statements that make the tables')
    .description('Prints the statements that make the tables, for migrations of your own. It needs no database.')
    .addOption(new Option('--dialect <name>', 'the kind of database').choices(DIALECTS).makeOptionMandatory())
    .addOption(prefix())
    .addHelpText('after', notesOf(notes))
    .action((flags: { readonly dialect: DialectName; readonly prefix?: string }) =>
      runner.local((shell) => printSchema(shell, flags)),
    );
  outbox
    .command('migrate')
    .summary('make the tables')
    .description('Makes the tables, or brings them to the version of this release.')
    .addOption(database())
    .addOption(prefix())
    .addHelpText('after', notesOf(notes))
    .action((flags: DatabaseFlags) => runner.local((shell) => makeTables(shell, flags)));
  outbox
    .command('show')
    .summary('show what waits and what was refused')
    .description('Shows how many tasks wait, for how long, and up to 100 tasks that the node refuses for good.')
    .addOption(database())
    .addOption(prefix())
    .addHelpText('after', notesOf(notes))
    .action((flags: DatabaseFlags) => runner.local((shell) => show(shell, flags)));
  outbox
    .command('retry')
    .summary('send refused tasks again')
    .description('Lets the relay send tasks again that the node has refused: those with these ids, or all.')
    .argument('[ids...]', 'ids, as show lists them (default: all)')
    .addOption(database())
    .addOption(prefix())
    .addHelpText('after', notesOf(notes))
    .action((ids: readonly string[], flags: DatabaseFlags) => runner.local((shell) => retry(shell, ids, flags)));
}

async function relay(session: Session, flags: RelayFlags): Promise<ExitCode> {
  const { client, err, out, signal } = session;
  await using database = await openDatabase(flags, flags.concurrency);
  const running = new Relay({
    client,
    outbox: database.outbox,
    query: database.query,
    listen: database.listen,
    batchTasks: flags.batch,
    concurrency: flags.concurrency,
    pollInterval: flags.poll,
    takeOverAfter: flags.takeOverAfter,
    onBatch: (batch) => {
      if (out.json) void out.object(batch);
    },
    onRefused: ({ queue, id, error }) => err.line(`refused a task for ${queue} (id ${id}): ${error.message}`),
    onLostMarker: (queue) => err.line(`the node has lost the marker of ${queue}: its latest batch may come twice`),
    onError: ({ error, queue = 'all queues', retryInMs }) =>
      err.line(`${queue}: ${error instanceof Error ? error.message : String(error)}; again in ${duration(retryInMs)}`),
  });
  await running.run({ signal });
  err.line(`sent ${countOf(running.stats.sent, 'task')}`);
  return exitCodes.ok;
}

async function printSchema(
  { out }: Shell,
  { dialect, prefix }: { readonly dialect: DialectName; readonly prefix?: string },
): Promise<ExitCode> {
  for (const { version, statements } of checked(() => migrations(dialect, { prefix }))) {
    if (out.json) await out.object({ version, statements });
    else await out.block(`-- version ${version}\n${statements.map((text) => `${text};`).join('\n')}`);
  }
  return exitCodes.ok;
}

async function makeTables({ out }: Shell, flags: DatabaseFlags): Promise<ExitCode> {
  await using database = await openDatabase(flags);
  const { dialect, query } = database;
  const version = await ofDatabase(migrate(dialect, query, { prefix: flags.prefix }));
  if (out.json) await out.object({ version });
  else await out.line(`the tables have version ${version}`);
  return exitCodes.ok;
}

async function show({ out }: Shell, flags: DatabaseFlags): Promise<ExitCode> {
  await using database = await openDatabase(flags);
  const { outbox, query } = database;
  const [stats, refused] = [await ofDatabase(outbox.stats(query)), await ofDatabase(outbox.refused(query))];
  if (out.json) {
    await out.object({ ...stats, refusedTasks: refused });
    return exitCodes.ok;
  }
  await out.line(`${countOf(stats.pending, 'task')} waiting, the oldest for ${duration(stats.oldestMs)}`);
  await out.line(`${countOf(stats.refused, 'task')} refused`);
  for (const { id, queue, reason, message } of refused) await out.line(`${id}  ${queue}  ${reason}  ${message}`);
  return exitCodes.ok;
}

async function retry({ out }: Shell, ids: readonly string[], flags: DatabaseFlags): Promise<ExitCode> {
  if (ids.some((id) => !/^\d{1,19}$/.test(id))) throw new UsageError('an id is a number, as outbox show lists it');
  await using database = await openDatabase(flags);
  const { outbox, query } = database;
  await ofDatabase(query('BEGIN', []));
  await ofDatabase(outbox.retryRefused(query, ids.length === 0 ? undefined : ids));
  await ofDatabase(query('COMMIT', []));
  const { pending } = await ofDatabase(outbox.stats(query));
  if (out.json) await out.object({ pending });
  else await out.line(`${countOf(pending, 'task')} waiting`);
  return exitCodes.ok;
}

interface OpenDatabase extends AsyncDisposable {
  readonly dialect: DialectName;
  readonly outbox: Outbox;
  readonly query: Query;
  readonly listen: RelayOptions['listen'];
}

interface Driver {
  readonly query: Query;
  readonly listen?: RelayOptions['listen'];
  readonly close: () => Promise<unknown>;
}

async function openDatabase({ database, prefix }: DatabaseFlags, connections = 1): Promise<OpenDatabase> {
  const [, scheme = ''] = /^(postgres(?:ql)?|mysql|mariadb|sqlite):/.exec(database) ?? [];
  if (scheme === '') throw new UsageError('--database: write postgres://..., mysql://... or sqlite:FILE');
  const dialect: DialectName = scheme.startsWith('postgres') ? 'postgres' : scheme === 'sqlite' ? 'sqlite' : 'mysql';
  const outbox = checked(() => new Outbox({ dialect, prefix }));
  const { query, listen, close } = await ofDatabase(drivers[dialect](database, connections));
  return {
    dialect,
    outbox,
    query,
    listen,
    [Symbol.asyncDispose]: async () => {
      await close();
    },
  };
}

/** What a command uses of `pg`. */
interface Pg {
  readonly Client: new (options: object) => PgListener & { connect(): Promise<unknown> };
  readonly Pool: new (
    options: object,
  ) => PgLike & { on(event: 'error', listener: () => void): unknown; end(): Promise<unknown> };
}

/** What a command uses of `mysql2/promise`. */
interface Mysql {
  createPool(options: object): MysqlLike & { end(): Promise<unknown> };
}

/** Pools, because they connect again. With one connection a transaction is on it. */
const drivers: Readonly<Record<DialectName, (database: string, connections: number) => Promise<Driver>>> = {
  async postgres(connectionString, max) {
    const { Client, Pool } = driver('pg') as Pg;
    const pool = new Pool({ connectionString, max });
    // The next statement connects again.
    pool.on('error', () => undefined);
    const connect = async (): Promise<PgListener> => {
      const client = new Client({ connectionString });
      await client.connect();
      return client;
    };
    return { query: pgQuery(pool), listen: pgListen(connect), close: () => pool.end() };
  },
  async mysql(database, connectionLimit) {
    const { createPool } = driver('mysql2/promise') as Mysql;
    const pool = createPool({ uri: database.replace(/^mariadb:/, 'mysql:'), connectionLimit });
    return { query: mysqlQuery(pool), close: () => pool.end() };
  },
  async sqlite(database) {
    const { DatabaseSync } = (await import('node:sqlite')) as {
      DatabaseSync: new (path: string, options: object) => SqliteLike & { close(): void };
    };
    const opened = new DatabaseSync(database.slice('sqlite:'.length), { timeout: 10_000 });
    return { query: sqliteQuery(opened), close: async () => opened.close() };
  },
};

/** A driver of the user: from the working directory, because this package has none. */
function driver(name: string): unknown {
  try {
    return createRequire(join(process.cwd(), 'package.json'))(name);
  } catch (error) {
    const hint = `install it in the working directory: npm install ${name.split('/')[0]}`;
    throw new CommandFailedError('NO_DRIVER', `${name} cannot be loaded`, { hint, cause: error });
  }
}

/** Options that the outbox refuses. */
function checked<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(error.message);
    throw error;
  }
}

async function ofDatabase<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof CommandFailedError) throw error;
    const message = error instanceof Error ? error.message || String(error) : String(error);
    throw new CommandFailedError('DATABASE_FAILED', message, { cause: error });
  }
}
