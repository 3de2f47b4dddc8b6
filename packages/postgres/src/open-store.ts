import type { Instant } from '@taskmaster/engine/domain';
import { type SharedHolders, type Store, StoreFailedError, WriteBatch } from '@taskmaster/engine/ports';
import type pg from 'pg';
import { DatabaseTime } from './database-time.ts';
import { hostsOf, shownHost } from './hosts.ts';
import type { After, StoreLog } from './link.ts';
import { connectTo, PgDatabase } from './pg-database.ts';
import { databaseErrorOf, isSqlState } from './pg-errors.ts';
import { type OnStatement, PgSession } from './pg-session.ts';
import { PostgresHolders } from './postgres-holders.ts';
import { PostgresStore } from './postgres-store.ts';
import {
  type AcceptedLoss,
  acceptLoss,
  claimCluster,
  fenceNode,
  type RecordedCluster,
  type Registered,
  register,
  registerRestore,
  type SharedSettings,
} from './register.ts';
import { Statements } from './statements.ts';

/**
 * A store in a database. `giveUp` ends the waits for a database that does not answer. If nodes share it, `holders` says who holds
 * what, and `claim` records their cluster.
 */
export type DatabaseStore = Store &
  Pick<PostgresStore, 'giveUp' | 'figures' | 'time'> & {
    readonly holders: SharedHolders;
    claim(cluster: RecordedCluster): Promise<RecordedCluster>;
  };

export interface OpenStoreOptions {
  /** `postgres://user:password@host:5432,other:5432/database`: the hosts of one database, of which one takes writes. */
  readonly url: string;
  /** Default `taskmaster`. It is created if it is missing. */
  readonly schema?: string;
  /** The name of the node. A process that opens the store takes the place of the one that has used this name. */
  readonly name: string;
  /** Version of this program. It is recorded when the format of the data changes. */
  readonly release: string;
  /** What the nodes of a cluster that share the store must agree about. Undefined: one node has it alone. */
  readonly shared?: SharedSettings;
  readonly log?: StoreLog;
  /** Longest wait for an answer, in ms, before the connection counts as lost. Default 15,000. */
  readonly answerTimeoutMs?: number;
  /** Called for each statement that was answered. */
  readonly onStatement?: OnStatement;
}

const CONNECT_TIMEOUT_MS = 5_000;
const ANSWER_TIMEOUT_MS = 15_000;
const DEFAULT_SCHEMA = 'taskmaster';

const SILENT: StoreLog = { info: () => {}, warn: () => {}, error: () => {} };

const after: After = (delayMs, callback) => {
  const timer = setTimeout(callback, delayMs);
  return () => clearTimeout(timer);
};

/**
 * Opens a store in a database, or creates it in a schema without tables, and takes the place of the process that has used it
 * under this name. Rejects with `StoreFailedError` (no server takes writes, wrong password, no rights), `StoreCorruptError`
 * (changed tables, lost commits), `StoreUnfinishedError` or `StoreNewerError`, and has changed nothing then.
 */
export function openPostgresStore(options: OpenStoreOptions): Promise<DatabaseStore> {
  const { name, release, shared } = options;
  return openAs(options, (client, schema) => register(client, schema, { name, release, shared }));
}

/**
 * Opens a store to restore a backup into it. The schema must have no data, or that of a restore that has not finished, which is
 * deleted. No node opens the store until `restoreBackup` has written all. Rejects as `openPostgresStore` does, or with
 * `StoreUsedError`.
 */
export function openStoreToRestore(options: Omit<OpenStoreOptions, 'name' | 'shared'>): Promise<DatabaseStore> {
  return openAs(options, (client, schema) => registerRestore(client, schema, options.release));
}

async function openAs(
  options: Omit<OpenStoreOptions, 'name'>,
  take: (client: pg.Client, schema: string) => Promise<Registered>,
): Promise<DatabaseStore> {
  const { url, schema = DEFAULT_SCHEMA, log = SILENT, answerTimeoutMs = ANSWER_TIMEOUT_MS, onStatement } = options;
  const hosts = hostsOf(url);
  assertName(schema);
  const statements = new Statements(schema);
  const database = new PgDatabase({
    hosts,
    statements,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    answerTimeoutMs,
    onStatement,
  });
  const { client, host } = await connectToFirst(hosts);
  const session = new PgSession({ client, host, statements, answerTimeoutMs, onStatement });
  try {
    const { me, seq, earlier } = await take(client, schema);
    log.info(
      { server: shownHost(host), schema, node: me.name, fence: me.fence, seq },
      earlier === 0 ? 'began a store' : 'took the store over',
    );
    await warnOfPromises(client, log);
    const time = new DatabaseTime();
    const { found } = await time.measure(() => session.measure(me.name));
    const store = new PostgresStore({
      database,
      session,
      me,
      acknowledged: seq,
      after,
      log,
      time,
      diskBytes: found.bytes,
    });
    const apart = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> => withClient(hosts, work);
    const { link } = store;
    const holders = new PostgresHolders({
      link,
      statements,
      // Over a connection of its own: it waits for the commit in flight of the other node.
      fence: (node) => apart((client) => fenceNode(client, schema, me, node)),
      commitNothing: () => store.write(new WriteBatch()),
    });
    const claim = (cluster: RecordedCluster) => apart((client) => claimCluster(client, schema, cluster));
    return Object.assign(store, { holders, claim });
  } catch (error) {
    session.end();
    throw explained(error, hosts, schema);
  }
}

