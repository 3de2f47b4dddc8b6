import { setTimeout as delay } from 'node:timers/promises';
import { loadLibrary } from '../libraries.ts';
import { POSTGRES_DATABASE, POSTGRES_USER } from '../servers/postgres.ts';
import { type Consumer, hostAndPort } from './client.ts';

/** The parts of pg that are used here. */
export interface Pool {
  query<Row = unknown>(query: Query | string): Promise<{ readonly rows: readonly Row[] }>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  end(): Promise<void>;
}

/** A query with a name is prepared once for each connection. */
interface Query {
  readonly name: string;
  readonly text: string;
  readonly values?: readonly unknown[];
}

/** Number of connections. More are not faster on a small machine. */
export const POOL = 32;

/** Time between two questions for a task, in ms. */
export const PAUSE_MS = 10;

/** A consumer that asks for a task again and again, and completes it. */
export function poll<Task>(
  lease: () => Promise<readonly Task[]>,
  complete: (leased: readonly Task[]) => Promise<void>,
  received: () => void,
): Consumer {
  let isOver = false;
  const polling = (async () => {
    while (!isOver) {
      const leased = await lease();
      if (leased.length === 0) {
        await delay(PAUSE_MS);
        continue;
      }
      received();
      await complete(leased);
    }
  })();
  return {
    async stop() {
      isOver = true;
      await polling;
    },
  };
}

export function postgresAt(endpoint: string): object {
  return { ...hostAndPort(endpoint), user: POSTGRES_USER, database: POSTGRES_DATABASE };
}

/** Connects when the database accepts queries. It accepts connections some time before. */
export async function connectPool(endpoint: string, max = POOL): Promise<Pool> {
  const { default: pg } = await loadLibrary<{ readonly default: { readonly Pool: new (options: object) => Pool } }>(
    'pg',
  );
  const pool = new pg.Pool({ ...postgresAt(endpoint), max });
  pool.on('error', () => {}); // errors of idle connections at the end of the server; queries reject by themselves
  for (let attempt = 1; ; attempt++) {
    try {
      await pool.query('SELECT 1');
      return pool;
    } catch (error) {
      if (attempt === 100) throw error;
      await delay(100);
    }
  }
}
