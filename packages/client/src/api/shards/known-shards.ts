import type { QueueStats } from '@taskmaster/proto';
import type { ClientContext } from '../../tasks/context.ts';
import { queueStats } from '../../tasks/introspection.ts';
import { MAX_SHARDS, type ShardNames } from '../../tasks/shard-names.ts';
import type { CallOptions } from '../../values/options.ts';

/** Time between two looks for tasks in further shards, in ms. */
export const LOOK_MS = 10_000;
/** Timeout of each of the two requests of a look, in ms. The first lease waits for the first look. */
const LOOK_TIMEOUT_MS = 2_000;
/**
 * The shards from which a client reads: those that it enqueues to, those in which it has found tasks, and those that are paused,
 * so that a resume finds them. So a change of the number of shards strands no tasks, whatever the order in which producers and
 * workers learn of it.
 */
export class KnownShards {
  readonly #context: ClientContext;
  readonly #names: ShardNames;
  readonly #own: readonly number[];
  #all: readonly number[];
  #lookAt = Number.NEGATIVE_INFINITY;
  #firstLook: Promise<void> | undefined;

  /** `shards`: number of shards that enqueues use. */
  constructor(context: ClientContext, names: ShardNames, shards: number) {
    this.#context = context;
    this.#names = names;
    this.#own = Array.from({ length: shards }, (_, shard) => shard);
    this.#all = this.#own;
  }

  /** Numbers of the shards to read from. The first call looks for tasks in further shards, later ones do so in the background. */
  async numbers(): Promise<readonly number[]> {
    const now = this.#context.timing.now();
    if (now >= this.#lookAt) {
      this.#lookAt = now + LOOK_MS;
      const looking = this.#look();
      this.#firstLook ??= looking;
    }
    await this.#firstLook;
    return this.#all;
  }

  /** Statistics of the shards that hold tasks, are paused, or that enqueues use. Throws as `client.stats` does. */
  async stats(options: CallOptions): Promise<readonly QueueStats[]> {
    const queues = Array.from({ length: MAX_SHARDS }, (_, shard) => this.#names.of(shard));
    const found = (await queueStats(this.#context, { ...options, queues })).queues;
    const read = found
      .map((stats, shard) => ({ stats, shard }))
      .filter(({ stats, shard }) => shard < this.#own.length || stats.pause !== undefined || holdsTasks(stats));
    this.#all = read.map(({ shard }) => shard);
    this.#lookAt = this.#context.timing.now() + LOOK_MS;
    return read.map(({ stats }) => stats);
  }

  /** Never rejects: without an answer the client reads from the shards that it knows, and looks again later. */
  async #look(): Promise<void> {
    await this.stats({ timeout: LOOK_TIMEOUT_MS }).catch(() => this.#lookAtReachable().catch(() => {}));
  }

  /** Statistics of named queues need all their nodes. A filter finds the shards of the nodes that answer. */
  async #lookAtReachable(): Promise<void> {
    const filter = { regex: this.#names.regex };
    const holding = (await queueStats(this.#context, { timeout: LOOK_TIMEOUT_MS, filter })).queues.filter(holdsTasks);
    const names = new Set(holding.map(({ queue }) => queue));
    const found = Array.from({ length: MAX_SHARDS }, (_, shard) => shard).filter((shard) =>
      names.has(this.#names.of(shard)),
    );
    // The shards that did not answer stay known.
    this.#all = [...new Set([...this.#all, ...found])].sort((a, b) => a - b);
  }
}

const holdsTasks = ({ available, leased, delayed }: QueueStats): boolean => available + leased + delayed > 0;
