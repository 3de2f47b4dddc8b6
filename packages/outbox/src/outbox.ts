import {
  type Codec,
  InvalidRequestError,
  jsonCodec,
  NewTask,
  type QueueRef,
  type TaskOptions,
} from '@taskmaster/client';
import {
  assertKnown,
  FORMAT,
  injectActive,
  nameToFill,
  newTask,
  queueRef,
  type StandardSchema,
  taskNames,
} from '@taskmaster/client/internal';
import { Enqueue, encodeToBuffer, isReservedName, limits, parseQueueName } from '@taskmaster/proto';
import { type Dialect, type DialectName, dialectOf, numberOf, statement, textOf } from './dialect.ts';
import { type Query, runSteps, runStepsSync, type Statement, type Steps, type SyncQuery } from './query.ts';
import { type Tables, tablesOf } from './schema.ts';

/** Rows in one INSERT. */
const INSERT_ROWS = 500;
/** The channel of PostgreSQL on which a commit tells relays of new rows. */
export const CHANNEL = 'taskmaster_outbox';

export interface OutboxOptions {
  /** The kind of database. MariaDB is `mysql`. */
  readonly dialect: DialectName;
  /** What the names of the tables begin with, perhaps with a schema: `app.taskmaster`. Default `taskmaster`. */
  readonly prefix?: string | undefined;
  /**
   * Whether a commit tells relays of its rows, so that they need not wait for their next poll. Only in PostgreSQL: commits that
   * notify are made one after the other there. Default true.
   */
  readonly notify?: boolean | undefined;
}

/** The data of a queue, as for `client.queue`. */
export interface OutboxQueueOptions<T, In> {
  /** Encodes data. Default: JSON. */
  readonly codec?: Codec<T> | undefined;
  /** A Standard Schema, which checks data before it is written. Default: data is not checked. */
  readonly schema?: StandardSchema<In, T> | undefined;
}

/** A queue for `outbox.enqueue`, for programs without a client. A `Queue` of a client will do as well. */
export function outboxQueue<T = unknown, In = T>(
  name: string,
  { codec, schema }: OutboxQueueOptions<T, In> = {},
): QueueRef<T, In> {
  return { name: nameToFill(name), [FORMAT]: { codec: (codec ?? jsonCodec) as Codec<unknown>, schema } };
}

/** A task that the node refuses for good. */
export interface RefusedTask {
  readonly id: string;
  readonly queue: string;
  /** The reason of the refusal, as in the `reason` of a `TaskMasterError`. */
  readonly reason: string;
  readonly message: string;
  readonly createdAt: Date;
  readonly refusedAt: Date;
}

/** How much is in an outbox. */
export interface OutboxStats {
  /** Tasks that no node has yet. */
  readonly pending: number;
  /** Age of the oldest of them, by the database's clock, in ms. 0 if there is none. */
  readonly oldestMs: number;
  /** Tasks that the node refuses for good. */
  readonly refused: number;
}

/** What a row has to know. */
interface Prepared {
  readonly queue: string;
  readonly task: Uint8Array;
}

/**
 * Tasks in tables of your own database. `enqueue` writes a task in your transaction, so it exists exactly if the transaction is
 * committed. A `Relay` takes it to the node. It opens no connection: each call gets the query function of your driver.
 */
export class Outbox {
  /** Internal. */
  readonly dialect: Dialect;
  /** Internal. */
  readonly tables: Tables;
  readonly #notify: boolean;

  /** @throws TypeError for wrong options. */
  constructor(options: OutboxOptions) {
    assertKnown('options of an outbox', options, { dialect: true, prefix: true, notify: true });
    this.dialect = dialectOf(options);
    this.tables = tablesOf(options.prefix);
    this.#notify = options.dialect === 'postgres' && (options.notify ?? true);
  }

