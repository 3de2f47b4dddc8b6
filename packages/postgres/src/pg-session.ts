import { type Key, latin1Of } from '@taskmaster/engine/domain';
import type { Family, KeyRange, Row, ScanLimit } from '@taskmaster/engine/ports';
import type pg from 'pg';
import {
  type Commit,
  DatabaseError,
  type Measured,
  type NodeRow,
  type Read,
  type Registration,
  type Session,
} from './database.ts';
import { NewRows } from './new-rows.ts';
import { databaseErrorOf } from './pg-errors.ts';
import type { Statement, Statements } from './statements.ts';

/** A cell of a reply. The driver reads replies as text only. */
export type Cell = string | null;

const types = { getTypeParser: () => (text: string) => text };

/** What a statement does. */
export type StatementKind = 'commit' | 'get' | 'scan' | 'other';

/** Called for each statement that was answered, with the time until the answer in ms. */
export type OnStatement = (kind: StatementKind, durationMs: number) => void;

export interface PgSessionOptions {
  readonly client: pg.Client;
  /** Where it is connected to. */
  readonly host: pg.ClientConfig;
  readonly statements: Statements;
  /** Longest time for an answer, in ms. After it the session counts as lost: a dead server does not say so. */
  readonly answerTimeoutMs: number;
  readonly onStatement?: OnStatement | undefined;
}

/** A session over a connection of the driver. One statement runs at a time. */
export class PgSession implements Session {
  readonly host: pg.ClientConfig;
  readonly #client: pg.Client;
  readonly #statements: Statements;
  readonly #answerTimeoutMs: number;
  readonly #onStatement: OnStatement | undefined;
  readonly #newRows = new NewRows();
  #lost: DatabaseError | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor({ client, host, statements, answerTimeoutMs, onStatement }: PgSessionOptions) {
    this.host = host;
    this.#client = client;
    this.#statements = statements;
    this.#answerTimeoutMs = answerTimeoutMs;
    this.#onStatement = onStatement;
    client.on('error', (error) => {
      this.#lost ??= new DatabaseError('lost', error.message, { cause: error });
    });
    client.on('notice', ({ file, message }) => {
      if (file === WAITS_FOR_STANDBY) this.#lost ??= new DatabaseError('lost', message ?? '');
    });
  }

  async commit(me: Registration, commit: Commit): Promise<number | undefined> {
    for (;;) {
      try {
        const [row] = await this.run(this.#statements.commit(me, commit, (family) => this.#newRows.expects(family)));
        this.#newRows.committed();
        return row && numberIn(row[0]);
      } catch (error) {
        if (!this.#newRows.isRefuted(error)) throw error;
      }
    }
  }

  async node(name: string): Promise<NodeRow | undefined> {
    const [row] = await this.run(this.#statements.node(name));
    return row && nodeIn(row);
  }

  async markLost(name: string, acknowledged: number): Promise<void> {
    await this.run(this.#statements.markLost(name, acknowledged));
  }

  async get(name: string, family: Family, keys: readonly Key[]): Promise<Read<(Uint8Array | undefined)[]>> {
    const rows = await this.run(this.#statements.get(name, family, keys));
    const found = Array<Uint8Array | undefined>(keys.length).fill(undefined);
    for (const [, , , , place, value] of rows) if (value) found[numberIn(place) - 1] = bytesIn(value);
    return { node: rows[0] && nodeIn(rows[0]), found };
  }

  async scan(name: string, family: Family, range: KeyRange, limit: ScanLimit): Promise<Read<Row[]>> {
    const rows = await this.run(this.#statements.scan(name, family, range, limit));
    const found: Row[] = [];
    for (const [, , , , key, value] of rows) {
      if (key && value) found.push({ key: latin1Of(bytesIn(key)) as Key, value: bytesIn(value) });
    }
    return { node: rows[0] && nodeIn(rows[0]), found };
  }

  async measure(name: string): Promise<Read<Measured>> {
    const [row] = await this.run(this.#statements.measure(name));
    return { node: row && nodeIn(row), found: { bytes: numberIn(row?.[4]), time: numberIn(row?.[5]) } };
  }

  end(): void {
    this.#lost ??= new DatabaseError('lost', 'the session was ended');
    // Not `end` of the driver, which waits for a server that may be gone.
    streamOf(this.#client).destroy();
  }

  /** Rows of text. Rejects with a `DatabaseError`. */
  run(statement: Statement): Promise<Cell[][]> {
    // In turn: the driver takes one statement at a time, and the time for its answer begins when it is sent.
    const running = this.#last.then(() => this.#run(statement));
    this.#last = running.catch(() => {});
    return running;
  }

  async #run({ name, text, values }: Statement): Promise<Cell[][]> {
    if (this.#lost !== undefined) throw this.#lost;
    const began = performance.now();
    const timer = setTimeout(() => {
      this.#lost ??= new DatabaseError('lost', `no answer within ${this.#answerTimeoutMs} ms`);
      this.end();
    }, this.#answerTimeoutMs);
    try {
      const query: pg.QueryArrayConfig = { name, text, values, rowMode: 'array', types };
      const { rows } = await this.#client.query<Cell[]>(query);
      this.#onStatement?.(kindOf(name), performance.now() - began);
      if (this.#lost !== undefined) throw this.#lost;
      return rows;
    } catch (error) {
      const found = this.#lost ?? databaseErrorOf(error);
      if (found.kind === 'lost') {
        this.#lost = found;
        this.end();
      }
      throw found;
    } finally {
      clearTimeout(timer);
    }
  }
}

/**
 * Where the server waits for a synchronous standby. If somebody cancels that (`pg_cancel_backend`), the statement succeeds, with
 * a warning from there: the commit is in the server, and perhaps in no standby.
 */
const WAITS_FOR_STANDBY = 'syncrep.c';

/** Its socket. `end` of the driver waits for a server that may be gone. */
export const streamOf = (client: pg.Client): { destroy(error?: Error): void } =>
  (client as pg.Client & { readonly connection: { readonly stream: { destroy(error?: Error): void } } }).connection
    .stream;

const numberIn = (text: Cell | undefined): number => Number(text ?? 0);

/** `\\x` and two digits for each byte. */
const bytesIn = (text: string): Buffer => Buffer.from(text.slice(2), 'hex');

const nodeIn = ([fence, instance, seq, began]: readonly (Cell | undefined)[]): NodeRow => ({
  fence: numberIn(fence),
  instance: instance ?? '',
  seq: numberIn(seq),
  began: numberIn(began),
});

/** By the names that `Statements` gives. */
function kindOf(name: string): StatementKind {
  if (name.startsWith('commit ')) return 'commit';
  if (/^g\d+$/.test(name)) return 'get';
  return /^s\d+$/.test(name) ? 'scan' : 'other';
}
