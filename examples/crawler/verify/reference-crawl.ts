import { parsePage } from '../page.ts';
import { textHash } from '../stages.ts';
import { SiteUnavailableError, type Web } from '../web.ts';

/** What a crawl should find. */
export interface Reference {
  /** Hashes of the texts of all pages, by URL. */
  readonly pages: ReadonlyMap<string, string>;
  /** Links that lead to no page. */
  readonly others: ReadonlySet<string>;
}

/** Crawls the plain way: one loop, one page at a time, no queues. It asks a site that never fails. */
export async function referenceCrawl(start: string, web: Web, signal: AbortSignal): Promise<Reference> {
  const pages = new Map<string, string>();
  const others = new Set<string>();
  const found = new Set([start]);
  // A set is iterated in the order of insertion, with what is added meanwhile.
  for (const url of found) {
    const fetched = await fetchAgain(web, url, signal);
    if (fetched.kind === 'page') {
      const { text, links } = parsePage(fetched.page);
      pages.set(url, textHash(text));
      for (const link of links) found.add(link);
    } else {
      others.add(url);
      if (fetched.kind === 'redirect') found.add(fetched.to);
    }
  }
  return { pages, others };
}

const ATTEMPTS = 5;

async function fetchAgain(web: Web, url: string, signal: AbortSignal): ReturnType<Web['fetch']> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await web.fetch(url, signal);
    } catch (error) {
      if (!(error instanceof SiteUnavailableError) || attempt === ATTEMPTS) throw error;
    }
  }
}
