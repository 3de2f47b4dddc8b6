import type { Queue, QueueStats, TaskMasterClient } from '@taskmaster/client';
import type { ServerStatus } from '../cluster/servers.ts';
import type { WorkerStatus } from '../cluster/worker-pool.ts';
import { type CrawlQueues, type CrawlShard, type Stage, stages } from '../queues.ts';

export interface StageStatus {
  readonly stage: Stage;
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  /** Completed tasks by the counts of the nodes. Crashes and hand-offs do not change them. */
  readonly completed: number;
  /** Mean rate of the last seconds. */
  readonly perSecond: number;
}

/**
 * The crawl at one moment. The numbers of each shard are consistent; different shards are read at slightly different times.
 */
export interface CrawlStatus {
  readonly elapsedMs: number;
  /** Sums over all shards, like the numbers below. */
  readonly stages: readonly StageStatus[];
  readonly found: number;
  readonly indexed: number;
  readonly skipped: number;
  readonly dead: number;
  /** Number of pages that will be indexed. Undefined if it is not known. */
  readonly expected: number | undefined;
  /** Shards that did not answer. Their last numbers are used. */
  readonly silent: number;
  /** True if no task is left, and no running task can add one. */
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
  /** Monotonic time in ms. */
  readonly now: () => number;
}

interface StageCounts {
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  readonly completed: number;
}

/** Numbers that are summed over the shards. */
interface Counts {
  readonly stages: readonly StageCounts[];
  readonly found: number;
  readonly indexed: number;
  readonly skipped: number;
  readonly dead: number;
}

/** Time over which rates are averaged, in ms. */
const RATE_WINDOW_MS = 3_000;
/** Timeout of a shard, after which it counts as silent. */
const ANSWER_TIMEOUT = '500ms';

/** Counted queues that are not stages. */
const others = ['seen', 'indexed', 'skipped', 'dead'] as const;
const noCounts: StageCounts = { available: 0, leased: 0, delayed: 0, completed: 0 };
const nothing: Counts = {
  stages: stages.map(() => noCounts),
  found: 0,
  indexed: 0,
  skipped: 0,
  dead: 0,
};

/** Observes the crawl through the statistics of its queues, as a dashboard could. */
export class Observer {
  readonly #options: ObserverOptions;
  readonly #startedAt: number;
  readonly #history: { readonly at: number; readonly completed: readonly number[] }[] = [];
  readonly #completions = new Completions();
  /** The last answer of each shard. */
  readonly #heard = new Map<CrawlShard, Counts>();
  /** The sums of the last observation in which all shards answered. */
  #allHeard: Counts | undefined;
  #looking: Promise<unknown> = Promise.resolve();

  constructor(options: ObserverOptions) {
    this.#options = options;
    this.#startedAt = options.now();
  }

  /**
   * Observes the crawl again, after observations that are running. Never rejects: for a silent shard the last numbers are
   * used.
   */
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

  /** Asks all shards. Returns the number that did not answer. */
  async #askAll(shards: readonly CrawlShard[], signal: AbortSignal | undefined): Promise<number> {
    if (await this.#ask(shards, signal)) return 0;
    // If one shard does not answer, a request for several of them fails. So each is asked alone.
    const answered = await Promise.all(shards.map((shard) => this.#ask([shard], signal)));
    return answered.filter((each) => !each).length;
  }

  /** Asks in one request, so that the counts of a shard are of one moment and each page is in one of its queues. */
  async #ask(shards: readonly CrawlShard[], signal: AbortSignal | undefined): Promise<boolean> {
    const queues = shards.flatMap((shard) => [...stages, ...others].map((name): Queue<unknown> => shard[name]));
    const report = await this.#options.client.stats({ queues, timeout: ANSWER_TIMEOUT, signal }).catch(() => undefined);
    if (report === undefined) return false;
    const statsOf = new Map(report.queues.map((stats) => [stats.queue, stats]));
    const size = ({ name }: Queue<unknown>): number => sizeOf(statsOf.get(name));
    for (const shard of shards) {
      this.#heard.set(shard, {
        stages: stages.map((stage) => {
          const { name } = shard[stage];
          const { available = 0, leased = 0, delayed = 0, completed = 0 } = statsOf.get(name) ?? {};
          return { available, leased, delayed, completed: this.#completions.of(name, completed) };
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

/** Counts of completed tasks over all. A node forgets the count of a queue that is empty for a minute. */
class Completions {
  readonly #queues = new Map<string, { readonly forgotten: number; readonly last: number }>();

  of(queue: string, completed: number): number {
    const { forgotten, last } = this.#queues.get(queue) ?? { forgotten: 0, last: 0 };
    const before = completed < last ? forgotten + last : forgotten;
    this.#queues.set(queue, { forgotten: before, last: completed });
    return before + completed;
  }
}

/** Number of tasks that the crawl has completed. */
export function completedBy({ stages: all }: Pick<Counts, 'stages'>): number {
  return all.reduce((total, { completed }) => total + completed, 0);
}

/** Number of tasks that are left. */
export function openIn({ stages: all }: Pick<Counts, 'stages'>): number {
  return all.reduce((total, { available, leased, delayed }) => total + available + leased + delayed, 0);
}

/**
 * Whether no task is left, by two observations. One is not enough, because shards are read at different times: a page of the
 * second shard may send a link to the first after that was read, and be done before the second is read. But found and
 * completed counts only grow. If two observations, one after the other, show the same numbers, no task changed between them,
 * and all shards were empty at the same time.
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
