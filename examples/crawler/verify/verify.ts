import type { Placement } from '../cluster/placement.ts';
import type { StoredIndex } from '../index/read-index.ts';
import type { CrawlStatus } from '../progress/observe.ts';
import { type Check, check } from './check.ts';
import type { Reference } from './reference-crawl.ts';

/** A page whose task is a dead letter, and why. */
export interface GivenUp {
  readonly url: string;
  readonly attempts: number;
  readonly error: string;
}

/**
 * Checks that every page is in the index exactly once.
 *
 * @param reference result of a simple crawl. Undefined for a site that is not crawled twice.
 */
export function verify(
  index: StoredIndex,
  status: CrawlStatus,
  givenUp: readonly GivenUp[],
  reference: Reference | undefined,
): Check[] {
  const { found, skipped, dead } = status;
  return [
    ...(reference === undefined ? [] : againstReference(index, status, givenUp, reference)),
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

function againstReference(
  { pages, indexed }: StoredIndex,
  status: CrawlStatus,
  givenUp: readonly GivenUp[],
  reference: Reference,
): Check[] {
  const { found, skipped, dead } = status;
  const hashes = new Map(reference.pages);
  const missing = [...hashes.keys()].filter((url) => !pages.has(url));
  const unexpected = [...pages.keys()].filter((url) => !hashes.has(url));
  const different = [...pages].filter(([url, { textHash }]) => (hashes.get(url) ?? textHash) !== textHash);
  const lost = givenUp.filter(({ url, error }) => !reference.broken.includes(url) || !error.includes('status 500'));
  return [
    check('every page of a plain sequential crawl is in the index', missing),
    check('nothing else is in the index', unexpected),
    check(
      'every page is in the index with the text it has',
      different.map(([url]) => url),
    ),
    check('as many links lead to no page', counted(skipped - reference.others.length, 'more than there are')),
    check('the pages that the site can never show were given up, and no others', [
      ...lost.map(({ url, error }) => `${url}: ${error}`),
      ...counted(reference.broken.length - dead, 'broken pages more than dead letters'),
    ]),
    check(
      'the nodes count as many completed tasks as there were',
      miscounted(status, { fetch: found - dead, extract: indexed, index: indexed }),
    ),
  ];
}

function counted(difference: number, what: string): string[] {
  return difference === 0 ? [] : [`${difference} ${what}`];
}

function miscounted({ stages }: CrawlStatus, expected: Readonly<Record<string, number>>): string[] {
  return stages
    .filter(({ stage, completed }) => completed !== expected[stage])
    .map(({ stage, completed }) => `${stage}: ${completed} instead of ${expected[stage]}`);
}
