/** How tasks are shared out. */
export interface Sharing {
  /** The name of the share that a queue belongs to. */
  shareOf(queue: string): string;
  /** The weight of a share, more than 0. */
  weightOf(share: string): number;
}

interface Share {
  readonly weight: number;
  /** Tasks that it has got, divided by its weight. The share with the lowest number is next. */
  time: number;
  /** Its queues that probably have tasks. */
  active: number;
}

interface Known {
  readonly share: Share;
  /** Tasks that it has got, to choose among the queues of a share. */
  time: number;
  /** Whether it probably has tasks. */
  isActive: boolean;
}

/** Queues that are known at most. Further ones have turns when others of these are forgotten. */
const MOST_QUEUES = 10_000;
const LEAST_FORGET = 64;

/**
 * Weighted fair queuing over queues that come and go. Each task that a queue gets moves its share on by 1 / weight, and the share
 * that is least far has the next turn. A share that has had no tasks for a while begins where the others are: it gets its part
 * from now on, not what it has missed.
 */
export class QueueTurns {
  readonly #sharing: Sharing;
  readonly #queues = new Map<string, Known>();
  /** Number of queues from which on those without tasks are forgotten. */
  #forgetFrom = LEAST_FORGET;
  readonly #shares = new Map<string, Share>();

  constructor(sharing: Sharing) {
    this.#sharing = sharing;
  }

  /** Names of all known queues. */
  get names(): readonly string[] {
    return [...this.#queues.keys()];
  }

  /** Notes whether a queue has tasks to lease. */
  note(name: string, hasTasks: boolean): void {
    const queue = this.#queueOf(name);
    if (queue !== undefined) this.#setActive(queue, hasTasks);
  }

  /** The queues that probably have tasks, those whose turn it is first. At most `limit`. */
  next(limit: number): string[] {
    const active = [...this.#queues].filter(([, { isActive }]) => isActive);
    active.sort(([, a], [, b]) => a.share.time - b.share.time || a.time - b.time);
    return active.slice(0, limit).map(([name]) => name);
  }

  /** How many of `max` tasks the share of a queue gets at once, so that other shares with tasks get theirs. */
  partOf(name: string, max: number): number {
    let weights = 0;
    for (const { weight, active } of this.#shares.values()) if (active > 0) weights += weight;
    const weight = this.#queues.get(name)?.share.weight ?? weights;
    return Math.max(1, Math.ceil((max * weight) / Math.max(weight, weights)));
  }

  /**
   * Enters a lease for up to `max` tasks.
   * @param asked the queues, in the order in which they were asked.
   * @param counts the number of tasks of each queue.
   */
  leased(asked: readonly string[], counts: ReadonlyMap<string, number>, max: number): void {
    let left = max;
    for (const name of asked) {
      if (left <= 0) return;
      const count = counts.get(name) ?? 0;
      left -= count;
      // It may have been forgotten meanwhile.
      const queue = this.#queues.get(name);
      if (queue !== undefined) {
        queue.time += count;
        queue.share.time += count / queue.share.weight;
        // The next queue is asked only if this one has no more.
        this.#setActive(queue, left <= 0 && count > 0);
      }
    }
  }

  /** Enters tasks of a queue that was not asked for by its name. */
  found(name: string, count: number): void {
    const queue = this.#queueOf(name);
    if (queue === undefined) return;
    this.#setActive(queue, true);
    queue.time += count;
    queue.share.time += count / queue.share.weight;
  }

  /** Undefined: there are too many. */
  #queueOf(name: string): Known | undefined {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      if (this.#queues.size >= this.#forgetFrom) this.#forget();
      if (this.#queues.size >= MOST_QUEUES) return undefined;
      const share = this.#sharing.shareOf(name);
      queue = { share: this.#shareNamed(share), time: 0, isActive: false };
      this.#queues.set(name, queue);
    }
    return queue;
  }

  #shareNamed(name: string): Share {
    let share = this.#shares.get(name);
    if (share === undefined) {
      share = { weight: this.#sharing.weightOf(name), time: 0, active: 0 };
      this.#shares.set(name, share);
    }
    return share;
  }

  #setActive(queue: Known, isActive: boolean): void {
    if (queue.isActive === isActive) return;
    const { share } = queue;
    if (isActive && share.active === 0) share.time = Math.max(share.time, this.#leastTime());
    else if (isActive) queue.time = Math.max(queue.time, this.#leastTimeIn(share));
    queue.isActive = isActive;
    share.active += isActive ? 1 : -1;
  }

  /** Forgets queues without tasks whose shares have no turns to wait for: new ones would begin there, too. */
  #forget(): void {
    const least = this.#activeShares === 0 ? Number.POSITIVE_INFINITY : this.#leastTime();
    for (const [name, { share, isActive }] of this.#queues) {
      if (!isActive && (share.time <= least || share.active > 0)) this.#queues.delete(name);
    }
    const used = new Set([...this.#queues.values()].map(({ share }) => share));
    for (const [name, share] of this.#shares) if (!used.has(share)) this.#shares.delete(name);
    this.#forgetFrom = Math.min(MOST_QUEUES, Math.max(LEAST_FORGET, 2 * this.#queues.size));
  }

  get #activeShares(): number {
    let count = 0;
    for (const { active } of this.#shares.values()) if (active > 0) count++;
    return count;
  }

  /** How far the queues of a share with tasks are at least. */
  #leastTimeIn(share: Share): number {
    let least = Number.POSITIVE_INFINITY;
    for (const queue of this.#queues.values()) {
      if (queue.share === share && queue.isActive) least = Math.min(least, queue.time);
    }
    return least === Number.POSITIVE_INFINITY ? 0 : least;
  }

  /** How far the shares with tasks are at least. 0: none has tasks. */
  #leastTime(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const { active, time } of this.#shares.values()) if (active > 0) least = Math.min(least, time);
    return least === Number.POSITIVE_INFINITY ? 0 : least;
  }
}
