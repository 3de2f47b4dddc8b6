import { parsePage } from '../page.ts';
import { textHash } from '../stages.ts';
import { type Fetched, SiteUnavailableError, type Web } from '../web.ts';

/** What a crawl should find. */
export interface Reference {
  /** All pages with the hashes of their texts. */
  readonly pages: readonly (readonly [url: string, textHash: string])[];
  /** Links that lead to no page. */
  readonly others: readonly string[];
  /** Pages that the site can never show. */
  readonly broken: readonly string[];
}

/**
 * Crawls the plain way: one loop, one page at a time, no queues. It asks a site that does not fail by chance.
 * @param onPage called after each page with their number so far.
 */
export async function referenceCrawl(
  start: string,
  web: Web,
  signal: AbortSignal,
  onPage: (pages: number) => Promise<void>,
): Promise<Reference> {
  const pages: [string, string][] = [];
  const others: string[] = [];
  const broken: string[] = [];
  const found = new Set([start]);
  // A set is iterated in the order of insertion, with what is added meanwhile.
  for (const url of found) {
    const fetched = await fetchAgain(web, url, signal);
    if (fetched === undefined) broken.push(url);
    else if (fetched.kind === 'page') {
      const { text, links } = parsePage(fetched.page);
      pages.push([url, textHash(text)]);
      for (const link of links) found.add(link);
      await onPage(pages.length);
    } else {
      others.push(url);
      if (fetched.kind === 'redirect') found.add(fetched.to);
    }
  }
  return { pages, others, broken };
}

const ATTEMPTS = 5;

/** Undefined: the page is broken. */
async function fetchAgain(web: Web, url: string, signal: AbortSignal): Promise<Fetched | undefined> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await web.fetch(url, signal);
    } catch (error) {
      if (!(error instanceof SiteUnavailableError)) throw error;
      if (error.isBroken) return undefined;
      if (attempt === ATTEMPTS) throw error;
    }
  }
}
