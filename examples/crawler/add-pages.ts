import { type LeasedTask, TaskExistsError, type TaskMasterClient, type Update } from '@taskmaster/client';
import type { CrawlQueues, CrawlShard } from './queues.ts';

export interface CrawlContext {
  readonly client: TaskMasterClient;
  readonly queues: CrawlQueues;
  /** Whether `crawler#permits` limits the number of pages. A limited crawl has one shard. */
  readonly bounded: boolean;
  /**
   * URLs that are known to be in `seen`. No URL leaves `seen`, so they need not be looked up again. Most links lead to known
   * pages.
   */
  readonly known: Set<string>;
}

export interface FoundLinks {
  readonly links: readonly string[];
  /** URL of the page with the links. Null for the start of the crawl. */
  readonly foundOn: string | null;
  readonly depth: number;
}

/** Links in one update. More links of one shard need several updates. */
const LINKS_PER_UPDATE = 400;
/** When the set is larger it is cleared. Then URLs are only looked up again. */
const MAX_KNOWN = 100_000;
/** Enough for a commit. If a worker dies, other workers get its permits after this time. */
const PERMIT_LEASE = '10s';

/**
 * Adds the links that are new to the pages to fetch, then completes the task of the page.
 *
 * Within a shard, `seen` is read first to learn which links are new. The update itself claims them: each enqueue to `seen`
 * fails if the URL is there, and then the whole update fails. The error names the URLs that other workers have claimed
 * since. The update is repeated without them. `seen` only grows, so this ends. So exactly one of all workers that find a
 * page adds it, once in the whole crawl, whatever crashes.
 *
 * An update cannot change several shards. So the links of other shards are added first, in their own updates. The update of
 * `begin` comes last, with the links of the page's own shard. A worker that dies before it has not completed the task.
 * Another worker then adds all links again, and finds in `seen` those that were added before.
 *
 * @param begin makes the update that completes the task, again for each attempt. It is in the shard of `foundOn`. Without it
 * only links are added.
 */
export async function addPages(context: CrawlContext, found: FoundLinks, begin?: () => Update): Promise<void> {
  const { queues } = context;
  const home = found.foundOn === null ? undefined : queues.of(found.foundOn);
  const fresh = await unseen(context, found.links);
  const elsewhere = [...fresh].filter(([shard]) => shard !== home);
  await Promise.all(elsewhere.map(([shard, links]) => addToShard(context, shard, found, links)));
  if (home !== undefined) await addToShard(context, home, found, fresh.get(home) ?? [], begin);
}

/** The links that are not in `seen`, by shard. */
async function unseen(
  { queues, known }: CrawlContext,
  links: readonly string[],
): Promise<Map<CrawlShard, readonly string[]>> {
  const byShard = Map.groupBy(
    links.filter((url) => !known.has(url)),
    (url) => queues.of(url),
  );
  const fresh = [...byShard].map(async ([shard, asked]) => {
    const found = await chunked(asked, (some) => shard.seen.get(some, { data: false }));
    for (const { pid, state } of found) if (state !== 'not-found') remember(known, textOf(pid));
    return [shard, found.filter(({ state }) => state === 'not-found').map(({ pid }) => textOf(pid))] as const;
  });
  return new Map(await Promise.all(fresh));
}

async function addToShard(
  context: CrawlContext,
  shard: CrawlShard,
  found: FoundLinks,
  links: readonly string[],
  begin?: () => Update,
): Promise<void> {
  let at = 0;
  // All updates except the last one contain only links, like those of other shards.
  for (; links.length - at > LINKS_PER_UPDATE; at += LINKS_PER_UPDATE) {
    await claim(context, shard, found, links.slice(at, at + LINKS_PER_UPDATE), undefined);
  }
  await claim(context, shard, found, links.slice(at), begin);
}

async function chunked<Item, Result>(
  items: readonly Item[],
  ask: (some: readonly Item[]) => Promise<readonly Result[]>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let at = 0; at < items.length; at += LINKS_PER_UPDATE) {
    results.push(...(await ask(items.slice(at, at + LINKS_PER_UPDATE))));
  }
  return results;
}

function remember(known: Set<string>, url: string): void {
  if (known.size >= MAX_KNOWN) known.clear();
  known.add(url);
}

async function claim(
  context: CrawlContext,
  shard: CrawlShard,
  found: FoundLinks,
  links: readonly string[],
  begin: (() => Update) | undefined,
): Promise<void> {
  const permits = context.bounded ? await takePermits(shard, links.length) : undefined;
  let wanted = links.slice(0, permits?.length);
  while (begin !== undefined || wanted.length > 0) {
    try {
      await commit(shard, found, wanted, permits, begin?.() ?? context.client.update());
      for (const url of wanted) remember(context.known, url);
      break;
    } catch (error) {
      if (!(error instanceof TaskExistsError)) throw error;
      const taken = new Set(error.items.map(({ pid }) => textOf(pid)));
      const left = wanted.filter((url) => !taken.has(url));
      if (left.length === wanted.length) throw error;
      wanted = left;
    }
  }
  await Promise.all((permits ?? []).slice(wanted.length).map((permit) => permit.release({ refundAttempt: true })));
}

async function commit(
  { seen, fetch, fetchRetry }: CrawlShard,
  { foundOn, depth }: FoundLinks,
  links: readonly string[],
  permits: readonly LeasedTask<null>[] | undefined,
  update: Update,
): Promise<void> {
  for (const [at, url] of links.entries()) {
    update.enqueue(seen, { foundOn }, { pid: url, mode: 'fail' });
    update.enqueue(fetch, { url, depth }, { pid: url, mode: 'fail', retry: fetchRetry });
    const permit = permits?.[at];
    if (permit !== undefined) update.complete(permit);
  }
  await update.commit();
}

/**
 * A queue as a counting semaphore. It has one task for each page that may still be found. The update that adds a page
 * completes one of these tasks, so there are never more pages than allowed. There may be a few less: links are left out
 * while other workers hold permits that they release later. One update does both, so a limited crawl has one shard.
 */
async function takePermits({ permits }: CrawlShard, count: number): Promise<LeasedTask<null>[]> {
  return count === 0 ? [] : permits.lease({ max: count, leaseDuration: PERMIT_LEASE });
}

function textOf(pid: Uint8Array): string {
  return Buffer.from(pid).toString('utf8');
}
