import type { Placement } from '../cluster/placement.ts';
import type { StoredIndex } from '../index/read-index.ts';
import type { CrawlStatus } from '../progress/observe.ts';
import type { Reference } from './reference-crawl.ts';

/** A condition that must hold. */
export interface Check {
  readonly what: string;
  readonly ok: boolean;
  /** Examples that break it. */
  readonly against: readonly string[];
}

const EXAMPLES = 5;

/**
 * Checks that every page is in the index exactly once.
 *
 * @param reference result of a simple crawl. Undefined for a site that is not crawled twice.
 */
export function verify(index: StoredIndex, status: CrawlStatus, reference: Reference | undefined): Check[] {
  const { found, skipped, dead } = status;
  return [
    ...(reference === undefined ? [] : againstReference(index, status, reference)),
    check('there are pages', index.pages.size > 0 ? [] : ['the start page could not be indexed: is it there?']),
    check('no page was committed to the index twice', index.double),
    check('every page in the table of contents has its entry on disk', counted(index.dangling, 'have none')),
    check(
      'every URL that was found is indexed, leads to no page, or was given up',
      counted(found - index.indexed - skipped - dead, `of ${found} are neither`),
    ),
  ];
}

/** Checks that after all joins and drains each partition is where it belongs. */
export function verifyPlacement({ astray }: Placement): Check[] {
  return [check('every partition is served by the node that should have it', astray)];
}

function againstReference({ pages, indexed }: StoredIndex, status: CrawlStatus, reference: Reference): Check[] {
  const { found, skipped, dead } = status;
  const missing = [...reference.pages.keys()].filter((url) => !pages.has(url));
  const unexpected = [...pages.keys()].filter((url) => !reference.pages.has(url));
  const different = [...pages].filter(([url, { textHash }]) => (reference.pages.get(url) ?? textHash) !== textHash);
  return [
    check('every page of a plain sequential crawl is in the index', missing),
    check('nothing else is in the index', unexpected),
    check(
      'every page is in the index with the text it has',
      different.map(([url]) => url),
    ),
    check('as many links lead to no page', counted(skipped - reference.others.size, 'more than there are')),
    check('no task was given up', counted(dead, 'in the dead-letter queue')),
    check(
      'the nodes count as many completed tasks as there were',
      miscounted(status, { fetch: found, extract: indexed, index: indexed }),
    ),
  ];
}

function check(what: string, against: readonly string[]): Check {
  const examples = against.slice(0, EXAMPLES);
  const more = against.length - examples.length;
  return { what, ok: against.length === 0, against: more > 0 ? [...examples, `and ${more} more`] : examples };
}

function counted(difference: number, what: string): string[] {
  return difference === 0 ? [] : [`${difference} ${what}`];
}

function miscounted({ stages }: CrawlStatus, expected: Readonly<Record<string, number>>): string[] {
  return stages
    .filter(({ stage, completed }) => completed !== expected[stage])
    .map(({ stage, completed }) => `${stage}: ${completed} instead of ${expected[stage]}`);
}
