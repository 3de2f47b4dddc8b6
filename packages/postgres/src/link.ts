import { StoreClosedError, StoreFailedError, StoreLostError, SURE_MS } from '@taskmaster/engine/ports';
import { type Database, DatabaseError, type Registration, type Session } from './database.ts';
import { standingOf } from './standing.ts';

/** Timers of the process, or of a simulation. Returns a function that cancels the timer. */
export type After = (delayMs: number, callback: () => void) => () => void;

/** The log of a store, with methods like pino's. */
export interface StoreLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface LinkOptions {
  readonly database: Database;
  /** The session over which the node was registered. */
  readonly session: Session;
  readonly me: Registration;
  /** The number of the last commit. */
  readonly acknowledged: number;
  readonly after: After;
  readonly log: StoreLog;
  /** Default: the one there is. A simulation replaces it to see that it is needed. */
  readonly standing?: typeof standingOf;
  /** Called once, when this process may use the store no more. */
  readonly onLost: (cause: StoreLostError) => void;
}

const FIRST_DELAY_MS = 50;
const LONGEST_DELAY_MS = 1000;

export interface Instants {
  readonly monotonic: number;
  readonly wall: number;
}

/**
 * The session that commits. It is opened again when it is lost, on whichever host takes writes then (R2). Each new session says
 * whether this process still has its name, and whether the database still has what it acknowledged (R1, R3): nothing else is done
 * with it before.
 */
export class Link {
  readonly me: Registration;
  /** The number of the last commit that was applied, as far as this process knows. */
  acknowledged: number;
  /** The number of the last commit that was sent. */
  sent: number;
  /** Not known at first: the node registered some time ago. */
  #provedAt: Instants = { monotonic: Number.NEGATIVE_INFINITY, wall: Number.NEGATIVE_INFINITY };
  /** How often a lost session was followed by another one. */
  reconnects = 0;
  readonly #options: LinkOptions;
  readonly #standing: typeof standingOf;
  #session: Session | undefined;
  #connecting: Promise<Session> | undefined;
  #end: Error | undefined;
  /** Each rejects a wait that is in progress. A race against one promise would leave a reaction there for each wait. */
  readonly #waits = new Set<(cause: Error) => void>();

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#standing = options.standing ?? standingOf;
    this.me = options.me;
    this.acknowledged = options.acknowledged;
    this.sent = options.acknowledged;
    this.#session = options.session;
  }

  /** The present session. Waits for one while there is none. Rejects when the store is closed, given up or lost. */
  session(): Promise<Session> {
    if (this.#end !== undefined) return Promise.reject(this.#end);
    if (this.#session !== undefined) return Promise.resolve(this.#session);
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined;
    });
    return this.#untilEnd(this.#connecting);
  }

  /** Call this before something is sent, and `proved` with it when the answer has shown that this process had its name. */
  instant(): Instants {
    return { monotonic: performance.now(), wall: Date.now() };
  }

  proved(sent: Instants): void {
    if (sent.monotonic > this.#provedAt.monotonic) this.#provedAt = sent;
  }

  /**
   * True if this process knew less than `SURE_MS` ago that it has its name. A machine that was suspended has moved on its wall.
   */
  get isSure(): boolean {
    const { monotonic, wall } = this.instant();
    return Math.max(monotonic - this.#provedAt.monotonic, wall - this.#provedAt.wall) < SURE_MS;
  }

  /** True if the session is the present one. */
  isPresent(session: Session): boolean {
    return this.#session === session;
  }

  /** Gives a session up: it was lost, or what it says is wrong. */
  drop(session: Session, problem: Error): void {
    session.end();
    if (this.#session !== session) return;
    this.#session = undefined;
    if (this.#end === undefined)
      this.#options.log.warn({ err: problem }, 'the connection to the database was lost: calls wait');
  }

  /**
   * Where this process stands according to the present session. Resolves with the number of its last commit there, which is known
   * to be durable only up to `acknowledged`. Rejects if it may use the store no more.
   */
  async check(session: Session): Promise<number> {
    const { me } = this;
    const row = await session.node(me.name);
    const standing = this.#standing(row, me, this.acknowledged, this.sent);
    if (standing === 'same' || standing === 'ahead') return row?.seq ?? this.acknowledged;
    if (standing === 'fenced') {
      throw this.#lose(
        new StoreLostError(
          'fenced',
          `another process has taken the place of node ${me.name}, with fence ${row?.fence} after ${me.fence}`,
        ),
      );
    }
    await session.markLost(me.name, this.acknowledged);
    const has =
      row === undefined ? 'has no row of the node any more' : `ends with number ${row.seq} under fence ${row.fence}`;
    throw this.#lose(
      new StoreLostError(
        'reverted',
        `the database has lost commits: node ${me.name} had number ${this.acknowledged} acknowledged under fence ${me.fence}, and the database ` +
          `${has}. The node does not serve it. Restore the commits, or accept the loss with "taskmaster-node accept-loss ${me.name}"`,
      ),
    );
  }

  /** Ends all waits: calls in progress and later ones reject with the error. */
  end(cause: Error): void {
    if (this.#end !== undefined) return;
    this.#end = cause;
    this.#session?.end();
    this.#session = undefined;
    for (const reject of this.#waits) reject(cause);
    this.#waits.clear();
  }

  /** Resolves after the time, or rejects when the link ends. */
  pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#options.after(ms, resolve);
    return this.#untilEnd(promise).finally(cancel);
  }

  async #untilEnd<T>(work: Promise<T>): Promise<T> {
    if (this.#end !== undefined) throw this.#end;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waits.add(reject);
    work.then(resolve, reject);
    try {
      return await promise;
    } finally {
      this.#waits.delete(reject);
    }
  }

  #lose(cause: StoreLostError): StoreLostError {
    if (this.#end === undefined) {
      this.end(cause);
      this.#options.onLost(cause);
    }
    return cause;
  }

  async #connect(): Promise<Session> {
    const { database, log } = this.#options;
    let delayMs = 0;
    for (;;) {
      if (delayMs > 0) await this.pause(delayMs);
      delayMs = Math.min(LONGEST_DELAY_MS, Math.max(FIRST_DELAY_MS, 2 * delayMs));
      let session: Session | undefined;
      try {
        session = await database.connect();
        if (this.#end !== undefined) throw this.#end;
        await this.check(session);
        this.#session = session;
        this.reconnects++;
        log.info({}, 'connected to the database again');
        return session;
      } catch (error) {
        session?.end();
        if (!(error instanceof DatabaseError)) throw error;
        if (delayMs === LONGEST_DELAY_MS)
          log.warn({ err: error }, 'no server of the database takes writes; trying again');
      }
    }
  }
}

/** The error for callers of a store that ends. */
export const closedError = (): StoreClosedError => new StoreClosedError('the store is closed');
export const givenUpError = (): StoreFailedError =>
  new StoreFailedError(
    'the database did not answer before the store was closed: the outcome of the last writes is open',
  );
