import type { Key } from '@taskmaster/engine/domain';
import { type Family, type KeyRange, type Row, type ScanLimit, StoreCorruptError } from '@taskmaster/engine/ports';
import type { SeededRandom } from '@taskmaster/engine/testing';
import {
  type Commit,
  type Database,
  DatabaseError,
  type Measured,
  type NodeRow,
  type Read,
  type Registration,
  type Session,
} from '../database.ts';
import type { After } from '../link.ts';

/** A condition that a faulty database does not check. */
export type Unchecked = 'fence' | 'number';

export interface SimDatabaseOptions {
  readonly random: SeededRandom;
  readonly after: After;
  /** Longest way of a statement or an answer, in virtual ms. Default 5. */
  readonly latencyMs?: number;
  /** Parts of the statements that get lost on the way, or whose answer does, or that arrive when the session is long over. */
  readonly faults?: number;
  readonly unchecked?: Unchecked | undefined;
}

/** What the database has done, in order. */
export type Deed =
  | { readonly kind: 'register'; readonly me: Registration }
  | { readonly kind: 'commit'; readonly by: Registration; readonly commit: Commit }
  | { readonly kind: 'lose'; readonly deeds: readonly Deed[] };

interface Node extends NodeRow {
  readonly lost: number | undefined;
}

/** Longest time after which a statement of a session that is over is still applied, in ms. */
const LATE_MS = 3000;

/**
 * A simulated database that several processes share. Statements are applied at once when they arrive. Faults: a statement gets
 * lost, is applied without an answer, or arrives late, when the process has connected again; the server is gone for a while; a
 * failover ends all sessions; the new server lacks the last commits; there is no space.
 */
export class SimDatabase implements Database {
  readonly deeds: Deed[] = [];
  /** Called before and after a commit is applied. It may call `failover`. */
  onCommit: ((phase: 'before' | 'after') => void) | undefined;
  faults: number;
  /** False: commits that put rows are refused. */
  hasSpace = true;
  readonly #random: SeededRandom;
  readonly #after: After;
  readonly #latencyMs: number;
  readonly #unchecked: Unchecked | undefined;
  readonly #rows = new Map<Family, Map<string, Uint8Array>>();
  readonly #nodes = new Map<string, Node>();
  /** What takes the deeds back, in their order. */
  readonly #undo: (() => void)[] = [];
  readonly #sessions = new Set<SimSession>();
  #isDown = false;
  #server = 1;

  constructor({ random, after, latencyMs = 5, faults = 0, unchecked }: SimDatabaseOptions) {
    this.#random = random;
    this.#after = after;
    this.#latencyMs = latencyMs;
    this.faults = faults;
    this.#unchecked = unchecked;
  }

