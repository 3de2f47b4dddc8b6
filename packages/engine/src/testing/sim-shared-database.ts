import type { Instant, PartitionId } from '../domain/ids.ts';
import { MemoryRows, type RowChange } from '../memory/memory-rows.ts';
import type { Clock } from '../ports/clock.ts';
import {
  type Gift,
  type SharedHolders,
  type SharedNode,
  type SharedPartition,
  type SharedState,
  SURE_MS,
} from '../ports/shared-holders.ts';
import { type Family, type Row, type Store, StoreLostError } from '../ports/store.ts';
import type { SeededRandom } from './seeded-random.ts';
import { type SimProcessDisk, SimStore } from './sim-store-process.ts';

/** The conditions of the database. A test switches one off, to see that it is needed. */
export interface SimConditions {
  /** A commit is applied only under the fence of its process. A read is answered only under it. */
  readonly commit: boolean;
  /** Holders change only under the fence of the process, and only those that it has at this epoch. */
  readonly change: boolean;
  /** Only partitions without a holder are taken. */
  readonly take: boolean;
  /** A node knows for `SURE_MS` only that its fence holds. */
  readonly sure: boolean;
}

const ALL_CONDITIONS: SimConditions = { commit: true, change: true, take: true, sure: true };

interface SimSharedOptions {
  /** It must outlive the processes, for example a `VirtualTime`. */
  readonly time: Pick<Clock, 'now' | 'at'>;
  readonly random: SeededRandom;
  readonly partitions: number;
  /** Duration of each statement, in virtual ms. Default 1. */
  readonly statementMs?: number;
  readonly conditions?: Partial<SimConditions>;
}

interface NodeOfDatabase {
  fence: number;
  seenAt: number;
}

interface PartitionOfDatabase {
  holder: string | undefined;
  epoch: number;
  fencedAt: number | undefined;
}

export type SimStatement = 'read' | 'commit' | 'holders' | 'take' | 'give' | 'fence';

/** What happens to a statement on its way to the database. */
export interface SimFate {
  /** How much longer than others it takes, in ms. */
  readonly lateMs: number;
  /** The connection breaks at once: the node hears that, and never what the statement did. Not for reads of rows and commits. */
  readonly isCutOff?: boolean;
}

const IN_TIME: SimFate = { lateMs: 0 };

/** Rows that a node has changed, for checks. */
export interface SimCommit {
  readonly name: string;
  /** Whether the process was fenced: the condition of the commit should have refused it. */
  readonly isFenced: boolean;
  readonly changes: readonly RowChange[];
}

/**
 * A simulated database that several nodes share. Its rows survive all of them. Statements may be slow (`delayMs`) or not reach it
 * (`cut`), and a process that ends may leave a statement that is applied later.
 */
export class SimSharedDatabase {
  readonly rows = new MemoryRows();
  readonly conditions: SimConditions;
  /** Names of nodes that cannot reach the database. Their statements wait. */
  readonly cut = new Set<string>();
  /** By name: how much longer each statement of the node takes, in ms, before the database sees it. */
  readonly delayMs = new Map<string, number>();
  /** Called for each applied commit. */
  onCommit: ((commit: SimCommit) => void) | undefined;
  /** Called when a node sends a statement. */
  onStatement: ((name: string, kind: SimStatement) => SimFate) | undefined;
  readonly #options: SimSharedOptions;
  readonly #nodes = new Map<string, NodeOfDatabase>();
  readonly #partitions: PartitionOfDatabase[];

