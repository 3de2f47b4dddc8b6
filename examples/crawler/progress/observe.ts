import type { Queue, QueueStats, TaskMasterClient } from '@taskmaster/client';
import type { ServerStatus } from '../cluster/servers.ts';
import type { WorkerStatus } from '../cluster/worker-pool.ts';
import { type CrawlQueues, type CrawlShard, type Stage, stages } from '../queues.ts';

export interface StageStatus {
  readonly stage: Stage;
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  /** As the nodes count them, across their crashes and across moves from one to another. */
  readonly completed: number;
  /** Over the last seconds. */
  readonly perSecond: number;
}

/** The crawl at one moment, or nearly so: each shard's numbers are of one moment. */
export interface CrawlStatus {
  readonly elapsedMs: number;
  /** Over all shards, as are the numbers below. */
  readonly stages: readonly StageStatus[];
  readonly found: number;
  readonly indexed: number;
  readonly skipped: number;
  readonly dead: number;
  /** Pages that will be indexed, if that is known. */
  readonly expected: number | undefined;
  /** Shards that did not answer: their numbers are as they were. */
  readonly silent: number;
  /** Nothing is left to do, nor is anything being done that could find more. */
  readonly finished: boolean;
  readonly retried: number;
  readonly servers: readonly ServerStatus[];
  readonly workers: readonly WorkerStatus[];
}

interface ObserverOptions {
  readonly client: TaskMasterClient;
  readonly queues: CrawlQueues;
  readonly servers: (signal: AbortSignal | undefined) => Promise<readonly ServerStatus[]>;
  readonly workers: () => readonly WorkerStatus[];
  readonly expected: number | undefined;
  /** In ms, monotonic. */
  readonly now: () => number;
}

interface StageCounts {
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  readonly completed: number;
}

/** What is added up over the shards. */
interface Counts {
  readonly stages: readonly StageCounts[];
  readonly found: number;
  readonly indexed: number;
  readonly skipped: number;
  readonly dead: number;
}

/** Rates are means over so long, in ms. */
const RATE_WINDOW_MS = 3_000;
/** A shard that is silent for so long is shown as such. */
const ANSWER_TIMEOUT = '500ms';

/** The queues that are counted besides those of the stages. */
const others = ['seen', 'indexed', 'skipped', 'dead'] as const;
const noCounts: StageCounts = { available: 0, leased: 0, delayed: 0, completed: 0 };
const nothing: Counts = {
  stages: stages.map(() => noCounts),
  found: 0,
  indexed: 0,
  skipped: 0,
  dead: 0,
};

/** Watches the crawl through the statistics of its queues, as any dashboard could. */
export class Observer {
  readonly #options: ObserverOptions;
  readonly #startedAt: number;
  readonly #history: { readonly at: number; readonly completed: readonly number[] }[] = [];
  /** What each shard said last. */
  readonly #heard = new Map<CrawlShard, Counts>();
  /** What all shards said, if the last look heard from all. */
  #allHeard: Counts | undefined;
  #looking: Promise<unknown> = Promise.resolve();

  constructor(options: ObserverOptions) {
    this.#options = options;
    this.#startedAt = options.now();
  }

  /** Looks again, after the looks that are under way. Never rejects: the numbers of a silent shard stay as they were. */
  look(signal?: AbortSignal): Promise<CrawlStatus> {
    const look = this.#looking.then(() => this.#look(signal));
    this.#looking = look;
    return look;
  }

