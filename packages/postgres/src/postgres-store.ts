import type { Key } from '@taskmaster/engine/domain';
import {
  Family,
  type KeyRange,
  type Row,
  type ScanLimit,
  type Store,
  type StoreSize,
  type StoreState,
  WriteBatch,
} from '@taskmaster/engine/ports';
import { Committer } from './committer.ts';
import type { Database, Read, Session } from './database.ts';
import type { DatabaseTime } from './database-time.ts';
import { JoinedGets } from './joined-gets.ts';
import { type After, closedError, givenUpError, Link, type LinkOptions, type StoreLog } from './link.ts';
import { Readers } from './readers.ts';

export interface PostgresStoreOptions extends Pick<LinkOptions, 'session' | 'me' | 'acknowledged' | 'standing'> {
  readonly database: Database;
  readonly after: After;
  readonly log: StoreLog;
  readonly time: DatabaseTime;
  /** Bytes of the tables. */
  readonly diskBytes: number;
}

/** What metrics tell about the database of a store. */
export interface DatabaseFigures {
  /** How often a lost connection was followed by another one. */
  readonly reconnects: number;
  /** For how long the database has not answered the commit, or the question of an idle process, that waits now, in ms. */
  readonly waitingMs: number;
}

/** An idle process looks this often whether it still has its name, in ms. */
const CHECK_MS = 1000;
const MEASURE_INTERVAL_MS = 10_000;
/** After how long a full database is tried again, in ms: first, and at most. */
const FIRST_PROBE_MS = 1000;
const LAST_PROBE_MS = 30_000;
/** More than the free space in the pages that there are. */
const PROBE_BYTES = 256 * 1024;
/** Behind all keys of a partition. */
const PROBE_KEY = '\xff\xff\xff\xff\xff\xff\xff\xffprobe' as Key;

/**
 * The rows of one node in a database. Each commit is durable, also without `sync`. While no server of the database answers, calls
 * wait. `Committer`, `Link` and `Readers` keep the rules R1 to R4.
 */
export class PostgresStore implements Store {
  readonly atomicBatches = true;
  readonly #options: PostgresStoreOptions;
  readonly #link: Link;
  readonly #committer: Committer;
  readonly #readers: Readers;
  readonly #gets = new JoinedGets((call) => this.#read(call));
  readonly #listeners: ((state: StoreState) => void)[] = [];
  #state: StoreState = { kind: 'writable' };
  #closing: Promise<void> | undefined;
  #diskBytes: number;
  readonly #cancels = new Map<string, () => void>();
  readonly #reading = new Set<Promise<unknown>>();

  constructor(options: PostgresStoreOptions) {
    this.#options = options;
    this.#diskBytes = options.diskBytes;
    this.#link = new Link({ ...options, onLost: (cause) => this.#become({ kind: 'failed', cause }) });
    this.#committer = new Committer({
      link: this.#link,
      after: options.after,
      onFull: () => this.#full(FIRST_PROBE_MS),
      onFailed: (cause) => this.#become({ kind: 'failed', cause }),
    });
    const check = (): Promise<void> => this.#committer.submit({ kind: 'check' });
    this.#readers = new Readers(options.database, this.#link, check, options.log);
    this.#every('check', CHECK_MS, () => this.#check());
    this.#every('measure', MEASURE_INTERVAL_MS, () => this.#measure());
  }

  /** The session that commits. */
  get link(): Link {
    return this.#link;
  }

  get state(): StoreState {
    return this.#state;
  }

  write(batch: WriteBatch): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(closedError());
    return this.#committer.submit({ kind: 'write', records: batch.take() });
  }

  deleteRange(family: Family, range: KeyRange): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(closedError());
    return this.#committer.submit({ kind: 'deleteRange', family, range });
  }

  async get(family: Family, keys: readonly Key[]): Promise<(Uint8Array | undefined)[]> {
    if (this.#closing !== undefined) throw closedError();
    return keys.length === 0 ? [] : this.#gets.get(family, keys);
  }

  async scan(family: Family, range: KeyRange, limit: ScanLimit): Promise<Row[]> {
    if (this.#closing !== undefined) throw closedError();
    return this.#read((session, name) => session.scan(name, family, range, limit));
  }

  onStateChange(listener: (state: StoreState) => void): void {
    this.#listeners.push(listener);
  }

  /** The time of the database, in ms since 1970, with fractions. */
  time(): number {
    return this.#options.time.now();
  }

  size(): StoreSize {
    return { disk: this.#diskBytes, memory: 0 };
  }

  figures(): DatabaseFigures {
    return { reconnects: this.#link.reconnects, waitingMs: this.#committer.waitingMs };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Ends the waits for a database that does not answer: all calls in progress, and later ones, reject. */
  giveUp(): void {
    this.#link.end(givenUpError());
    this.#readers.end();
  }

  async #close(): Promise<void> {
    for (const cancel of this.#cancels.values()) cancel();
    this.#cancels.clear();
    await Promise.allSettled([this.#committer.idle(), ...this.#reading]);
    this.#link.end(closedError());
    this.#readers.end();
  }

  #read<T>(call: (session: Session, name: string) => Promise<Read<T>>): Promise<T> {
    const reading = this.#readers.read(call);
    this.#reading.add(reading);
    const over = (): void => void this.#reading.delete(reading);
    reading.then(over, over);
    return reading;
  }

  /** Repeats work while the store is open. Work that fails is done again later. */
  #every(name: string, ms: number, work: () => Promise<void>): void {
    const next = (): void => {
      if (this.#closing !== undefined || this.#state.kind === 'failed') return;
      this.#cancels.set(
        name,
        this.#options.after(ms, () => void work().then(next, next)),
      );
    };
    next();
  }

  async #check(): Promise<void> {
    if (!this.#committer.isBusy) await this.#committer.submit({ kind: 'check' });
  }

  async #measure(): Promise<void> {
    const { time } = this.#options;
    const { bytes } = await this.#read((session, name) => time.measure(() => session.measure(name)));
    this.#diskBytes = bytes;
  }

  #full(probeAfterMs: number): void {
    this.#become({ kind: 'full', freeBytes: 0 });
    if (this.#cancels.has('probe')) return;
    const probe = (): void => {
      this.#cancels.delete('probe');
      void this.#probe().catch(() => {
        // A failure for another reason has changed the state.
        if (this.#state.kind === 'full') this.#full(Math.min(LAST_PROBE_MS, 2 * probeAfterMs));
      });
    };
    this.#cancels.set('probe', this.#options.after(probeAfterMs, probe));
  }

  /** Writes and deletes a row. Rejects while there is no space. */
  async #probe(): Promise<void> {
    const put = new WriteBatch();
    put.put(Family.meta, PROBE_KEY, new Uint8Array(PROBE_BYTES));
    await this.#committer.submit({ kind: 'write', records: put.take(), alone: true });
    const gone = new WriteBatch();
    gone.delete(Family.meta, PROBE_KEY);
    await this.#committer.submit({ kind: 'write', records: gone.take(), alone: true });
    this.#become({ kind: 'writable' });
  }

  #become(state: StoreState): void {
    if (this.#state.kind === 'failed' || this.#state.kind === state.kind) return;
    this.#state = state;
    const { log } = this.#options;
    if (state.kind === 'full') log.warn({}, 'the database has no space: no new tasks');
    else if (state.kind === 'writable') log.info({}, 'the database has space again');
    else if (state.kind === 'failed') log.error({ err: state.cause }, 'the store in the database can be used no more');
    for (const listener of this.#listeners) listener(state);
  }
}
