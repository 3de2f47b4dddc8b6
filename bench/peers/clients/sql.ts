import { libraryVersion } from '../libraries.ts';
import { BATCH, type PeerClient } from './client.ts';
import { payloadText } from './payload.ts';
import { connectPool, PAUSE_MS, POOL, type Pool, poll } from './postgres.ts';

/** Number of shards. Consumers begin at different shards, so they contend less. */
const SHARDS = 16;
const LEASE = "interval '60 seconds'";
const CALL = { kind: 'loop', confirmed: true } as const;

interface Leased {
  readonly id: string;
  readonly payload: string;
}

const schema = (table: string): string => `
  CREATE TABLE ${table} (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shard smallint NOT NULL,
    due timestamptz NOT NULL DEFAULT now(),
    leased_until timestamptz,
    attempt integer NOT NULL DEFAULT 0,
    payload text NOT NULL
  );
  CREATE INDEX ${table}_available ON ${table} (shard, due) WHERE leased_until IS NULL`;

/** A hand-made table of tasks: shards, leases, and workers that skip each other's locked rows. */
export async function connectSql(endpoint: string): Promise<PeerClient> {
  const pool = await connectPool(endpoint);
  const tasks = new Tasks(pool, 'task', SHARDS);
  const waiting = new Tasks(pool, 'waiting', 1);
  for (const table of ['task', 'waiting']) await pool.query(schema(table));
  return {
    version: libraryVersion('pg'),
    enqueue: { ...CALL, how: `INSERT, ${POOL} connections`, operate: () => tasks.enqueue() },
    enqueueMany: { ...CALL, how: `INSERT of ${BATCH} rows`, operate: () => tasks.enqueueMany(BATCH) },
    leaseComplete: { ...CALL, how: 'UPDATE of SKIP LOCKED LIMIT 1, DELETE', operate: () => tasks.leaseComplete(1) },
    leaseCompleteMany: {
      ...CALL,
      how: `UPDATE of SKIP LOCKED LIMIT ${BATCH}, one DELETE`,
      operate: () => tasks.leaseComplete(BATCH),
    },
    waiting: `asks again every ${PAUSE_MS} ms`,
    enqueueToWaiting: async () => void (await waiting.enqueue()),
    wait: async (received) =>
      poll(
        () => waiting.lease(1),
        (leased) => waiting.complete(leased),
        received,
      ),
    [Symbol.asyncDispose]: () => pool.end(),
  };
}

class Tasks {
  readonly #pool: Pool;
  readonly #table: string;
  readonly #shards: number;
  #turn = 0;

  constructor(pool: Pool, table: string, shards: number) {
    this.#pool = pool;
    this.#table = table;
    this.#shards = shards;
  }

  async enqueue(): Promise<number> {
    await this.#pool.query({
      name: `${this.#table}-enqueue`,
      text: `INSERT INTO ${this.#table} (shard, payload) VALUES ($1, $2)`,
      values: [this.#turn++ % this.#shards, payloadText()],
    });
    return 1;
  }

  async enqueueMany(count: number): Promise<number> {
    const shards = Array.from({ length: count }, () => this.#turn++ % this.#shards);
    await this.#pool.query({
      name: `${this.#table}-enqueue-many`,
      text: `INSERT INTO ${this.#table} (shard, payload) SELECT * FROM unnest($1::smallint[], $2::text[])`,
      values: [shards, shards.map(payloadText)],
    });
    return count;
  }

  /** Leases from the first shard that has tasks, beginning with another shard each time. */
  async lease(most: number): Promise<readonly Leased[]> {
    const first = this.#turn++;
    for (let i = 0; i < this.#shards; i++) {
      const { rows } = await this.#pool.query<Leased>({
        name: `${this.#table}-lease`,
        // With an array, so that the planner uses the key even without statistics of the table.
        text: `
          UPDATE ${this.#table} SET leased_until = now() + ${LEASE}, attempt = attempt + 1
          WHERE id = ANY (ARRAY (
            SELECT id FROM ${this.#table} WHERE shard = $1 AND due <= now() AND leased_until IS NULL
            ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED
          ))
          RETURNING id, payload`,
        values: [(first + i) % this.#shards, most],
      });
      if (rows.length > 0) return rows;
    }
    return [];
  }

  async complete(leased: readonly Leased[]): Promise<void> {
    await this.#pool.query({
      name: `${this.#table}-complete`,
      text: `DELETE FROM ${this.#table} WHERE id = ANY($1::bigint[])`,
      values: [leased.map(({ id }) => id)],
    });
  }

  async leaseComplete(most: number): Promise<number> {
    const leased = await this.lease(most);
    if (leased.length > 0) await this.complete(leased);
    return leased.length;
  }
}
