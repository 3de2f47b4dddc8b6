import type { Key } from '@taskmaster/engine/domain';
import type { Family, KeyRange, Row, ScanLimit } from '@taskmaster/engine/ports';
import type { Changes } from './changes.ts';

/** How a node is known to the database: by its name, and by this start of it. */
export interface Registration {
  readonly name: string;
  /** One more with each process that takes the name over. */
  readonly fence: number;
  /**
   * Random, for this process. A database that has lost a registration may give its fence to another process; the random text
   * tells them apart.
   */
  readonly instance: string;
}

/** The row of a node. */
export interface NodeRow {
  readonly fence: number;
  readonly instance: string;
  /** The number of its last commit. */
  readonly seq: number;
  /** `seq` when the process that holds the name took it over. */
  readonly began: number;
}

/** A part of a range to delete: its first rows. */
interface Deletion {
  readonly family: Family;
  readonly range: KeyRange;
  readonly most: number;
}

/** What one statement does: all of it, or nothing. */
export interface Commit {
  /** One more than that of the commit before, or than `behind`. */
  readonly seq: number;
  /** Number of the commit before, if numbers are left out between. */
  readonly behind?: number | undefined;
  readonly changes: Changes;
  readonly deletion?: Deletion | undefined;
}

/** `bytes`: of all tables and their indexes. `time`: of the database, in ms since 1970. */
export interface Measured {
  readonly bytes: number;
  readonly time: number;
}

/** Rows, and the row of the node as of the same instant. */
export interface Read<T> {
  readonly node: NodeRow | undefined;
  readonly found: T;
}

/**
 * A session with a server that takes writes. Calls reject with a `DatabaseError`. One of kind `lost` leaves open what the call
 * did, and may still do: then the session is over.
 */
export interface Session {
  /**
   * Applies a commit if the node has this registration and the commit before is its last one. Resolves with the number of rows
   * that the deletion deleted; with undefined if a condition did not hold, so that nothing was changed.
   */
  commit(me: Registration, commit: Commit): Promise<number | undefined>;
  node(name: string): Promise<NodeRow | undefined>;
  /** Records that commits up to this number were acknowledged and are lost, and ends the power of whoever has the name. */
  markLost(name: string, acknowledged: number): Promise<void>;
  get(name: string, family: Family, keys: readonly Key[]): Promise<Read<(Uint8Array | undefined)[]>>;
  scan(name: string, family: Family, range: KeyRange, limit: ScanLimit): Promise<Read<Row[]>>;
  measure(name: string): Promise<Read<Measured>>;
  /** Ends the session at once. Calls in progress reject with `lost`. */
  end(): void;
}

export interface Database {
  /**
   * A session with a server that takes writes. `like`: with the server of this session. Rejects with a `DatabaseError` of kind
   * `lost` if none can be reached.
   */
  connect(like?: Session): Promise<Session>;
}

/**
 * `lost`: the session is over, and it is not known whether the statement was or will be applied. All others changed nothing.
 * `again`: the statement may be sent again. `full`: the database has no space. `failed`: it will not be accepted.
 */
export type DatabaseErrorKind = 'lost' | 'again' | 'full' | 'failed';

export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  readonly kind: DatabaseErrorKind;

  constructor(kind: DatabaseErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}