  async connect(): Promise<Session> {
    await this.takes();
    if (this.#isDown) throw new DatabaseError('lost', 'the simulated database is down');
    const session = new SimSession(this, this.#server);
    this.#sessions.add(session);
    return session;
  }

  /** What `register` does. */
  register(name: string): { readonly me: Registration; readonly seq: number } {
    const before = this.#nodes.get(name);
    if (before?.lost !== undefined) throw new StoreCorruptError(`commits of ${name} are lost`);
    const seq = before?.seq ?? 0;
    const me: Registration = { name, fence: (before?.fence ?? 0) + 1, instance: `process ${this.#random.uint32()}` };
    this.#set(name, { fence: me.fence, instance: me.instance, seq, began: seq, lost: undefined });
    this.#did({ kind: 'register', me }, () => this.#set(name, before));
    return { me, seq };
  }

  /** Lets a node start again. */
  acceptLoss(name: string): void {
    const node = this.#nodes.get(name);
    if (node !== undefined) this.#set(name, { ...node, lost: undefined });
  }

  /** All sessions end. Statements on their way are applied now or never. */
  failover(): void {
    this.#server++;
    for (const session of this.#sessions) session.end();
    this.#sessions.clear();
  }

  /** No new sessions for this time. */
  down(ms: number): void {
    this.#isDown = true;
    this.#after(ms, () => {
      this.#isDown = false;
    });
  }

  /** A failover to a server that lacks the last deeds. Returns what is lost. */
  loseLast(count: number): readonly Deed[] {
    this.failover();
    const lost: Deed[] = [];
    for (let left = Math.min(count, this.#undo.length); left > 0; left--) {
      this.#undo.pop()?.();
      const deed = this.#standing.pop();
      if (deed !== undefined) lost.unshift(deed);
    }
    this.deeds.push({ kind: 'lose', deeds: lost });
    return lost;
  }

  /** The deeds that are not lost. */
  get standing(): readonly Deed[] {
    return this.#standing;
  }

  readonly #standing: Deed[] = [];

  /** All rows of a family, in key order. */
  rowsOf(family: Family): Row[] {
    return [...(this.#rows.get(family) ?? [])]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, value]) => ({ key: key as Key, value }));
  }

  get random(): SeededRandom {
    return this.#random;
  }

  isServer(server: number): boolean {
    return server === this.#server;
  }

  nodeOf(name: string): NodeRow | undefined {
    return this.#nodes.get(name);
  }

  after(ms: number, callback: () => void): void {
    this.#after(ms, callback);
  }

  takes(mostMs = this.#latencyMs): Promise<void> {
    return new Promise((resolve) => void this.#after(this.#random.next() * mostMs, resolve));
  }

  /** Late statements arrive within this time. */
  get lateMs(): number {
    return LATE_MS;
  }

  apply(by: Registration, commit: Commit): number | undefined {
    const before = this.#nodes.get(by.name);
    const hasFence = before?.fence === by.fence && before.instance === by.instance;
    const hasNumber = before?.seq === (commit.behind ?? commit.seq - 1);
    if (before === undefined) return undefined;
    if ((!hasFence && this.#unchecked !== 'fence') || (!hasNumber && this.#unchecked !== 'number')) return undefined;
    const puts = [...commit.changes.values()].some((rows) =>
      [...rows.values()].some(({ value }) => value !== undefined),
    );
    if (puts && !this.hasSpace) throw new DatabaseError('full', 'the simulated database is full');
    this.onCommit?.('before');
    const undo: (() => void)[] = [() => this.#set(by.name, before)];
    this.#set(by.name, { ...before, seq: commit.seq });
    let deleted = 0;
    if (commit.deletion !== undefined) {
      const { family, range, most } = commit.deletion;
      const within = this.rowsOf(family).filter(({ key }) => key >= range.gte && key < range.lt);
      for (const { key } of within.slice(0, most)) undo.push(this.#put(family, key, undefined));
      deleted = Math.min(within.length, most);
    }
    for (const [family, rows] of commit.changes) {
      for (const [key, { value }] of rows) undo.push(this.#put(family, key, value && Uint8Array.from(value)));
    }
    this.#did({ kind: 'commit', by, commit: { seq: commit.seq, changes: new Map() } }, () => {
      for (const each of undo.reverse()) each();
    });
    return deleted;
  }

  markLost(name: string, acknowledged: number): void {
    const node = this.#nodes.get(name);
    if (node === undefined) return;
    const lost = Math.max(node.lost ?? 0, acknowledged);
    this.#set(name, { ...node, fence: node.fence + 1, instance: '', lost });
  }

  #did(deed: Deed, undo: () => void): void {
    this.deeds.push(deed);
    this.#standing.push(deed);
    this.#undo.push(undo);
  }

  #set(name: string, node: Node | undefined): void {
    if (node === undefined) this.#nodes.delete(name);
    else this.#nodes.set(name, node);
  }

  #put(family: Family, key: string, value: Uint8Array | undefined): () => void {
    const rows = this.#rows.get(family) ?? new Map<string, Uint8Array>();
    this.#rows.set(family, rows);
    const before = rows.get(key);
    const set = (to: Uint8Array | undefined): void => {
      if (to === undefined) rows.delete(key);
      else rows.set(key, to);
    };
    set(value);
    return () => set(before);
  }
}

class SimSession implements Session {
  readonly #database: SimDatabase;
  readonly #server: number;
  readonly #over = Promise.withResolvers<never>();
  #isOver = false;

  constructor(database: SimDatabase, server: number) {
    this.#database = database;
    this.#server = server;
    this.#over.promise.catch(() => {});
  }

  commit(me: Registration, commit: Commit): Promise<number | undefined> {
    return this.#send(() => {
      const deleted = this.#database.apply(me, commit);
      if (deleted !== undefined) this.#database.onCommit?.('after');
      return deleted;
    });
  }

  node(name: string): Promise<NodeRow | undefined> {
    return this.#send(() => this.#database.nodeOf(name));
  }

  markLost(name: string, acknowledged: number): Promise<void> {
    return this.#send(() => this.#database.markLost(name, acknowledged));
  }

  get(name: string, family: Family, keys: readonly Key[]): Promise<Read<(Uint8Array | undefined)[]>> {
    return this.#send(() => {
      const rows = new Map(this.#database.rowsOf(family).map(({ key, value }) => [key, value]));
      const found = keys.map((key) => {
        const value = rows.get(key);
        return value && Buffer.from(value);
      });
      return { node: this.#database.nodeOf(name), found };
    });
  }

  scan(name: string, family: Family, range: KeyRange, limit: ScanLimit): Promise<Read<Row[]>> {
    return this.#send(() => {
      const found: Row[] = [];
      let bytes = 0;
      for (const { key, value } of this.#database.rowsOf(family)) {
        if (key < range.gte || key >= range.lt) continue;
        bytes += key.length + value.byteLength;
        if (found.length >= limit.rows || (found.length > 0 && bytes > limit.bytes)) break;
        found.push({ key, value: Buffer.from(value) });
      }
      return { node: this.#database.nodeOf(name), found };
    });
  }

  async measure(name: string): Promise<Read<Measured>> {
    return { node: this.#database.nodeOf(name), found: { bytes: 1, time: 0 } };
  }

  end(): void {
    this.#isOver = true;
    this.#over.reject(new DatabaseError('lost', 'the session of the simulated database is over'));
  }

  /** Sends a statement, which `run` applies, and waits for its answer. */
  async #send<T>(run: () => T): Promise<T> {
    const { random, faults, lateMs } = this.#database;
    if (this.#isOver) return this.#over.promise;
    const fault = random.chance(faults) ? random.int(4) : -1;
    const arrive = (): T => {
      if (!this.#database.isServer(this.#server)) throw new DatabaseError('lost', 'the server is gone');
      return run();
    };
    /** Nobody hears what becomes of it. */
    const runUnheard = (): void => {
      if (!this.#database.isServer(this.#server)) return;
      try {
        run();
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error;
      }
    };
    if (fault === LATE) {
      // The session is over at once for the process, and the statement arrives later.
      this.#database.after(random.next() * lateMs, runUnheard);
      this.end();
      return this.#over.promise;
    }
    await Promise.race([this.#database.takes(), this.#over.promise]).catch((error: unknown) => {
      // The server may have it already.
      if (random.chance(0.5)) runUnheard();
      throw error;
    });
    if (fault === REQUEST_LOST) this.end();
    if (this.#isOver) return this.#over.promise;
    const answer = arrive();
    if (fault === ANSWER_LOST) this.end();
    await Promise.race([this.#database.takes(fault === ANSWER_LATE ? lateMs : undefined), this.#over.promise]);
    return answer;
  }
}

const REQUEST_LOST = 0;
const ANSWER_LOST = 1;
const ANSWER_LATE = 2;
const LATE = 3;
