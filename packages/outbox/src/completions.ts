import { createHash } from 'node:crypto';
import type { LeasedTask } from '@taskmaster/client';
import { assertKnown } from '@taskmaster/client/internal';
import { type Dialect, type DialectName, dialectOf, numberOf, statement } from './dialect.ts';
import { type Query, type Row, runSteps, runStepsSync, type Statement, type Steps, type SyncQuery } from './query.ts';
import { type Tables, tablesOf } from './schema.ts';

/** A leased task, as far as its completion is concerned. A `LeasedTask` is one. */
export type Fenced = Pick<LeasedTask<unknown>, 'queue' | 'pid' | 'leaseToken' | 'enqueuedAt'>;

export interface CompletionOptions {
  /**
   * What the work is, if the task may come again as a new one: after a retry from its dead-letter queue, or when it is enqueued
   * twice. For example `charge-order-17`. Default: this task, from its enqueue to its end.
   */
  readonly id?: string | undefined;
}

/** Another worker has leased the task since, and has written already. Stop the work, and roll the transaction back. */
export class StaleLeaseError extends Error {
  override readonly name = 'StaleLeaseError';
  /** The token of this lease. */
  readonly leaseToken: number;
  /** The token that has written. */
  readonly newerToken: number;

  constructor(queue: string, leaseToken: number, newerToken: number) {
    super(`a task of ${queue}: lease token ${leaseToken} is stale, token ${newerToken} has written already`);
    this.leaseToken = leaseToken;
    this.newerToken = newerToken;
  }
}

const optionNames = { id: true } as const;

/**
 * Completions in your own database, for work whose effects are there. A record in the transaction of the effects makes them
 * happen exactly once, although a task may run twice.
 */
export class Completions {
  readonly #dialect: Dialect;
  readonly #tables: Tables;

  /** @param options as for `Outbox`. @throws TypeError for wrong options. */
  constructor(options: { readonly dialect: DialectName; readonly prefix?: string | undefined }) {
    assertKnown('options of completions', options, { dialect: true, prefix: true });
    this.#dialect = dialectOf(options);
    this.#tables = tablesOf(options.prefix);
  }

  /**
   * Records in the transaction of `query` that the work of a task is done. Call it first in the transaction: until the end of it,
   * other workers with this task wait here. True: go on with the work. False: an earlier attempt has committed it, so there is
   * nothing to do but to complete the task.
   * @throws StaleLeaseError if a worker with a newer lease has written.
   */
  record(query: Query, task: Fenced, options: CompletionOptions = {}): Promise<boolean> {
    return runSteps(query, this.#steps(task, options, true));
  }

  /** As `record`, for a driver that answers at once. */
  recordSync(query: SyncQuery, task: Fenced, options: CompletionOptions = {}): boolean {
    return runStepsSync(query, this.#steps(task, options, true));
  }

  /**
   * For work with several transactions: checks in one of them that no worker with a newer lease has written, and sees to it that
   * no worker with an older one will. False: the work is recorded as done.
   * @throws StaleLeaseError
   */
  fence(query: Query, task: Fenced, options: CompletionOptions = {}): Promise<boolean> {
    return runSteps(query, this.#steps(task, options, false));
  }

  /** As `fence`, for a driver that answers at once. */
  fenceSync(query: SyncQuery, task: Fenced, options: CompletionOptions = {}): boolean {
    return runStepsSync(query, this.#steps(task, options, false));
  }

  /**
   * Deletes records that are older than so many ms, by the database's clock. Keep them for longer than a task can come back or a
   * worker can stand still: a week, for example.
   */
  async prune(query: Query, olderThanMs: number): Promise<void> {
    const { nowMs } = this.#dialect;
    const text = `DELETE FROM ${this.#tables.completions} WHERE at_ms < ${nowMs} - ${numberOf(olderThanMs)}`;
    await query(text, []);
  }

  *#steps(task: Fenced, options: CompletionOptions, isDone: boolean): Steps<boolean> {
    assertKnown('a completion', options, optionNames);
    const name = nameOf(task, options);
    yield this.#raise(name, task);
    const [row] = yield this.#read(name);
    const highest = numberOf(row?.lease_token);
    if (highest > task.leaseToken) throw new StaleLeaseError(task.queue, task.leaseToken, highest);
    if (isTrue(row)) return false;
    if (isDone)
      yield statement(this.#dialect, `UPDATE ${this.#tables.completions} SET is_done = 1 WHERE task = ?`, name);
    return true;
  }

  /** The row is locked from here on. */
  #raise(name: string, task: Fenced): Statement {
    const { completions } = this.#tables;
    const { nowMs, onConflict, inserted, greatest } = this.#dialect;
    const token = numberOf(task.leaseToken);
    const present = this.#dialect.name === 'mysql' ? 'lease_token' : `${completions}.lease_token`;
    return statement(
      this.#dialect,
      `INSERT INTO ${completions} (task, queue, lease_token, is_done, at_ms) VALUES (?, ?, ${token}, 0, ${nowMs})` +
        ` ${onConflict('task')} lease_token = ${greatest}(${present}, ${inserted('lease_token')})`,
      name,
      task.queue,
    );
  }

  #read(name: string): Statement {
    const { completions } = this.#tables;
    // Not the snapshot of the transaction: what the worker before has committed.
    const text = `SELECT lease_token, is_done FROM ${completions} WHERE task = ? ${this.#dialect.forUpdate}`;
    return statement(this.#dialect, text, name);
  }
}

const isTrue = (row: Row | undefined): boolean => numberOf(row?.is_done) === 1;

/** Always the same for one life of a task: a new task with its PID, also a rerun, has another time of its enqueue. */
function nameOf({ queue, pid, enqueuedAt }: Fenced, { id }: CompletionOptions): string {
  const hash = createHash('sha256');
  if (id !== undefined) hash.update(`id\0${id}`);
  else hash.update(`task\0${queue}\0${enqueuedAt.getTime()}\0`).update(pid);
  return hash.digest('base64url');
}