async function withClient<T>(hosts: readonly pg.ClientConfig[], work: (client: pg.Client) => Promise<T>): Promise<T> {
  const { client } = await connectToFirst(hosts);
  try {
    return await work(client);
  } finally {
    // The answer is there. A server that is gone is not waited for.
    void client.end().catch(() => {});
  }
}

export interface AcceptLossOptions extends Pick<OpenStoreOptions, 'url' | 'schema' | 'name'> {
  readonly now: Instant;
}

/** Lets a node start although the database has lost commits that were acknowledged. Undefined: it has not lost any. */
export async function acceptStoreLoss(options: AcceptLossOptions): Promise<AcceptedLoss | undefined> {
  const { url, schema = DEFAULT_SCHEMA, name, now } = options;
  const hosts = hostsOf(url);
  const { client } = await connectToFirst(hosts);
  try {
    return await acceptLoss(client, schema, name, now);
  } catch (error) {
    throw explained(error, hosts, schema);
  } finally {
    await client.end();
  }
}

async function connectToFirst(
  hosts: readonly pg.ClientConfig[],
): Promise<{ readonly client: pg.Client; readonly host: pg.ClientConfig }> {
  const problems: string[] = [];
  for (const host of hosts) {
    try {
      return { client: await connectTo(host, CONNECT_TIMEOUT_MS), host };
    } catch (error) {
      problems.push(`${shownHost(host)}: ${messageOf(error)}`);
    }
  }
  throw new StoreFailedError(`cannot use the store: ${problems.join('; ')}. Nothing was changed`);
}

/** Other names would need quotes wherever people write them. */
function assertName(schema: string): void {
  if (/^[a-z_][a-z0-9_]{0,62}$/.test(schema)) return;
  throw new StoreFailedError(`the schema must have a name of a to z, 0 to 9 and _, not ${JSON.stringify(schema)}`);
}

/** Warns of a database that promises less than a store needs. */
async function warnOfPromises(client: pg.Client, log: StoreLog): Promise<void> {
  const { rows } = await client.query<{ standbys: string; fsync: string; commit: string }>(
    `SELECT current_setting('synchronous_standby_names') AS standbys, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS commit`,
  );
  const [settings] = rows;
  if (settings?.fsync === 'off') {
    log.warn({}, 'the database has fsync off: a crash of its machine may lose or damage all tasks');
  }
  if (settings?.standbys === '') {
    log.warn(
      {},
      'the database has no synchronous standby (synchronous_standby_names is empty): what is acknowledged is on one machine only, and a ' +
        'failover to another one may lose the last commits. The node notices that and stops, until an operator accepts the loss',
    );
  } else if (settings?.commit === 'remote_write') {
    log.warn(
      {},
      'synchronous_commit is remote_write: a crash of the primary and the standby at once may lose the last commits',
    );
  }
}

function explained(error: unknown, hosts: readonly pg.ClientConfig[], schema: string): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  const { code } = error as Error & { readonly code?: unknown };
  if (!isSqlState(code) && databaseErrorOf(error) !== error && !('code' in error)) return error;
  const hint =
    code === '42501'
      ? `: the role needs the schema ${schema} for itself (CREATE SCHEMA ${schema} AUTHORIZATION its_name)`
      : code === '53100'
        ? ': free space for the database, then start again'
        : code === '55P03'
          ? ': a commit of the process that has this store does not end (does it wait for a synchronous standby?)'
          : '';
  return new StoreFailedError(
    `cannot use the store at ${hosts.map(shownHost).join(' or ')}: ${error.message}${hint}. Nothing was changed`,
    {
      cause: error,
    },
  );
}

function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join(', ');
  return error instanceof Error ? error.message : String(error);
}
