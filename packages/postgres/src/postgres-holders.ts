import type { Gift, SharedHolders, SharedNode, SharedPartition, SharedState } from '@taskmaster/engine/ports';
import { DatabaseError } from './database.ts';
import type { Instants, Link } from './link.ts';
import { type Cell, PgSession } from './pg-session.ts';
import type { Statement, Statements } from './statements.ts';

/** A node to fence. */
export interface FencedNode extends Pick<SharedNode, 'name' | 'fence'> {
  /** When the database last heard of it, in µs since 1970, as far as this process knows. */
  readonly seen: string;
  /** For how long this process has known that, in ms. */
  readonly silentMs: number;
}

/** When a node was last heard, and since when this process knows that. */
interface Heard {
  readonly seen: string;
  readonly since: Instants;
}

export interface PostgresHoldersOptions {
  readonly link: Link;
  readonly statements: Statements;
  /** See `fenceNode`. */
  readonly fence: (node: FencedNode) => Promise<boolean>;
  /** Resolves when a commit without changes was applied. */
  readonly commitNothing: () => Promise<void>;
}

/**
 * The holders of partitions in a database that several nodes share. Each statement has an effect only while this process has its
 * name, as commits do (R5). It goes over the session that commits.
 */
export class PostgresHolders implements SharedHolders {
  readonly self: string;
  readonly #options: PostgresHoldersOptions;
  #confirming: Promise<void> | undefined;
  readonly #heard = new Map<string, Heard>();

  constructor(options: PostgresHoldersOptions) {
    this.#options = options;
    this.self = options.link.me.name;
  }

  async read(): Promise<SharedState> {
    const { link, statements } = this.#options;
    const rows = await this.#run(statements.holders(link.me));
    const partitions: SharedPartition[] = [];
    const nodes = new Map<string, SharedNode>();
    for (const [, kind, name, first, second] of rows) {
      if (kind === 'node') {
        this.#hear(name ?? '', second ?? '');
        nodes.set(name ?? '', { name: name ?? '', fence: Number(first), seenAt: Number(second) / 1000 });
      } else if (kind !== null) {
        const fencedMs = second === null ? undefined : Number(second);
        partitions[Number(kind)] = { holder: name ?? undefined, epoch: Number(first), fencedMs };
      }
    }
    return { partitions, nodes };
  }

  async take(ids: readonly number[]): Promise<void> {
    const { link, statements } = this.#options;
    await this.#run(statements.take(link.me, ids));
  }

  async give(gifts: readonly Gift[]): Promise<void> {
    const { link, statements } = this.#options;
    await this.#run(statements.give(link.me, gifts));
  }

  fence({ name, fence }: Pick<SharedNode, 'name' | 'fence'>): Promise<boolean> {
    const { link } = this.#options;
    const { seen, since } = this.#heard.get(name) ?? { seen: '', since: link.instant() };
    const now = link.instant();
    // Clocks may be set, but then the two differ.
    const silentMs = Math.max(0, Math.min(now.monotonic - since.monotonic, now.wall - since.wall));
    return this.#options.fence({ name, fence, seen, silentMs });
  }

  #hear(name: string, seen: string): void {
    if (this.#heard.get(name)?.seen !== seen) this.#heard.set(name, { seen, since: this.#options.link.instant() });
  }

  /** A write, because a server that was a primary until now may still answer reads. */
  confirm(): Promise<void> | undefined {
    const { link, commitNothing } = this.#options;
    if (link.isSure) return undefined;
    this.#confirming ??= commitNothing().finally(() => {
      this.#confirming = undefined;
    });
    return this.#confirming;
  }

  /** Runs a statement whose rows begin with the number of nodes that have the registration of this process. */
  async #run(statement: Statement): Promise<Cell[][]> {
    const { link } = this.#options;
    const session = await link.session();
    if (!(session instanceof PgSession)) throw new TypeError('the session is of another database');
    const sent = link.instant();
    try {
      const rows = await session.run(statement);
      if (rows[0]?.[0] !== '1') {
        // Rejects if the process has lost its name.
        await link.check(session);
        throw new DatabaseError('again', 'the row of the node did not change');
      }
      link.proved(sent);
      return rows;
    } catch (error) {
      if (error instanceof DatabaseError && error.kind === 'lost') link.drop(session, error);
      throw error;
    }
  }
}