  /**
   * Writes a task in the transaction of `query`: data for a queue (JSON if the queue is given by name), or what `queue.task()`,
   * `topic.task()` or `queue.signalFor()` returns. Options are those of `queue.enqueue`; `delay` and `startWithin` count
   * from this call, by the clock of this program.
   * @throws InvalidDataError, InvalidRequestError, TypeError before anything is written; what the driver throws.
   */
  enqueue(query: Query, task: NewTask): Promise<void>;
  enqueue<T, In>(query: Query, queue: QueueRef<T, In>, data: NoInfer<In>, options?: TaskOptions): Promise<void>;
  enqueue(query: Query, queue: string, data: unknown, options?: TaskOptions): Promise<void>;
  async enqueue(
    query: Query,
    queue: NewTask | string | QueueRef,
    data?: unknown,
    options?: TaskOptions,
  ): Promise<void> {
    const given = taskOf(queue, data, options);
    const prepared = rowOf(given.queue, await given.prepare());
    await runSteps(query, this.#insert([prepared]));
  }

  /** As `enqueue`, for a driver that answers at once. @throws TypeError if the schema of the queue takes its time. */
  enqueueSync(query: SyncQuery, task: NewTask): void;
  enqueueSync<T, In>(query: SyncQuery, queue: QueueRef<T, In>, data: NoInfer<In>, options?: TaskOptions): void;
  enqueueSync(query: SyncQuery, queue: string, data: unknown, options?: TaskOptions): void;
  enqueueSync(query: SyncQuery, queue: NewTask | string | QueueRef, data?: unknown, options?: TaskOptions): void {
    const given = taskOf(queue, data, options);
    const item = given.prepare();
    if (item instanceof Promise) {
      item.catch(() => undefined);
      throw new TypeError('the schema of the queue checks data asynchronously: use enqueue');
    }
    runStepsSync(query, this.#insert([rowOf(given.queue, item)]));
  }

  /** Writes many tasks of any queues, in order, with one INSERT for each 500. Throws as `enqueue`. */
  async enqueueMany(query: Query, tasks: Iterable<NewTask>): Promise<void> {
    const rows: Prepared[] = [];
    for (const task of tasks) {
      if (!(task instanceof NewTask))
        throw new TypeError('enqueueMany: takes tasks that queue.task() or newTask() made');
      rows.push(rowOf(task.queue, await task.prepare()));
    }
    await runSteps(query, this.#insert(rows));
  }

  /** How much waits, and for how long. It counts rows: ask every few seconds, not for each request. */
  async stats(query: Query): Promise<OutboxStats> {
    const { rows, refused } = this.tables;
    const [row] = await this.#run(
      query,
      `SELECT (SELECT count(*) FROM ${rows}) AS pending, (SELECT count(*) FROM ${refused}) AS refused,` +
        ` (SELECT min(created_ms) FROM ${rows}) AS oldest, ${this.dialect.nowMs} AS now_ms`,
    );
    const oldest = row?.oldest ?? row?.now_ms;
    return {
      pending: numberOf(row?.pending),
      oldestMs: Math.max(0, numberOf(row?.now_ms) - numberOf(oldest)),
      refused: numberOf(row?.refused),
    };
  }

  /** The tasks that the node refuses for good, the oldest first. `limit`: at most so many, default 100. */
  async refused(query: Query, { limit = 100 }: { readonly limit?: number | undefined } = {}): Promise<RefusedTask[]> {
    const found = await this.#run(
      query,
      `SELECT id, queue, reason, message, created_ms, refused_ms FROM ${this.tables.refused}` +
        ` ORDER BY id LIMIT ${numberOf(limit)}`,
    );
    return found.map((row) => ({
      id: String(row.id),
      queue: textOf(row.queue),
      reason: String(row.reason),
      message: String(row.message),
      createdAt: new Date(numberOf(row.created_ms)),
      refusedAt: new Date(numberOf(row.refused_ms)),
    }));
  }

  /** Sends refused tasks again. Give it the query function of a transaction: it writes two tables. Default: all of them. */
  async retryRefused(query: Query, ids?: readonly string[]): Promise<void> {
    const { rows, refused } = this.tables;
    const where = ids === undefined ? '' : ` WHERE id IN (${idList(ids)})`;
    if (ids?.length === 0) return;
    const columns = 'queue, task, bytes, created_ms';
    // Behind all others, with new ids: an id is sent once.
    await this.#run(query, `INSERT INTO ${rows} (${columns}) SELECT ${columns} FROM ${refused}${where} ORDER BY id`);
    await this.#run(query, `DELETE FROM ${refused}${where}`);
  }

  /** Deletes refused tasks. */
  async dropRefused(query: Query, ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#run(query, `DELETE FROM ${this.tables.refused} WHERE id IN (${idList(ids)})`);
  }

  #run(query: Query, text: string): ReturnType<Query> {
    const { sql, params } = statement(this.dialect, text);
    return query(sql, params);
  }