  constructor(options: SimSharedOptions) {
    this.#options = options;
    this.conditions = { ...ALL_CONDITIONS, ...options.conditions };
    this.#partitions = Array.from({ length: options.partitions }, () => ({
      holder: undefined,
      epoch: 0,
      fencedAt: undefined,
    }));
  }

  get nowMs(): number {
    return this.#options.time.now();
  }

  /** All rows of a family. */
  rowsOf(family: Family): Row[] {
    return this.rows.all(family);
  }

  holderOf(id: PartitionId): PartitionOfDatabase | undefined {
    return this.#partitions[id];
  }

  /** Opens the store as this node, and fences the process that had the name before. */
  open(name: string): SimSharedProcess {
    const fence = this.fenceNow(name);
    return new SimSharedProcess(this, name, fence);
  }

  // The remaining members are for its processes.

  /** Increases the fence of a node, which was not heard for this time, in ms. */
  fenceNow(name: string, silentMs = 0): number {
    const fence = (this.#nodes.get(name)?.fence ?? 0) + 1;
    this.#nodes.set(name, { fence, seenAt: this.nowMs });
    for (const partition of this.#partitions) {
      if (partition.holder === name) Object.assign(partition, { holder: undefined, fencedAt: this.nowMs - silentMs });
    }
    return fence;
  }

  seenAt(name: string): number | undefined {
    return this.#nodes.get(name)?.seenAt;
  }

  isFenced(name: string, fence: number): boolean {
    return this.#nodes.get(name)?.fence !== fence;
  }

  state(name: string): SharedState {
    const node = this.#nodes.get(name);
    if (node !== undefined) node.seenAt = this.nowMs;
    const nodes = new Map<string, SharedNode>();
    for (const [each, { fence, seenAt }] of this.#nodes) nodes.set(each, { name: each, fence, seenAt });
    const partitions = this.#partitions.map(
      ({ holder, epoch, fencedAt }): SharedPartition => ({
        holder,
        epoch,
        fencedMs: fencedAt === undefined ? undefined : this.nowMs - fencedAt,
      }),
    );
    return { partitions, nodes };
  }

  take(name: string, ids: readonly PartitionId[]): void {
    for (const id of ids) {
      const partition = this.#partitions[id];
      if (partition === undefined || (this.conditions.take && partition.holder !== undefined)) continue;
      partition.holder = name;
      partition.epoch++;
    }
  }

  give(name: string, gifts: readonly Gift[]): void {
    for (const { id, epoch, to } of gifts) {
      const partition = this.#partitions[id];
      if (partition === undefined) continue;
      if (this.conditions.change && (partition.holder !== name || partition.epoch !== epoch)) continue;
      Object.assign(partition, { holder: to, epoch: to === undefined ? epoch : epoch + 1, fencedAt: undefined });
    }
  }

  fateOf(name: string, kind: SimStatement): SimFate {
    return this.onStatement?.(name, kind) ?? IN_TIME;
  }

  /** Resolves when a statement of the node reaches the database. */
  async travel(name: string, { lateMs }: SimFate): Promise<void> {
    const { statementMs = 1 } = this.#options;
    await this.#takes(statementMs + lateMs + (this.delayMs.get(name) ?? 0));
    while (this.cut.has(name)) await this.#takes(CUT_LOOK_MS);
  }

  /** A statement that a process had sent at its end may be applied nevertheless. */
  get survives(): boolean {
    return this.#options.random.chance(0.5);
  }

  seen(name: string): void {
    const node = this.#nodes.get(name);
    if (node !== undefined) node.seenAt = this.nowMs;
  }

  #takes(ms: number): Promise<void> {
    const { time } = this.#options;
    return new Promise((resolve) => void time.at((time.now() + ms) as Instant, resolve));
  }
}

/** How often a statement that does not reach the database is tried again, in ms. */
const CUT_LOOK_MS = 10;

/** A process that has opened the simulated database under a name. */
export class SimSharedProcess implements SimProcessDisk {
  readonly atomicBatches = true;
  readonly space = 'plenty';
  readonly store: Store;
  readonly holders: SharedHolders;
  readonly name: string;
  readonly fence: number;
  readonly #database: SimSharedDatabase;
  readonly #store: SimStore;
  /** When the last statement was sent that showed that the fence holds. */
  #sureAt: number;
  #confirming: Promise<void> | undefined;
  /** By name: when a node was last heard, and since when this process knows that. */
  readonly #heard = new Map<string, { readonly seenAt: number; readonly since: number }>();
  #isDead = false;

