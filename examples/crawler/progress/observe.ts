import type { QueueStats, TaskMasterClient } from '@taskmaster/client';
import type { WorkerStatus } from '../cluster/worker-pool.ts';
import { type CrawlQueues, type Stage, stages } from '../queues.ts';

export interface StageStatus {
  readonly stage: Stage;
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  /** As the node counts them, across its crashes. */
  readonly completed: number;
  /** Over the last seconds. */
  readonly perSecond: number;
}

/** The crawl at one moment. */
export interface CrawlStatus {
  readonly elapsedMs: number;
  readonly stages: readonly StageStatus[];
  readonly found: number;
  readonly indexed: number;
  readonly skipped: number;
  readonly dead: number;
  /** Pages that will be indexed, if that is known. */
  readonly expected: number | undefined;
  readonly nodeAnswers: boolean;
  readonly retried: number;
  readonly workers: readonly WorkerStatus[];
}

interface ObserverOptions {
  readonly client: TaskMasterClient;
  readonly queues: CrawlQueues;
  readonly workers: () => readonly WorkerStatus[];
  readonly expected: number | undefined;
  /** In ms, monotonic. */
  readonly now: () => number;
}

/** Rates are means over so long, in ms. */
const RATE_WINDOW_MS = 3_000;
/** A node that is silent for so long is shown as down. */
const ANSWER_TIMEOUT = '1s';

/** Watches the crawl through the node's statistics of the queues, as any dashboard could. */
export class Observer {
  readonly #options: ObserverOptions;
  readonly #startedAt: number;
  readonly #history: { readonly at: number; readonly completed: readonly number[] }[] = [];
  #latest: CrawlStatus;

  constructor(options: ObserverOptions) {
    this.#options = options;
    this.#startedAt = options.now();
    this.#latest = {
      elapsedMs: 0,
      stages: stages.map((stage) => ({ stage, available: 0, leased: 0, delayed: 0, completed: 0, perSecond: 0 })),
      found: 0,
      indexed: 0,
      skipped: 0,
      dead: 0,
      expected: options.expected,
      nodeAnswers: true,
      retried: 0,
      workers: [],
    };
  }

  /** What was seen last. */
  get latest(): CrawlStatus {
    return this.#latest;
  }

  /** Looks again. Never rejects: while the node is down, its part stays as it was. */
  async look(signal?: AbortSignal): Promise<CrawlStatus> {
    const { client, queues, now } = this.#options;
    const { seen, indexed, skipped, dead } = queues;
    const asked = [...stages.map((stage) => queues[stage]), seen, indexed, skipped, dead];
    // One request: its counts are of one moment, so a page on its way from one queue to the next is in exactly one.
    const report = await client.stats({ queues: asked, timeout: ANSWER_TIMEOUT, signal }).catch(() => undefined);
    const elapsedMs = now() - this.#startedAt;
    const workers = this.#options.workers();
    const retried = workers.reduce((total, { counts }) => total + counts.retried, 0);
    if (report === undefined) {
      this.#latest = { ...this.#latest, elapsedMs, workers, retried, nodeAnswers: false };
      return this.#latest;
    }
    const statsOf = new Map(report.queues.map((stats) => [stats.queue, stats]));
    const size = (queue: { readonly name: string }): number => sizeOf(statsOf.get(queue.name));
    const completed = stages.map((stage) => statsOf.get(queues[stage].name)?.completed ?? 0);
    const rates = this.#rates(elapsedMs, completed);
    this.#latest = {
      elapsedMs,
      stages: stages.map((stage, at) => {
        const { available = 0, leased = 0, delayed = 0 } = statsOf.get(queues[stage].name) ?? {};
        return { stage, available, leased, delayed, completed: completed[at] ?? 0, perSecond: rates[at] ?? 0 };
      }),
      found: size(seen),
      indexed: size(indexed),
      skipped: size(skipped),
      dead: size(dead),
      expected: this.#options.expected,
      nodeAnswers: true,
      retried,
      workers,
    };
    return this.#latest;
  }

  #rates(at: number, completed: readonly number[]): number[] {
    this.#history.push({ at, completed });
    while (this.#history.length > 2 && at - (this.#history[1]?.at ?? at) >= RATE_WINDOW_MS) this.#history.shift();
    const from = this.#history[0];
    const seconds = (at - (from?.at ?? at)) / 1000;
    return completed.map((count, stage) => (seconds > 0 ? (count - (from?.completed[stage] ?? 0)) / seconds : 0));
  }
}

/** Nothing is left to do, and nothing is being done that could find more. */
export function isFinished({ stages: all, found, nodeAnswers }: CrawlStatus): boolean {
  return nodeAnswers && found > 0 && all.every(({ available, leased, delayed }) => available + leased + delayed === 0);
}

function sizeOf(stats: QueueStats | undefined): number {
  return stats === undefined ? 0 : stats.available + stats.leased + stats.delayed;
}