  *#insert(prepared: readonly Prepared[]): Steps<void> {
    for (let from = 0; from < prepared.length; from += INSERT_ROWS)
      yield this.#insertion(prepared.slice(from, from + INSERT_ROWS));
  }

  #insertion(prepared: readonly Prepared[]): Statement {
    const values = prepared.map(({ task }) => `(?, ?, ${task.byteLength}, ${this.dialect.nowMs})`);
    const text = `INSERT INTO ${this.tables.rows} (queue, task, bytes, created_ms) VALUES ${values.join(', ')}`;
    // In the same statement, because a further one would be a further round trip. PostgreSQL tells once for each transaction.
    const tell = this.#notify ? ` RETURNING pg_notify('${CHANNEL}', '')` : '';
    return statement(this.dialect, text + tell, ...prepared.flatMap(({ queue, task }) => [queue, task]));
  }
}

/** Ids as SQL. @throws TypeError if one is no number. */
export function idList(ids: readonly string[]): string {
  for (const id of ids)
    if (!/^\d{1,19}$/.test(id)) throw new TypeError(`'${String(id)}' is not the id of a task of an outbox`);
  return ids.join(', ');
}

function taskOf(queue: NewTask | string | QueueRef, data: unknown, options: TaskOptions | undefined): NewTask {
  if (queue instanceof NewTask) return queue;
  assertKnown('enqueue', options, taskNames);
  return newTask(queueRef(queue), data, options);
}

/**
 * The row of a task, which carries the trace that is active.
 * @throws InvalidRequestError if the node would refuse it for its size: now the caller can do something.
 */
function rowOf(queue: string, item: Enqueue): Prepared {
  const { group, name } = parseQueueName(queue);
  injectActive(item);
  for (const part of [group, name])
    if (Buffer.byteLength(part) > limits.nameBytes)
      throw refusal('INVALID_QUEUE', `'${queue}' has a part of more than ${limits.nameBytes} bytes`);
  if (isReservedName(name)) throw refusal('INVALID_QUEUE', `'${queue}' is a reserved name`);
  const headers = Object.entries(item.headers).reduce((sum, [key, value]) => sum + Buffer.byteLength(key + value), 0);
  if (headers > limits.headersBytes)
    throw refusal('INVALID_ARGUMENT', `headers have at most ${limits.headersBytes} bytes`);
  if (item.data.byteLength + headers > limits.dataBytes)
    throw refusal('DATA_TOO_LARGE', `data has at most ${limits.dataBytes} bytes with its headers`);
  return { queue, task: encodeToBuffer(Enqueue, fromNow(item)) };
}

/** The relay may come much later, so times that count from the enqueue are counted from now. */
function fromNow(item: Enqueue): Enqueue {
  const { delayMs, startWithinMs } = item;
  if (delayMs === 0 && startWithinMs === undefined) return item;
  const now = Date.now();
  return {
    ...item,
    ...(delayMs > 0 && { delayMs: 0, runAtUnixMs: now + delayMs }),
    ...(startWithinMs !== undefined && { startWithinMs: undefined, startByUnixMs: now + startWithinMs }),
  };
}

const refusal = (reason: string, message: string): InvalidRequestError => new InvalidRequestError(message, { reason });
