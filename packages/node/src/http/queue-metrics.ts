import { formatQueueName, limits } from '@taskmaster/proto';
import { DEAD_LETTER_SUFFIX, type QueueStats, type TaskEngine } from '@taskmaster/server/domain';

/** Stands for all queues that have no metrics of their own. */
export const OTHER = '_other';

/** How long one look at all queues serves, in ms: several scrapers must not multiply the work. */
const REUSE_MS = 5_000;

export interface QueueFigures {
  readonly queue: string;
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  readonly oldestAgeMs: number;
  readonly enqueueRate: number;
  readonly leaseRate: number;
  readonly completeRate: number;
}

/**
 * Figures of the largest queues, and of all others together: names of queues are the users' data, and a label for each
 * would grow without bound.
 */
export class QueueMetrics {
  readonly #most: number;
  readonly #now: () => number;
  #last: { readonly at: number; readonly figures: Promise<QueueFigures[]> } | undefined;

  constructor(most: number, now: () => number = () => performance.now()) {
    this.#most = most;
    this.#now = now;
  }

  read(engine: Pick<TaskEngine, 'listQueues'>): Promise<QueueFigures[]> {
    const now = this.#now();
    if (this.#last === undefined || now - this.#last.at > REUSE_MS) {
      this.#last = { at: now, figures: this.#look(engine) };
    }
    return this.#last.figures;
  }

  async #look(engine: Pick<TaskEngine, 'listQueues'>): Promise<QueueFigures[]> {
    let largest: QueueFigures[] = [];
    let other: QueueFigures | undefined;
    for await (const page of pagesOf(engine)) {
      largest = [...largest, ...page.map(figuresOf)].sort((a, b) => sizeOf(b) - sizeOf(a));
      for (const figures of largest.splice(this.#most)) other = together(other, figures);
    }
    const named = largest.filter(({ queue }) => queue !== OTHER);
    for (const figures of largest) if (figures.queue === OTHER) other = together(other, figures);
    return other === undefined ? named : [...named, other];
  }
}

async function* pagesOf(engine: Pick<TaskEngine, 'listQueues'>): AsyncGenerator<readonly QueueStats[]> {
  const filter = {
    matches: undefined,
    group: undefined,
    minAvailable: undefined,
    maxAvailable: undefined,
    minLeased: undefined,
    maxLeased: undefined,
    minDelayed: undefined,
    maxDelayed: undefined,
  };
  let after: QueueStats['queue'] | undefined;
  do {
    const page = await engine.listQueues({ filter, limit: limits.listQueues, after });
    yield page.queues;
    after = page.more ? page.queues.at(-1)?.queue : undefined;
  } while (after !== undefined);
}

function figuresOf({ queue, completed: _completed, meanLeaseMs: _meanLeaseMs, ...figures }: QueueStats): QueueFigures {
  return { ...figures, queue: formatQueueName(queue) };
}

function sizeOf({ available, leased, delayed }: QueueFigures): number {
  return available + leased + delayed;
}

/** Whoever is alerted by old tasks leaves dead-letter queues out by their names, which cannot be seen in the sum. */
const ageInSum = ({ queue, oldestAgeMs }: QueueFigures): number =>
  queue !== OTHER && queue.endsWith(DEAD_LETTER_SUFFIX) ? 0 : oldestAgeMs;

function together(sum: QueueFigures | undefined, more: QueueFigures): QueueFigures {
  if (sum === undefined) return { ...more, queue: OTHER, oldestAgeMs: ageInSum(more) };
  return {
    queue: OTHER,
    available: sum.available + more.available,
    leased: sum.leased + more.leased,
    delayed: sum.delayed + more.delayed,
    oldestAgeMs: Math.max(sum.oldestAgeMs, ageInSum(more)),
    enqueueRate: sum.enqueueRate + more.enqueueRate,
    leaseRate: sum.leaseRate + more.leaseRate,
    completeRate: sum.completeRate + more.completeRate,
  };
}
