import type { Engine } from '@taskmaster/engine';
import { DEAD_LETTER_SUFFIX, type QueueOperations, type QueueStats } from '@taskmaster/engine/domain';
import { formatQueueName, limits } from '@taskmaster/proto';
import { type Comparable, QueueChoice } from './queue-choice.ts';

/** Label of the sum over all queues without series of their own. */
export const OTHER = '_other';

/** How long the figures are reused, in ms, so that a second scraper costs nothing. */
const REUSE_MS = 5_000;

/** A store that does not answer, such as a database that is gone, must not keep the other metrics back for longer, in ms. */
const LONGEST_LOOK_MS = 1_000;

export interface QueueFigures {
  /** Full name, or `OTHER`. */
  readonly queue: string;
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  readonly oldestAgeMs: number;
  /** Of `OTHER`: how many are paused. */
  readonly paused: number;
  /** Available tasks that limits hold back. */
  readonly heldTasks: number;
  /** Available tasks of kinds that nobody here can run. */
  readonly unclaimed: number;
  /** Limit keys with available tasks that limits hold back. */
  readonly heldKeys: number;
  /** Undefined for `OTHER`: as queues get or lose their own series, a sum would fall, and Prometheus would see a restart. */
  readonly operations: QueueOperations | undefined;
}

/**
 * Figures of some queues, and the sums over all others; see `QueueChoice`. Queue names are data of users: a series for each name
 * could grow without bound.
 */
export class QueueMetrics {
  readonly #choice: QueueChoice;
  readonly #now: () => number;
  #last: { readonly at: number; readonly figures: Promise<QueueFigures[]> } | undefined;
  #known: QueueFigures[] = [];
  #isLooking = false;

  constructor(maxQueues: number, now: () => number = () => performance.now()) {
    this.#choice = new QueueChoice(maxQueues);
    this.#now = now;
  }

  /** Resolves with the figures of the last look if a new one takes long. */
  read(engine: Pick<Engine, 'listQueues'>): Promise<QueueFigures[]> {
    const now = this.#now();
    if (this.#last === undefined || (!this.#isLooking && now - this.#last.at > REUSE_MS)) {
      this.#last = { at: now, figures: this.#begin(engine) };
    }
    return this.#last.figures;
  }

  #begin(engine: Pick<Engine, 'listQueues'>): Promise<QueueFigures[]> {
    this.#isLooking = true;
    const { promise, resolve, reject } = Promise.withResolvers<QueueFigures[]>();
    const timer = setTimeout(() => resolve(this.#known), LONGEST_LOOK_MS);
    // Before anybody learns of the figures, and may look again.
    const ended = (): void => {
      this.#isLooking = false;
      clearTimeout(timer);
    };
    this.#look(engine).then(
      (figures) => {
        ended();
        this.#known = figures;
        resolve(figures);
      },
      (error) => {
        ended();
        reject(error);
      },
    );
    return promise;
  }

  async #look(engine: Pick<Engine, 'listQueues'>): Promise<QueueFigures[]> {
    const look = this.#choice.look<Compared>();
    let other: QueueFigures | undefined;
    for await (const page of pagesOf(engine)) {
      const named: Compared[] = [];
      for (const stats of page) {
        const compared = comparedOf(stats);
        if (compared.queue === OTHER) other = together(other, compared.figures);
        else named.push(compared);
      }
      for (const { figures } of look.add(named)) other = together(other, figures);
    }
    const chosen = this.#choice.choose(look);
    const named: QueueFigures[] = [];
    for (const { queue, figures } of look.kept) {
      if (chosen.has(queue)) named.push(figures);
      else other = together(other, figures);
    }
    return other === undefined ? named : [...named, other];
  }
}

const EVERY_QUEUE = {
  matches: undefined,
  group: undefined,
  minAvailable: undefined,
  maxAvailable: undefined,
  minLeased: undefined,
  maxLeased: undefined,
  minDelayed: undefined,
  maxDelayed: undefined,
};

/** Includes empty queues, so that the series of a queue which is empty now and then have no gaps. */
async function* pagesOf(engine: Pick<Engine, 'listQueues'>): AsyncGenerator<readonly QueueStats[]> {
  let after: QueueStats['queue'] | undefined;
  do {
    const page = await engine.listQueues({
      filter: EVERY_QUEUE,
      limit: limits.listQueues,
      after,
      includeEmpty: true,
    });
    yield page.queues;
    after = page.more ? page.queues.at(-1)?.queue : undefined;
  } while (after !== undefined);
}

function figuresOf({
  queue,
  available,
  leased,
  delayed,
  oldestAgeMs,
  pause,
  kinds,
  heldKeys,
  heldTasks,
  operations,
}: QueueStats): QueueFigures {
  const paused = pause === undefined ? 0 : 1;
  const unclaimed = kinds?.unclaimed ?? 0;
  const counts = { available, leased, delayed, oldestAgeMs, paused, unclaimed, heldKeys, heldTasks, operations };
  return { queue: formatQueueName(queue), ...counts };
}

interface Compared extends Comparable {
  readonly figures: QueueFigures;
}

function comparedOf(stats: QueueStats): Compared {
  const figures = figuresOf(stats);
  return {
    queue: figures.queue,
    size: stats.available + stats.leased + stats.delayed,
    activity: stats.enqueueRate + stats.leaseRate + stats.completeRate,
    failures: stats.failureRate,
    figures,
  };
}

/** Alerts exclude dead-letter queues by name. In a sum they have no name, so what alerts look at is left out here. */
const isDead = ({ queue }: QueueFigures): boolean => queue !== OTHER && queue.endsWith(DEAD_LETTER_SUFFIX);

function together(sum: QueueFigures | undefined, more: QueueFigures): QueueFigures {
  return {
    queue: OTHER,
    available: (sum?.available ?? 0) + more.available,
    leased: (sum?.leased ?? 0) + more.leased,
    delayed: (sum?.delayed ?? 0) + more.delayed,
    oldestAgeMs: Math.max(sum?.oldestAgeMs ?? 0, isDead(more) ? 0 : more.oldestAgeMs),
    paused: (sum?.paused ?? 0) + more.paused,
    heldTasks: (sum?.heldTasks ?? 0) + more.heldTasks,
    unclaimed: (sum?.unclaimed ?? 0) + (isDead(more) ? 0 : more.unclaimed),
    heldKeys: (sum?.heldKeys ?? 0) + more.heldKeys,
    operations: undefined,
  };
}