  async #look(signal: AbortSignal | undefined): Promise<CrawlStatus> {
    const { queues, servers: serversNow, workers: workersNow, expected, now } = this.#options;
    const [servers, silent] = await Promise.all([serversNow(signal), this.#askAll(queues.shards, signal)]);
    const counts = [...this.#heard.values()].reduce(sum, nothing);
    const elapsedMs = now() - this.#startedAt;
    const rates = this.#rates(
      elapsedMs,
      counts.stages.map(({ completed }) => completed),
    );
    const workers = workersNow();
    const earlier = this.#allHeard;
    this.#allHeard = silent === 0 ? counts : undefined;
    return {
      ...counts,
      elapsedMs,
      stages: stages.map((stage, at) => ({ stage, ...stageAt(counts, at), perSecond: rates[at] ?? 0 })),
      expected,
      silent,
      finished: silent === 0 && earlier !== undefined && isStill(earlier, counts),
      retried: workers.reduce((total, worker) => total + worker.counts.retried, 0),
      servers,
      workers,
    };
  }

  /** How many did not answer. */
  async #askAll(shards: readonly CrawlShard[], signal: AbortSignal | undefined): Promise<number> {
    if (await this.#ask(shards, signal)) return 0;
    // One that does not answer has the others' answer fail, too.
    const answered = await Promise.all(shards.map((shard) => this.#ask([shard], signal)));
    return answered.filter((each) => !each).length;
  }

  /** Asks in one request: a shard's counts are of one moment, so a page on its way between its queues is in just one. */
  async #ask(shards: readonly CrawlShard[], signal: AbortSignal | undefined): Promise<boolean> {
    const queues = shards.flatMap((shard) => [...stages, ...others].map((name): Queue<unknown> => shard[name]));
    const report = await this.#options.client.stats({ queues, timeout: ANSWER_TIMEOUT, signal }).catch(() => undefined);
    if (report === undefined) return false;
    const statsOf = new Map(report.queues.map((stats) => [stats.queue, stats]));
    const size = ({ name }: Queue<unknown>): number => sizeOf(statsOf.get(name));
    for (const shard of shards) {
      this.#heard.set(shard, {
        stages: stages.map((stage) => {
          const { available = 0, leased = 0, delayed = 0, completed = 0 } = statsOf.get(shard[stage].name) ?? {};
          return { available, leased, delayed, completed };
        }),
        found: size(shard.seen),
        indexed: size(shard.indexed),
        skipped: size(shard.skipped),
        dead: size(shard.dead),
      });
    }
    return true;
  }

  #rates(at: number, completed: readonly number[]): number[] {
    this.#history.push({ at, completed });
    while (this.#history.length > 2 && at - (this.#history[1]?.at ?? at) >= RATE_WINDOW_MS) this.#history.shift();
    const from = this.#history[0];
    const seconds = (at - (from?.at ?? at)) / 1000;
    return completed.map((count, stage) => (seconds > 0 ? (count - (from?.completed[stage] ?? 0)) / seconds : 0));
  }
}

/** Tasks that the crawl has completed. */
export function completedBy({ stages: all }: Pick<Counts, 'stages'>): number {
  return all.reduce((total, { completed }) => total + completed, 0);
}

/** Tasks that are left to do. */
export function openIn({ stages: all }: Pick<Counts, 'stages'>): number {
  return all.reduce((total, { available, leased, delayed }) => total + available + leased + delayed, 0);
}

/**
 * Whether nothing is left to do, seen twice. Once is not enough: shards are not seen at the same moment, so the first may
 * have been empty before a page of the second sent a link to it, and the second after that page was done. But what is
 * found and completed only grows. If a second look, begun after the first had ended, shows the same numbers, nothing has
 * happened between them, and all shards were empty at once.
 */
function isStill(earlier: Counts, now: Counts): boolean {
  return (
    now.found > 0 &&
    openIn(earlier) === 0 &&
    openIn(now) === 0 &&
    now.found === earlier.found &&
    completedBy(now) === completedBy(earlier)
  );
}

function sum(a: Counts, b: Counts): Counts {
  return {
    stages: stages.map((_, at) => {
      const [one, other] = [stageAt(a, at), stageAt(b, at)];
      return {
        available: one.available + other.available,
        leased: one.leased + other.leased,
        delayed: one.delayed + other.delayed,
        completed: one.completed + other.completed,
      };
    }),
    found: a.found + b.found,
    indexed: a.indexed + b.indexed,
    skipped: a.skipped + b.skipped,
    dead: a.dead + b.dead,
  };
}

function stageAt(counts: Counts, at: number): StageCounts {
  return counts.stages[at] ?? noCounts;
}

function sizeOf(stats: QueueStats | undefined): number {
  return stats === undefined ? 0 : stats.available + stats.leased + stats.delayed;
}
