import { libraryVersion } from '../libraries.ts';
import { BATCH, type PeerClient } from './client.ts';
import { payloadText } from './payload.ts';
import { connectPool, PAUSE_MS, POOL, type Pool, poll } from './postgres.ts';

const CALL = { kind: 'loop', confirmed: true } as const;

interface Leased {
  readonly id: string;
}

/** As River keeps jobs: what happened to each of them stays in its row, and it is found by state, queue, priority and time. */
const SCHEMA = [
  `CREATE TYPE job_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'retryable', 'running', 'scheduled')`,
  `CREATE TABLE job (
    id bigserial PRIMARY KEY,
    state job_state NOT NULL DEFAULT 'available',
    attempt smallint NOT NULL DEFAULT 0,
    max_attempts smallint NOT NULL DEFAULT 25,
    priority smallint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    scheduled_at timestamptz NOT NULL DEFAULT now(),
    attempted_at timestamptz,
    finalized_at timestamptz,
    queue text NOT NULL,
    kind text NOT NULL,
    args jsonb NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    errors jsonb[],
    attempted_by text[],
    tags varchar(255)[] NOT NULL DEFAULT '{}'
  )`,
  'CREATE INDEX job_by_kind ON job (kind)',
  'CREATE INDEX job_by_end ON job (state, finalized_at) WHERE finalized_at IS NOT NULL',
  'CREATE INDEX job_in_order ON job (state, queue, priority, scheduled_at, id)',
];

/** River is a library for Go. These are statements of its design, from Node.js. */
export async function connectRiverPattern(endpoint: string): Promise<PeerClient> {
  const pool = await connectPool(endpoint);
  for (const text of SCHEMA) await pool.query(text);
  const jobs = new Jobs(pool);
  return {
    version: libraryVersion('pg'),
    enqueue: { ...CALL, how: `INSERT, ${POOL} connections`, operate: () => jobs.insert('bench', 1) },
    enqueueMany: { ...CALL, how: `INSERT of ${BATCH} rows`, operate: () => jobs.insert('bench', BATCH) },
    leaseComplete: { ...CALL, how: 'UPDATE of SKIP LOCKED LIMIT 1, UPDATE', operate: () => jobs.work(1) },
    leaseCompleteMany: {
      ...CALL,
      how: `UPDATE of SKIP LOCKED LIMIT ${BATCH}, one UPDATE`,
      operate: () => jobs.work(BATCH),
    },
    waiting: `asks again every ${PAUSE_MS} ms`,
    enqueueToWaiting: async () => void (await jobs.insert('waiting', 1)),
    wait: async (received) =>
      poll(
        () => jobs.fetch('waiting', 1),
        (leased) => jobs.complete(leased),
        received,
      ),
    [Symbol.asyncDispose]: () => pool.end(),
  };
}

class Jobs {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async insert(queue: string, count: number): Promise<number> {
    const args = Array.from({ length: count }, () => JSON.stringify({ payload: payloadText() }));
    await this.#pool.query({
      name: 'insert',
      text: `INSERT INTO job (queue, kind, args) SELECT $1, 'bench', args FROM unnest($2::jsonb[]) AS t(args)`,
      values: [queue, args],
    });
    return count;
  }

  async fetch(queue: string, most: number): Promise<readonly Leased[]> {
    const { rows } = await this.#pool.query<Leased>({
      name: 'fetch',
      // With an array, so that the planner uses the key even without statistics of the table.
      text: `
        UPDATE job SET state = 'running', attempt = attempt + 1, attempted_at = now(), attempted_by = array_append(attempted_by, 'bench')
        WHERE id = ANY (ARRAY (
          SELECT id FROM job WHERE state = 'available' AND queue = $1 AND scheduled_at <= now()
          ORDER BY priority, scheduled_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
        ))
        RETURNING id, args`,
      values: [queue, most],
    });
    return rows;
  }

  async complete(leased: readonly Leased[]): Promise<void> {
    await this.#pool.query({
      name: 'complete',
      text: `UPDATE job SET state = 'completed', finalized_at = now() WHERE id = ANY ($1::bigint[]) AND state = 'running'`,
      values: [leased.map(({ id }) => id)],
    });
  }

  async work(most: number): Promise<number> {
    const leased = await this.fetch('bench', most);
    if (leased.length > 0) await this.complete(leased);
    return leased.length;
  }
}
