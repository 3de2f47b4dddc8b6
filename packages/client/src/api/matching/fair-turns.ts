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

/**
 * Weighted fair queuing over queues that come and go. Each task that a queue gets moves its share on by 1 / weight, and the share
 * that is least far has the next turn. A share that has had no tasks for a while begins where the others are: it gets its part
 * from now on, not what it has missed.
 */
export class FairTurns {
  readonly #sharing: Sharing;
  readonly #queues = new Map<string, Known>();
  readonly #shares = new Map<string, Share>();

  constructor(sharing: Sharing) {
    this.#sharing = sharing;
  }

  /** Names of all known queues. */
  get names(): readonly string[] {
    return [...this.#queues.keys()];
  }

  /**
   * Takes in the queues of a listing: by name, whether they have tasks to lease. Other queues are forgotten if it is complete.
   */
  list(found: ReadonlyMap<string, boolean>, isComplete: boolean): void {
    for (const [name, hasTasks] of found) this.#setActive(this.#queueOf(name), hasTasks);
    if (!isComplete) return;
    for (const [name, queue] of this.#queues) {
      if (found.has(name)) continue;
      this.#setActive(queue, false);
      this.#queues.delete(name);
    }
    const used = new Set([...this.#queues.values()].map(({ share }) => share));
    for (const [name, share] of this.#shares) if (!used.has(share)) this.#shares.delete(name);
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
      if (left <= 0) return;
    }
  }

  #queueOf(name: string): Known {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
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
    queue.isActive = isActive;
    share.active += isActive ? 1 : -1;
  }

  /** How far the shares with tasks are at least. 0: none has tasks. */
  #leastTime(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const { active, time } of this.#shares.values()) if (active > 0) least = Math.min(least, time);
    return least === Number.POSITIVE_INFINITY ? 0 : least;
  }
}
