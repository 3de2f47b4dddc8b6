import { shardIn } from '../../tasks/shard-names.ts';
import { comparePids, type Pid } from '../../values/pid.ts';

/** One of this number of leases begins at the shard whose turn it is. */
const IN_TURN = 4;
/** How long a shard that did not answer is left to the others, in ms. */
const REST_MS = 5_000;

/**
 * Chooses the shard at which a lease begins. It takes its tasks from there if there are enough.
 *
 * Three of four leases begin at the shard that is behind: the one whose last task had the lowest PID. So the shards advance
 * together, even if they have different numbers of tasks. The fourth begins at each shard in turn, because a shard may have got
 * tasks with lower PIDs since.
 */
export class FirstShard {
  readonly #now: () => number;
  /**
   * By shard: the PID up to which its tasks were leased here. A shard that was asked and had none counts as far as the others.
   */
  readonly #reached = new Map<number, Pid>();
  /** By shard that did not answer: until when it is not chosen. */
  readonly #resting = new Map<number, number>();
  #leases = 0;
  #turn: number;
  #isBusy = false;

  /** `turn`: where the turns begin. */
  constructor(now: () => number, turn: number) {
    this.#now = now;
    this.#turn = turn;
  }

  /** Whether the last lease got all its tasks from its first shard, so that the next one need not ask them all. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** The place of the first shard in this list. */
  choose(shards: readonly number[]): number {
    if (this.#leases++ % IN_TURN !== 0) return this.#behind(shards);
    for (let tried = 1; tried < shards.length; tried++) {
      const place = this.#turn++ % shards.length;
      if (!this.#isResting(shards[place])) return place;
    }
    return this.#turn++ % shards.length;
  }

  /** Call it with the tasks of a lease for up to `max` tasks, and with the shards in the order in which it named them. */
  leased(asked: readonly number[], tasks: readonly { readonly queue: string; readonly pid: Pid }[], max: number): void {
    const [first] = tasks;
    const last = new Map(tasks.map(({ queue, pid }) => [queue, pid]));
    const leased = new Map([...last].map(([queue, pid]) => [shardIn(queue)?.shard, pid]));
    // Copies, because the PIDs are views that would keep the whole message in memory.
    for (const [shard, pid] of leased) if (shard !== undefined) this.#reached.set(shard, Buffer.from(pid));
    this.#isBusy = tasks.length === max && leased.size === 1 && leased.has(asked[0]);
    if (first === undefined) return;
    const reached = Buffer.from(first.pid);
    for (const shard of asked) {
      if (leased.has(shard)) break;
      this.#reached.set(shard, reached);
    }
  }

  /** Call it when a shard did not answer. */
  failed(shard: number): void {
    this.#isBusy = false;
    this.#resting.set(shard, this.#now() + REST_MS);
  }

  /** Shards that are not known yet come first. */
  #behind(shards: readonly number[]): number {
    let place = 0;
    let least: Pid | undefined;
    for (const [at, shard] of shards.entries()) {
      if (this.#isResting(shard)) continue;
      const reached = this.#reached.get(shard);
      if (reached === undefined) return at;
      if (least !== undefined && comparePids(reached, least) >= 0) continue;
      least = reached;
      place = at;
    }
    return place;
  }

  #isResting(shard: number | undefined): boolean {
    return shard !== undefined && (this.#resting.get(shard) ?? Number.NEGATIVE_INFINITY) > this.#now();
  }
}
