import { StoreFailedError } from '@taskmaster/engine/ports';
import { type Database, DatabaseError, type Read, type Session } from './database.ts';
import type { Link, StoreLog } from './link.ts';

/** Sessions for reads. A long scan does not keep the others waiting, nor commits. */
const READERS = 3;
const AGAIN_AFTER_MS = 50;
/** A read that goes on trying says so each time. */
const TRIES_BETWEEN_LINES = 100;

interface Reader {
  readonly session: Session;
  /** The session that committed when it was opened. After a failover the server of an earlier one may be behind. */
  readonly of: Session;
}

/** Reads rows as of an instant at which the database had everything that was acknowledged before the call. */
export class Readers {
  readonly #database: Database;
  readonly #link: Link;
  readonly #check: () => Promise<void>;
  readonly #log: StoreLog;
  readonly #idle: Reader[] = [];
  readonly #busy = new Set<Reader>();
  #places = READERS;
  readonly #waiting: (() => void)[] = [];

  /** `check`: asks whether this process still has its name. */
  constructor(database: Database, link: Link, check: () => Promise<void>, log: StoreLog) {
    this.#database = database;
    this.#link = link;
    this.#check = check;
    this.#log = log;
  }

  async read<T>(call: (session: Session, name: string) => Promise<Read<T>>): Promise<T> {
    if (this.#places > 0) this.#places--;
    else await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    try {
      for (let tries = 1; ; tries++) {
        const read = await this.#attempt(call);
        if (!(read instanceof DatabaseError)) return read.found;
        if (tries % TRIES_BETWEEN_LINES === 0) {
          this.#log.warn({ err: read, tries }, 'the database does not answer a read; trying again');
        }
        await this.#link.pause(AGAIN_AFTER_MS);
      }
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#places++;
      else next();
    }
  }

  /** Ends all sessions. Reads in progress reject. */
  end(): void {
    for (const { session } of [...this.#idle.splice(0), ...this.#busy]) session.end();
  }

  /** Resolves with an error if it may succeed later. */
  async #attempt<T>(call: (session: Session, name: string) => Promise<Read<T>>): Promise<Read<T> | DatabaseError> {
    const link = this.#link;
    const of = await link.session();
    let reader: Reader | undefined;
    try {
      reader = this.#takeIdle(of) ?? { session: await this.#database.connect(of), of };
      this.#busy.add(reader);
      // Calls may have joined until now.
      const { me, acknowledged } = link;
      const read = await call(reader.session, me.name);
      if (read.node !== undefined && read.node.instance === me.instance && read.node.seq >= acknowledged) {
        this.#busy.delete(reader);
        this.#idle.push(reader);
        return read;
      }
      // The process has lost its name, or this is a server that is behind. Only the session that commits tells which.
      this.#giveUp(reader);
      await this.#check();
      return new DatabaseError('again', 'the server has not all commits yet');
    } catch (error) {
      if (reader !== undefined) this.#giveUp(reader);
      if (!(error instanceof DatabaseError)) throw error;
      if (error.kind === 'full' || error.kind === 'failed') {
        throw new StoreFailedError(`the database refuses a read: ${error.message}`, { cause: error });
      }
      return error;
    }
  }

  #takeIdle(of: Session): Reader | undefined {
    for (let reader = this.#idle.pop(); reader !== undefined; reader = this.#idle.pop()) {
      if (reader.of === of) return reader;
      reader.session.end();
    }
    return undefined;
  }

  #giveUp(reader: Reader): void {
    this.#busy.delete(reader);
    reader.session.end();
  }
}
