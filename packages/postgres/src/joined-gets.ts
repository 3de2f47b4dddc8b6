import type { Key } from '@taskmaster/engine/domain';
import type { Family } from '@taskmaster/engine/ports';
import type { Read, Session } from './database.ts';

type Values = (Uint8Array | undefined)[];

/** Calls whose keys one statement reads. */
interface Joined {
  readonly keys: Key[];
  readonly values: Promise<Values>;
}

/** A call with more keys has a statement of its own. */
const MOST_KEYS = 64;

/**
 * Reads values by key. Calls that wait for a session join one statement. After a node has taken partitions over, each call reads
 * what memory does not have yet: one statement for each would keep the recovery of further partitions waiting for minutes.
 */
export class JoinedGets {
  readonly #read: <T>(call: (session: Session, name: string) => Promise<Read<T>>) => Promise<T>;
  /** Statements that further calls may join, because they have not been sent. */
  readonly #open = new Map<Family, Joined>();

  /** `read`: see `Readers.read`. */
  constructor(read: <T>(call: (session: Session, name: string) => Promise<Read<T>>) => Promise<T>) {
    this.#read = read;
  }

  async get(family: Family, keys: readonly Key[]): Promise<Values> {
    let joined = this.#open.get(family);
    if (joined === undefined || joined.keys.length + keys.length > MOST_KEYS) joined = this.#begin(family);
    const first = joined.keys.length;
    joined.keys.push(...keys);
    const values = await joined.values;
    return values.slice(first, first + keys.length);
  }

  #begin(family: Family): Joined {
    const keys: Key[] = [];
    const values = this.#read((session, name) => {
      if (this.#open.get(family) === joined) this.#open.delete(family);
      return session.get(name, family, keys);
    });
    const joined: Joined = { keys, values };
    this.#open.set(family, joined);
    return joined;
  }
}
