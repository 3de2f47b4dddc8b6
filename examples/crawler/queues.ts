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
 * The queues of one crawl. They share a group, so a page moves from one to the next in one atomic update: at every
 * moment, whatever has crashed, each page that was found is in exactly one of `fetch`, `extract`, `index`, `indexed`,
 * `skipped` and `dead`. In all of them a page's PID is its URL.
 */
export interface CrawlQueues {
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
}

export function crawlQueues(client: TaskMasterClient): CrawlQueues {
  return {
    fetch: client.queue('crawler#fetch'),
    extract: client.queue('crawler#extract'),
    index: client.queue('crawler#index'),
    seen: client.queue('crawler#seen'),
    indexed: client.queue('crawler#indexed'),
    skipped: client.queue('crawler#skipped'),
    dead: client.queue('crawler#dead'),
    permits: client.queue('crawler#permits'),
  };
}

/** The queues that workers lease from, in the order of a page's way through them. */
export const stages = ['fetch', 'extract', 'index'] as const;
export type Stage = (typeof stages)[number];

/** A site that is down for a moment is asked again soon, one that is down for long is given up. */
export const fetchRetry: TaskRetryOptions = {
  maxAttempts: 10,
  backoff: { initial: '100ms', max: '5s' },
  deadLetterQueue: 'crawler#dead',
};

/** The other stages need nobody else: an attempt fails when its worker dies, or because of a page nobody can read. */
export const stageRetry: TaskRetryOptions = { maxAttempts: 5, deadLetterQueue: 'crawler#dead' };
