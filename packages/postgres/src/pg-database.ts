import pg from 'pg';
import { type Database, DatabaseError, type Session } from './database.ts';
import { shownHost } from './hosts.ts';
import { databaseErrorOf, isSqlState } from './pg-errors.ts';
import { type OnStatement, PgSession, streamOf } from './pg-session.ts';
import type { Statements } from './statements.ts';

export interface PgDatabaseOptions {
  /** In the order in which they are tried. */
  readonly hosts: readonly pg.ClientConfig[];
  readonly statements: Statements;
  /** Longest time for a connection to one host, in ms. */
  readonly connectTimeoutMs: number;
  /** See `PgSessionOptions`. */
  readonly answerTimeoutMs: number;
  readonly onStatement?: OnStatement | undefined;
}

/**
 * What each session sets, whatever the database or the role has by default. Plans are made once, without the parameters: they
 * would be read and estimated for each plan, and may be 16 MB. All access is by the key. Commits wait for the disk. Results have
 * the form that `PgSession` reads. A server ends a statement that waits for a lock or runs when its client is gone: otherwise
 * each try during a long wait would leave one more connection. Servers on Linux can do that.
 */
const SETTINGS = `
  SELECT set_config(name, value, false) FROM (VALUES
    ('plan_cache_mode', 'force_generic_plan'), ('enable_seqscan', 'off'), ('enable_sort', 'off'), ('max_parallel_workers_per_gather', '0'), ('jit', 'off'),
    ('lock_timeout', '0'), ('idle_session_timeout', '0'), ('transaction_timeout', '0'),
    ('idle_in_transaction_session_timeout', '0'), ('default_transaction_isolation', 'read committed'), ('bytea_output', 'hex'),
    ('client_connection_check_interval', CASE WHEN version() LIKE '%linux%' THEN '1s' ELSE '0' END),
    ('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
      ELSE current_setting('synchronous_commit') END)) s(name, value)
  WHERE current_setting(name, true) IS NOT NULL`;

/** Ends a statement that takes longer than the role allows. */
const QUERY_CANCELED = '57014';

/**
 * Goes first, and alone: until it is done, each statement may be ended because of the timeout that the role has, for which a busy
 * machine is enough. It is short, and sent again then. It is no parameter of the connection, because poolers refuse connections
 * with those.
 */
async function endStatementTimeout(client: pg.Client): Promise<void> {
  for (;;) {
    try {
      await client.query('SET statement_timeout TO 0');
      return;
    } catch (error) {
      if ((error as { readonly code?: unknown }).code !== QUERY_CANCELED) throw error;
    }
  }
}

const STATE = `SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') AS read_only`;

/** Longest wait for an answer to a statement that has no bound of its own, as those of a start. Waits for locks are shorter. */
const LONGEST_ANSWER_MS = 60_000;

/** Opens a connection to one server, as the settings of `hosts` say. `connectTimeoutMs`: until it can be used. */
export async function connectTo(host: pg.ClientConfig, connectTimeoutMs: number): Promise<pg.Client> {
  const client = new pg.Client({
    application_name: 'taskmaster',
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    ...host,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: LONGEST_ANSWER_MS,
  });
  // The rejection of a call says the same. Without a listener the process would end.
  client.on('error', () => {});
  // A server, or what is before it, may accept a connection and then be silent: another host is tried then.
  const deadline = setTimeout(() => {
    streamOf(client).destroy(new Error(`no answer within ${connectTimeoutMs} ms`));
  }, connectTimeoutMs);
  try {
    await client.connect();
    await endStatementTimeout(client);
    const { rows } = await client.query<{ standby: boolean; read_only: string }>(STATE);
    const [state] = rows;
    if (state?.standby) throw new DatabaseError('lost', 'the server is a standby, or still in recovery');
    if (state?.read_only === 'on') throw new DatabaseError('lost', 'the server is read-only');
    await client.query(SETTINGS);
    return client;
  } catch (error) {
    void client.end().catch(() => {});
    throw error;
  } finally {
    clearTimeout(deadline);
  }
}

/** A database behind one or several hosts, of which one takes writes. */
export class PgDatabase implements Database {
  readonly #options: PgDatabaseOptions;

  constructor(options: PgDatabaseOptions) {
    this.#options = options;
  }

  async connect(like?: Session): Promise<Session> {
    const { hosts, statements, connectTimeoutMs, answerTimeoutMs, onStatement } = this.#options;
    const problems: string[] = [];
    let refused: DatabaseError | undefined;
    for (const host of like instanceof PgSession ? [like.host] : hosts) {
      try {
        const client = await connectTo(host, connectTimeoutMs);
        return new PgSession({ client, host, statements, answerTimeoutMs, onStatement });
      } catch (error) {
        const found = databaseErrorOf(error);
        problems.push(`${shownHost(host)}: ${found.message}`);
        if (found.kind === 'failed') refused ??= found;
      }
    }
    const cause = refused?.cause as { readonly code?: unknown } | undefined;
    throw new DatabaseError('lost', problems.join('; '), isSqlState(cause?.code) ? { cause } : undefined);
  }
}
