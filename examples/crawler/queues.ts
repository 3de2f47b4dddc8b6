import { createHash } from 'node:crypto';
import type { Queue, TaskMasterClient, TaskRetryOptions } from '@taskmaster/client';
import type { Place } from './index/segment.ts';
import type { RawPage } from './page.ts';

/** A page to fetch. */
export interface FetchTask {
  readonly url: string;
  /** Links between the start page and this one. */
  readonly depth: number;
}

/** A page that was fetched and has to be read. */
export interface ExtractTask extends RawPage {
  readonly depth: number;
}

/** A page whose words go into the index. */
export interface IndexTask {
  readonly url: string;
  readonly title: string;
  readonly text: string;
}

/** Why a URL that was found is not in the index. */
export interface Skipped {
  readonly reason: string;
}

/** Where the index has a page. */
export interface IndexedPage {
  readonly place: Place;
  readonly worker: string;
  /** Which attempt at the index task it was; more than 1 after a crash. */
  readonly attempt: number;
}

/**
 * The queues of one shard of a crawl: of those pages whose URLs it gets. They share a group, so a page moves from one to
 * the next in one atomic update: at every moment, whatever has crashed, each page that was found is in exactly one of
 * `fetch`, `extract`, `index`, `indexed`, `skipped` and `dead`. In all of them a page's PID is its URL.
 */
export interface CrawlShard {
  /** Stages: their tasks are leased, worked on, and completed together with the enqueue of what comes next. */
  readonly fetch: Queue<FetchTask>;
  readonly extract: Queue<ExtractTask>;
  readonly index: Queue<IndexTask>;
  /**
   * Every URL that was ever found, once; nobody leases these tasks. A fetch task alone would not keep its page from
   * being fetched again, since it is gone once it is done. So a link enters `fetch` only together with its URL entering
   * `seen`, which refuses a URL that it has (`mode: 'fail'`) and with it the whole update.
   */
  readonly seen: Queue<{ readonly foundOn: string | null }>;
  /** The index's table of contents: a page is in the index when, and because, it is in this queue. */
  readonly indexed: Queue<IndexedPage>;
  /** Links that led to no page, redirects, and what is not text. */
  readonly skipped: Queue<Skipped>;
  /** Tasks of any stage that failed too often. */
  readonly dead: Queue<unknown>;
  /** With a bound of pages: one task for each page that may still be found. See `addPages`. */
  readonly permits: Queue<null>;
  /** A site that is down for a moment is asked again soon, one that is down for long is given up. */
  readonly fetchRetry: TaskRetryOptions;
  /** The other stages need nobody else: an attempt fails when its worker dies, or because of a page nobody can read. */
  readonly stageRetry: TaskRetryOptions;
}

/** The queues that workers lease from, in the order of a page's way through them. */
export const stages = ['fetch', 'extract', 'index'] as const;
export type Stage = (typeof stages)[number];

/**
 * The shards that a crawl is divided into on a cluster. A group is on one node, so a crawl in one group would be on one
 * node; with several times as many groups as nodes, each node has some of them, and they move one by one.
 */
export const CLUSTER_SHARDS = 16;

/**
 * The queues of a crawl, in groups `crawler-00`, `crawler-01`, ...; a crawl of one shard is in the group `crawler`. All of
 * a page's queues are in the shard of its URL.
 */
export class CrawlQueues {
  readonly shards: readonly CrawlShard[];

  /** @param shards how many; the same in every process of a crawl, since they decide where a page is. */
  constructor(client: TaskMasterClient, shards: number) {
    this.shards = Array.from({ length: shards }, (_, at) => crawlShard(client, groupName(at, shards)));
  }

  /** The shard of a page. */
  of(url: string): CrawlShard {
    // Any hash does that all processes compute alike.
    const at = createHash('sha256').update(url).digest().readUInt32BE() % this.shards.length;
    return this.shards[at] ?? this.first;
  }

  /** The only one, in a crawl of one shard. */
  get first(): CrawlShard {
    const [first] = this.shards;
    if (first === undefined) throw new TypeError('a crawl has at least one shard');
    return first;
  }

  /** A stage's queues. Workers lease from all of them at once, wherever they are. */
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
    permits: client.queue(`${group}#permits`),
    fetchRetry: { maxAttempts: 10, backoff: { initial: '100ms', max: '5s' }, deadLetterQueue },
    stageRetry: { maxAttempts: 5, deadLetterQueue },
  };
}
