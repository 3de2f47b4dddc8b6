import { type Dialect, numberOf, statement, textOf } from './dialect.ts';
import { idList } from './outbox.ts';
import type { Query, Row, SqlValue } from './query.ts';
import type { Tables } from './schema.ts';

/**
 * What the database knows of the way of a queue's tasks. A batch is named here before it is sent, and the name goes with it to
 * the node. So whoever continues, after any crash, sends the same rows under the same name.
 */
export interface Lane {
  readonly queue: string;
  /** The marker that the last batch has left at the node. Empty: there was none. */
  readonly marker: string;
  /** The batch that may have been sent. Empty: there is none. */
  readonly batch: string;
  /** Its rows. */
  readonly ids: readonly string[];
  /** The relay that sends. */
  readonly holder: string;
}

/** A task that waits in the outbox. */
export interface OutboxRow {
  readonly id: string;
  readonly task: Uint8Array;
  readonly createdMs: number;
}

/** The rows for a new batch. */
export interface Picked {
  readonly ids: readonly string[];
  /** Whether the queue had no more. */
  readonly areAll: boolean;
  /** The time of the database, in ms since 1970. */
  readonly nowMs: number;
}

/**
 * The statements of relays. Each is committed by itself, and each change names the state that it changes: a relay that was taken
 * over changes nothing. So they need neither transactions nor the number of changed rows, which drivers tell in many ways.
 */
export class Lanes {
  readonly #query: Query;
  readonly #dialect: Dialect;
  readonly #tables: Tables;
  readonly #holder: string;
  readonly #holdMs: number;

  /** @param holder the name of this relay. @param holdMs how long it keeps a lane without a statement, in ms. */
  constructor(query: Query, dialect: Dialect, tables: Tables, holder: string, holdMs: number) {
    this.#query = query;
    this.#dialect = dialect;
    this.#tables = tables;
    this.#holder = holder;
    this.#holdMs = holdMs;
  }

  /** Queues with rows, behind a name. */
  async queues(after: string, limit: number): Promise<string[]> {
    const { sql, params } = statement(this.#dialect, this.#dialect.queues(this.#tables.rows, limit), after);
    return (await this.#query(sql, params)).map(({ queue }) => textOf(queue));
  }

  /** Takes the lane of a queue if it is free. Undefined: another relay has it. */
  async take(queue: string): Promise<Lane | undefined> {
    const { lanes } = this.#tables;
    const { nowMs } = this.#dialect;
    const take =
      `UPDATE ${lanes} SET holder = ?, held_until_ms = ${nowMs} + ${this.#holdMs}` +
      ` WHERE queue = ? AND (holder = ? OR held_until_ms < ${nowMs})`;
    await this.#run(take, this.#holder, queue, this.#holder);
    let lane = await this.#read(queue);
    if (lane === undefined) {
      await this.#run(
        `INSERT INTO ${lanes} (queue, marker, batch, ids, holder, held_until_ms)` +
          ` VALUES (?, '', '', '', ?, ${nowMs} + ${this.#holdMs}) ${this.#dialect.orIgnore('queue')}`,
        queue,
        this.#holder,
      );
      lane = await this.#read(queue);
    }
    return lane?.holder === this.#holder ? lane : undefined;
  }

  /** The first rows of a queue: at most so many, and so many bytes, but one at least. */
  async pick(queue: string, most: number, mostBytes: number): Promise<Picked> {
    const found = await this.#run(
      `SELECT id, bytes, ${this.#dialect.nowMs} AS now_ms FROM ${this.#tables.rows}` +
        ` WHERE queue = ? ORDER BY id LIMIT ${most}`,
      queue,
    );
    let bytes = 0;
    const fits = found.findIndex((row, at) => {
      bytes += numberOf(row.bytes);
      return at > 0 && bytes > mostBytes;
    });
    const taken = fits < 0 ? found : found.slice(0, fits);
    const areAll = fits < 0 && found.length < most;
    return { ids: taken.map(({ id }) => String(id)), areAll, nowMs: numberOf(found[0]?.now_ms ?? 0) };
  }

  /** Changes the batch of a lane that is as given. Undefined: another relay has taken it. */
  async begin(lane: Lane, next: Pick<Lane, 'marker' | 'batch' | 'ids'>): Promise<Lane | undefined> {
    await this.#run(
      `UPDATE ${this.#tables.lanes} SET marker = ?, batch = ?, ids = ?,` +
        ` held_until_ms = ${this.#dialect.nowMs} + ${this.#holdMs}` +
        ' WHERE queue = ? AND holder = ? AND marker = ? AND batch = ?',
      ...[next.marker, next.batch, next.ids.join(','), lane.queue, this.#holder, lane.marker, lane.batch],
    );
    const now = await this.#read(lane.queue);
    return now?.holder === this.#holder && now.batch === next.batch && now.marker === next.marker ? now : undefined;
  }

