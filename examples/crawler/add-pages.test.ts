import { type LeasedTask, LeaseLostError, type Queue } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { addPages } from './add-pages.ts';
import type { CrawlShard, ExtractTask } from './queues.ts';
import { type TestCrawl, testCrawl } from './testing.ts';

const url = (number: number): string => `http://site/${number}`;
const urls = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, at) => url(from + at));
const found = (links: readonly string[], foundOn: string | null = null) => ({ links, foundOn, depth: 0 });
const oneAndSeveral = [{ shards: 1 }, { shards: 5 }];

/** Tasks available in all shards. */
async function sizes({ queues }: TestCrawl): Promise<{ fetch: number; seen: number; permits: number }> {
  const total = async (queue: (shard: CrawlShard) => Queue<unknown>): Promise<number> => {
    const stats = await Promise.all(queues.shards.map((shard) => queue(shard).stats()));
    return stats.reduce((sum, { available }) => sum + available, 0);
  };
  return {
    fetch: await total(({ fetch }) => fetch),
    seen: await total(({ seen }) => seen),
    permits: await total(({ permits }) => permits),
  };
}

/** The page is fetched; its extract task is leased. */
async function extracting({ queues }: TestCrawl, page: string): Promise<LeasedTask<ExtractTask>> {
  const { extract } = queues.of(page);
  await extract.enqueue({ url: page, contentType: 'text/html', body: '', depth: 0 }, { pid: page });
  const [task] = await extract.lease();
  if (task === undefined) throw new Error('the task is not there');
  return task;
}

test.each(oneAndSeveral)(
  'a page that was found before is not fetched again, though its task is gone: %j',
  async (of) => {
    await using crawl = await testCrawl(of);
    await addPages(crawl, found([url(1)]));
    const [task] = await crawl.client.lease({ queues: crawl.queues.stage('fetch') });
    await task?.complete();

    await addPages(crawl, found([url(1), url(2)]));

    expect(await sizes(crawl)).toMatchObject({ fetch: 1, seen: 2 });
    expect(await crawl.queues.of(url(2)).fetch.peek()).toMatchObject([{ data: { url: url(2) } }]);
  },
);

test.each(oneAndSeveral)(
  'of workers that find the same pages at the same time, each page is added by one: %j',
  async (of) => {
    await using crawl = await testCrawl(of);

    await Promise.all([
      addPages(crawl, found(urls(0, 60))),
      addPages(crawl, found(urls(30, 90))),
      addPages(crawl, found(urls(0, 90))),
    ]);

    expect(await sizes(crawl)).toMatchObject({ fetch: 90, seen: 90 });
  },
);

test.each(oneAndSeveral)('the links of a page with very many are all added: %j', async (of) => {
  await using crawl = await testCrawl(of);
  await addPages(crawl, found(urls(0, 1_500)));
  expect(await sizes(crawl)).toMatchObject({ fetch: 1_500, seen: 1_500 });
});

test('a worker that has lost its task adds nothing to its shard', async () => {
  await using crawl = await testCrawl();
  const { client, queues } = crawl;
  const task = await extracting(crawl, url(0));
  await queues.first.extract.resetLeases();
  await queues.first.extract.lease();

  const adding = addPages(crawl, found([url(1)], url(0)), () => client.update().complete(task));

  await expect(adding).rejects.toBeInstanceOf(LeaseLostError);
  expect(await sizes(crawl)).toMatchObject({ fetch: 0, seen: 0 });
});

test('a worker that dies after some shards have its links leaves a task whose repetition adds the rest', async () => {
  await using crawl = await testCrawl({ shards: 5 });
  const { client, queues } = crawl;
  const task = await extracting(crawl, url(0));
  const dying = addPages(crawl, found(urls(1, 40), url(0)), () => {
    throw new Error('dies');
  });
  await expect(dying).rejects.toThrow('dies');
  const before = await sizes(crawl);
  expect(before.fetch).toBeGreaterThan(0);
  expect(before.fetch).toBeLessThan(39);
  expect((await queues.of(url(0)).extract.stats()).leased).toBe(1);

  await addPages(crawl, found(urls(1, 40), url(0)), () => client.update().complete(task));

  expect(await sizes(crawl)).toMatchObject({ fetch: 39, seen: 39 });
  expect((await queues.of(url(0)).extract.stats()).leased).toBe(0);
});

test('there are never more pages than permits', async () => {
  await using crawl = await testCrawl({ permits: 10 });

  await addPages(crawl, found(urls(0, 4)));
  expect(await sizes(crawl)).toEqual({ fetch: 4, seen: 4, permits: 6 });

  await Promise.all([addPages(crawl, found(urls(0, 8))), addPages(crawl, found(urls(20, 40)))]);
  expect(await sizes(crawl)).toEqual({ fetch: 10, seen: 10, permits: 0 });
});