  constructor(database: SimSharedDatabase, name: string, fence: number) {
    this.#database = database;
    this.name = name;
    this.fence = fence;
    this.#sureAt = database.nowMs;
    this.#store = new SimStore(this, database.rows);
    this.store = this.#store;
    this.holders = {
      self: name,
      read: async () => {
        const state = await this.#statement('holders', () => database.state(name));
        for (const { name: of, seenAt } of state.nodes.values()) {
          if (this.#heard.get(of)?.seenAt !== seenAt) this.#heard.set(of, { seenAt, since: database.nowMs });
        }
        return state;
      },
      take: (ids) => this.#statement('take', () => database.take(name, ids)),
      give: (gifts) => this.#statement('give', () => database.give(name, gifts)),
      fence: (node) => {
        const heard = this.#heard.get(node.name);
        const silentMs = heard === undefined ? 0 : database.nowMs - heard.since;
        return this.#statement('fence', () => {
          if (database.isFenced(node.name, node.fence)) return false;
          const isSilent = heard?.seenAt === database.seenAt(node.name);
          database.fenceNow(node.name, isSilent ? silentMs : 0);
          return true;
        });
      },
      confirm: () => {
        if (this.#isSure) return undefined;
        this.#confirming ??= this.#statement('holders', () => database.seen(name)).finally(() => {
          this.#confirming = undefined;
        });
        return this.#confirming;
      },
    };
  }

  /** Ends the process: its calls never settle. */
  die(): void {
    this.#isDead = true;
    this.#store.die();
  }

  get #isSure(): boolean {
    return !this.#database.conditions.sure || this.#database.nowMs - this.#sureAt < SURE_MS;
  }

  isDamaged(): boolean {
    return false;
  }

  async reading(): Promise<void> {
    await this.#database.travel(this.name, this.#database.fateOf(this.name, 'read'));
    if (this.#database.conditions.commit) this.#assertHeld();
  }

  async commit(
    _kind: 'write' | 'deleteRange',
    changesNow: () => RowChange[][],
    _sync: boolean,
    alive: () => boolean,
  ): Promise<boolean> {
    const database = this.#database;
    const sentAt = database.nowMs;
    await database.travel(this.name, database.fateOf(this.name, 'commit'));
    if (!alive() && !database.survives) return false;
    if (database.conditions.commit && database.isFenced(this.name, this.fence)) {
      if (!alive()) return false;
      throw this.#fenced();
    }
    database.seen(this.name);
    for (const changes of changesNow()) {
      database.rows.apply(changes);
      database.onCommit?.({ name: this.name, isFenced: this.isFenced, changes });
    }
    this.#sureAt = Math.max(this.#sureAt, sentAt);
    return alive();
  }

  async closed(): Promise<void> {}

  async #statement<T>(kind: SimStatement, work: () => T): Promise<T> {
    const sentAt = this.#database.nowMs;
    const fate = this.#database.fateOf(this.name, kind);
    const arrived = this.#database.travel(this.name, fate);
    if (fate.isCutOff) {
      void arrived.then(() => {
        if (!this.#isRefused(kind)) work();
      });
      throw new Error('the connection to the database was lost');
    }
    await arrived;
    if (this.#isDead) {
      if (this.#database.survives && !this.#isRefused(kind)) work();
      return new Promise<T>(() => {});
    }
    if (this.#isRefused(kind)) throw this.#fenced();
    this.#database.seen(this.name);
    const done = work();
    this.#sureAt = Math.max(this.#sureAt, sentAt);
    return done;
  }

  #isRefused(kind: SimStatement): boolean {
    const { conditions } = this.#database;
    return (kind === 'holders' ? conditions.commit : conditions.change) && this.isFenced;
  }

  /** Whether another process has the name now, or a node has taken the partitions of this one. */
  get isFenced(): boolean {
    return this.#database.isFenced(this.name, this.fence);
  }

  #assertHeld(): void {
    if (this.isFenced) throw this.#fenced();
  }

  #fenced(): Error {
    const cause = new StoreLostError('fenced', `another process has taken the place of node ${this.name}`);
    this.#store.fail(cause);
    return cause;
  }
}
