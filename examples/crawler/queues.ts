import { createHash } from 'node:crypto';
import type { Queue, TaskMasterClient, TaskRetryOptions } from '@taskmaster/client';
import type { Place } from './index/segment.ts';
import type { RawPage } from './page.ts';

/** A page to fetch. */
export interface FetchTask {
  readonly url: string;
  /** Number of links between the start page and this one. */
  readonly depth: number;
}

/** A fetched page to parse. */
export interface ExtractTask extends RawPage {
  readonly depth: number;
}

/** A page to index. */
export interface IndexTask {
  readonly url: string;
  readonly title: string;
  readonly text: string;
}

/** A site to crawl once more. Its task takes seconds, and says how far it is. */
export interface AuditTask {
  readonly start: string;
  /** Where the reference is written: it is too large for a result. */
  readonly file: string;
}

/** Why a URL is not in the index. */
export interface Skipped {
  readonly reason: string;
}

/** The place of a page in the index. */
export interface IndexedPage {
  readonly place: Place;
  readonly worker: string;
  /** Number of the attempt of the index task. It is more than 1 after a crash. */
  readonly attempt: number;
}

/**
 * The queues of one shard of a crawl. Each URL belongs to one shard. The queues share a group, so a page moves from one to
 * the next in one atomic update. At every moment, also after crashes, each found page is in exactly one of `fetch`,
 * `extract`, `index`, `indexed`, `skipped` and `dead`. Its PID is its URL in all of them.
 */
export interface CrawlShard {
  /** The stages. A task is completed in the same update that enqueues the task of the next stage. */
  readonly fetch: Queue<FetchTask>;
  readonly extract: Queue<ExtractTask>;
  readonly index: Queue<IndexTask>;
  /**
   * Every URL that was found. These tasks are never leased. A task in `fetch` disappears when it is completed, so it cannot
   * prevent that the page is fetched again. So one update adds a link to `fetch` and its URL to `seen`. `seen` refuses a
   * known URL (`mode: 'fail'`), and then the whole update.
   */
  readonly seen: Queue<{ readonly foundOn: string | null }>;
  /** The table of contents of the index. A page is in the index if and only if it is in this queue. */
  readonly indexed: Queue<IndexedPage>;
  /** Links that lead to no page, redirects, and documents that are not text. */
  readonly skipped: Queue<Skipped>;
  /** Tasks of any stage that failed too often. */
  readonly dead: Queue<unknown>;
  /** Only in the first shard: one task for each run of the schedule. See `reportStage`. */
  readonly reports: Queue<null>;
  /** The reports that were written. The PID tells the instant of the run. */
  readonly reported: Queue<{ readonly indexed: number }>;
  /** Only in the first shard: a crawl of the whole site to compare with. */
  readonly audits: Queue<AuditTask>;
  /** For a limited crawl: one task for each page that may still be found. See `addPages`. */
  readonly permits: Queue<null>;
  /** A site that is down for a moment is asked again soon. After many attempts the page is given up. */
  readonly fetchRetry: TaskRetryOptions;
  /** An attempt of the other stages fails only if its worker dies or the page cannot be parsed. */
  readonly stageRetry: TaskRetryOptions;
}

/** The queues that workers lease from, in the order in which a page passes through them. */
export const stages = ['fetch', 'extract', 'index'] as const;
export type Stage = (typeof stages)[number];

/**
 * Number of shards of a crawl on a cluster. A group is on one node, so one group would use one node. With several groups for
 * each node, all nodes have work, and groups move one by one.
 */
export const CLUSTER_SHARDS = 16;

/**
 * The queues of a crawl, in the groups `crawler-00`, `crawler-01` and so on. A crawl with one shard uses the group
 * `crawler`. All queues of a page are in the shard of its URL.
 */
export class CrawlQueues {
  readonly shards: readonly CrawlShard[];

  /** @param shards number of shards. It must be the same in every process of a crawl, because it decides where a page is. */
  constructor(client: TaskMasterClient, shards: number) {
    this.shards = Array.from({ length: shards }, (_, at) => crawlShard(client, groupName(at, shards)));
  }

  /** The shard of a page. */
  of(url: string): CrawlShard {
    // Any hash works if all processes compute the same.
    const at = createHash('sha256').update(url).digest().readUInt32BE() % this.shards.length;
    return this.shards[at] ?? this.first;
  }

  /** The first shard; the only one of a limited crawl. */
  get first(): CrawlShard {
    const [first] = this.shards;
    if (first === undefined) throw new TypeError('a crawl has at least one shard');
    return first;
  }

  /** The queues of a stage. Workers lease from all of them, whichever nodes hold them. */
  stage<Name extends Stage>(stage: Name): readonly CrawlShard[Name][] {
    return this.shards.map((shard) => shard[stage]);
  }
}

function groupName(at: number, shards: number): string {
  return shards === 1 ? 'crawler' : `crawler-${String(at).padStart(2, '0')}`;
}

function crawlShard(client: TaskMasterClient, group: string): CrawlShard {
  const deadLetterQueue = `${group}#dead`;
  return {
    fetch: client.queue(`${group}#fetch`),
    extract: client.queue(`${group}#extract`),
    index: client.queue(`${group}#index`),
    seen: client.queue(`${group}#seen`),
    indexed: client.queue(`${group}#indexed`),
    skipped: client.queue(`${group}#skipped`),
    dead: client.queue(deadLetterQueue),
    reports: client.queue(`${group}#reports`),
    reported: client.queue(`${group}#reported`),
    audits: client.queue(`${group}#audits`),
    permits: client.queue(`${group}#permits`),
    fetchRetry: { maxAttempts: 10, backoff: { initial: '100ms', max: '5s' }, deadLetterQueue },
    stageRetry: { maxAttempts: 5, deadLetterQueue },
  };
}
