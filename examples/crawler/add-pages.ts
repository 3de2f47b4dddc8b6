import { type LeasedTask, TaskExists, type TaskMasterClient, type Update } from '@taskmaster/client';
import { type CrawlQueues, fetchRetry } from './queues.ts';

export interface CrawlContext {
  readonly client: TaskMasterClient;
  readonly queues: CrawlQueues;
  /** Whether `crawler#permits` bounds how many pages may be found. */
  readonly bounded: boolean;
}

export interface FoundLinks {
  readonly links: readonly string[];
  /** URL of the page that has them; null: these are where the crawl starts. */
  readonly foundOn: string | null;
  readonly depth: number;
}

/** Links added by one update. A page with more of them needs several. */
const LINKS_PER_UPDATE = 400;
/** Long enough to commit with; a worker that dies meanwhile keeps its permits from others for so long. */
const PERMIT_LEASE = '10s';

/**
 * Adds those links that nobody has found before to the pages to fetch, in one atomic update with whatever `begin` has
 * put into it: usually the completion of the task whose page has the links.
 *
 * Whether a link is new is asked first, and claimed by the update itself: each enqueue to `seen` fails, and with it the
 * whole update, if the URL is there. The error names the URLs that others have claimed in between; the update is tried
 * again without them, and since `seen` only grows, that ends. So of all workers that find a page, exactly one adds it,
 * once for the whole crawl, whoever is killed at whatever moment.
 *
 * @param begin makes the update anew for every try; without it, nothing but links is added.
 */
export async function addPages(context: CrawlContext, found: FoundLinks, begin?: () => Update): Promise<void> {
  const fresh = await unseen(context.queues, found.links);
  // The links of all updates but the last are added on their own: repeating them, should we die, finds them seen.
  for (; fresh.length > LINKS_PER_UPDATE; fresh.splice(0, LINKS_PER_UPDATE)) {
    await claim(context, found, fresh.slice(0, LINKS_PER_UPDATE), undefined);
  }
  await claim(context, found, fresh, begin);
}

async function unseen({ seen }: CrawlQueues, links: readonly string[]): Promise<string[]> {
  const fresh: string[] = [];
  for (let at = 0; at < links.length; at += LINKS_PER_UPDATE) {
    for (const { pid, state } of await seen.get(links.slice(at, at + LINKS_PER_UPDATE), { data: false })) {
      if (state === 'not-found') fresh.push(textOf(pid));
    }
  }
  return fresh;
}

async function claim(
  context: CrawlContext,
  found: FoundLinks,
  links: readonly string[],
  begin: (() => Update) | undefined,
): Promise<void> {
  const permits = context.bounded ? await takePermits(context.queues, links.length) : undefined;
  let wanted = links.slice(0, permits?.length);
  while (begin !== undefined || wanted.length > 0) {
    try {
      await commit(context, found, wanted, permits, begin?.() ?? context.client.update());
      break;
    } catch (error) {
      if (!(error instanceof TaskExists)) throw error;
      const taken = new Set(error.items.map(({ pid }) => textOf(pid)));
      const left = wanted.filter((url) => !taken.has(url));
      if (left.length === wanted.length) throw error;
      wanted = left;
    }
  }
  await Promise.all((permits ?? []).slice(wanted.length).map((permit) => permit.release({ refundAttempt: true })));
}

async function commit(
  { queues }: CrawlContext,
  { foundOn, depth }: FoundLinks,
  links: readonly string[],
  permits: readonly LeasedTask<null>[] | undefined,
  update: Update,
): Promise<void> {
  for (const [at, url] of links.entries()) {
    update.enqueue(queues.seen, { foundOn }, { pid: url, mode: 'fail' });
    update.enqueue(queues.fetch, { url, depth }, { pid: url, mode: 'fail', retry: fetchRetry });
    const permit = permits?.[at];
    if (permit !== undefined) update.complete(permit);
  }
  await update.commit();
}

/**
 * A queue as a counting semaphore: it holds one task for each page that may still be found, and a page is added in the
 * same update that completes one of them. So there are never more pages than allowed; there may be a few less, when a
 * page's last links were left out while somebody else held permits that it gave back.
 */
async function takePermits({ permits }: CrawlQueues, count: number): Promise<LeasedTask<null>[]> {
  return count === 0 ? [] : permits.lease({ max: count, for: PERMIT_LEASE });
}

function textOf(pid: Uint8Array): string {
  return Buffer.from(pid).toString('utf8');
}
