import { type LeasedTask, TaskExistsError, type TaskMasterClient, type Update } from '@taskmaster/client';
import type { CrawlQueues, CrawlShard } from './queues.ts';

export interface CrawlContext {
  readonly client: TaskMasterClient;
  readonly queues: CrawlQueues;
  /** Whether `crawler#permits` bounds how many pages may be found; then there is one shard. */
  readonly bounded: boolean;
  /**
   * URLs that are known to be in `seen`. Nothing is ever taken out of it, so what was there once need not be asked for
   * again; most links of a page lead to where others led before.
   */
  readonly known: Set<string>;
}

export interface FoundLinks {
  readonly links: readonly string[];
  /** URL of the page that has them; null: these are where the crawl starts. */
  readonly foundOn: string | null;
  readonly depth: number;
}

/** Links added by one update. A shard's part of a page with more of them needs several. */
const LINKS_PER_UPDATE = 400;
/** More of them are forgotten, which costs nothing but questions. */
const MAX_KNOWN = 100_000;
/** Long enough to commit with; a worker that dies meanwhile keeps its permits from others for so long. */
const PERMIT_LEASE = '10s';

/**
 * Adds those links that nobody has found before to the pages to fetch, and then completes the task whose page has them.
 *
 * Within a shard, whether a link is new is asked first, and claimed by the update itself: each enqueue to `seen` fails,
 * and with it the whole update, if the URL is there. The error names the URLs that others have claimed in between; the
 * update is tried again without them, and since `seen` only grows, that ends. So of all workers that find a page, exactly
 * one adds it, once for the whole crawl, whoever is killed at whatever moment.
 *
 * No update reaches over several shards, so the links of other shards are added before, on their own, and `begin`'s update
 * comes last, with the links of the page's own shard. That loses and doubles nothing: who dies in between has not
 * completed the task, so somebody else adds all links again, and what has been added already is found seen.
 *
 * @param begin makes the update that completes the task, anew for every try: of the shard of `foundOn`. Without it,
 * nothing but links is added.
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
  // The links of all updates but the last are added on their own, as those of other shards are.
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
 * A queue as a counting semaphore: it holds one task for each page that may still be found, and a page is added in the
 * same update that completes one of them. So there are never more pages than allowed; there may be a few less, when a
 * page's last links were left out while somebody else held permits that it gave back. It takes one update to do both, so
 * a bounded crawl has one shard.
 */
async function takePermits({ permits }: CrawlShard, count: number): Promise<LeasedTask<null>[]> {
  return count === 0 ? [] : permits.lease({ max: count, leaseDuration: PERMIT_LEASE });
}

function textOf(pid: Uint8Array): string {
  return Buffer.from(pid).toString('utf8');
}