  /** The rows of a batch, in order. Those that were deleted are missing. */
  async load(ids: readonly string[]): Promise<OutboxRow[]> {
    if (ids.length === 0) return [];
    const found = await this.#run(
      `SELECT id, task, created_ms FROM ${this.#tables.rows} WHERE id IN (${idList(ids)}) ORDER BY id`,
    );
    return found.map((row) => ({ id: String(row.id), task: bytesOf(row), createdMs: numberOf(row.created_ms) }));
  }

  /** Deletes rows that the node has. */
  async remove(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#run(`DELETE FROM ${this.#tables.rows} WHERE id IN (${idList(ids)})`);
  }

  /** Moves a row to those that the node refuses for good. */
  async refuse(id: string, reason: string, message: string): Promise<void> {
    const columns = 'id, queue, task, bytes, created_ms';
    await this.#run(
      `INSERT INTO ${this.#tables.refused} (${columns}, refused_ms, reason, message)` +
        ` SELECT ${columns}, ${this.#dialect.nowMs}, ${this.#text}, ${this.#text} FROM ${this.#tables.rows}` +
        ` WHERE id IN (${idList([id])}) ${this.#dialect.orIgnore(`${this.#tables.refused}.id`)}`,
      reason.slice(0, 64),
      message.slice(0, 4000),
    );
    await this.remove([id]);
  }

  /** The batch is done and has left this marker. Nothing changes if another relay has said so. */
  async finish(lane: Lane, marker: string): Promise<Lane> {
    await this.#run(
      `UPDATE ${this.#tables.lanes} SET marker = ?, batch = '', ids = '' WHERE queue = ? AND batch = ?`,
      ...[marker, lane.queue, lane.batch],
    );
    return { ...lane, marker, batch: '', ids: [] };
  }

  /** Lets other relays have the lanes of this one at once. */
  async giveUp(): Promise<void> {
    await this.#run(`UPDATE ${this.#tables.lanes} SET held_until_ms = 0 WHERE holder = ?`, this.#holder);
  }

  /** Lanes without rows that no relay has had for some time, in ms. */
  async idle(forMs: number): Promise<Lane[]> {
    const { lanes, rows } = this.#tables;
    const found = await this.#run(
      `SELECT queue, marker, batch, ids, holder FROM ${lanes} WHERE batch = ''` +
        ` AND held_until_ms < ${this.#dialect.nowMs} - ${forMs}` +
        ` AND NOT EXISTS (SELECT 1 FROM ${rows} o WHERE o.queue = ${lanes}.queue) LIMIT 100`,
    );
    return found.map(laneOf);
  }

  /** Forgets an idle lane, unless a relay has taken it meanwhile. True: it is gone. */
  async forget(lane: Lane): Promise<boolean> {
    await this.#run(
      `DELETE FROM ${this.#tables.lanes} WHERE queue = ? AND marker = ? AND batch = '' AND holder = ?` +
        ` AND held_until_ms < ${this.#dialect.nowMs}`,
      ...[lane.queue, lane.marker, lane.holder],
    );
    return (await this.#read(lane.queue)) === undefined;
  }

  /** PostgreSQL does not know the type of a parameter in a SELECT. */
  get #text(): string {
    return this.#dialect.name === 'postgres' ? '?::text' : '?';
  }

  async #read(queue: string): Promise<Lane | undefined> {
    const [row] = await this.#run(
      `SELECT queue, marker, batch, ids, holder FROM ${this.#tables.lanes} WHERE queue = ?`,
      queue,
    );
    return row && laneOf(row);
  }

  #run(text: string, ...values: readonly SqlValue[]): Promise<readonly Row[]> {
    const { sql, params } = statement(this.#dialect, text, ...values);
    return this.#query(sql, params);
  }
}

function laneOf(row: Row): Lane {
  const ids = textOf(row.ids);
  return {
    queue: textOf(row.queue),
    marker: textOf(row.marker),
    batch: textOf(row.batch),
    ids: ids === '' ? [] : ids.split(','),
    holder: textOf(row.holder),
  };
}

function bytesOf({ task }: Row): Uint8Array {
  if (task instanceof Uint8Array) return task;
  throw new TypeError(`the database returned ${typeof task} where bytes are expected`);
}
