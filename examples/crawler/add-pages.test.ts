import { LeaseLost } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { addPages } from './add-pages.ts';
import { type TestCrawl, testCrawl } from './testing.ts';

const url = (number: number): string => `http://site/${number}`;
const urls = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, at) => url(from + at));
const found = (links: readonly string[]) => ({ links, foundOn: null, depth: 0 });

async function sizes({ queues }: TestCrawl): Promise<{ fetch: number; seen: number; permits: number }> {
  const [fetch, seen, permits] = await Promise.all([queues.fetch.stats(), queues.seen.stats(), queues.permits.stats()]);
  return { fetch: fetch.available, seen: seen.available, permits: permits.available };
}

test('a page that was found before is not fetched again, though its task is gone', async () => {
  await using crawl = await testCrawl();
  await addPages(crawl, found([url(1)]));
  const [task] = await crawl.queues.fetch.lease();
  await task?.complete();

  await addPages(crawl, found([url(1), url(2)]));

  expect(await sizes(crawl)).toMatchObject({ fetch: 1, seen: 2 });
  expect(await crawl.queues.fetch.peek()).toMatchObject([{ data: { url: url(2) } }]);
});

test('of workers that find the same pages at the same time, each page is added by one', async () => {
  await using crawl = await testCrawl();

  await Promise.all([
    addPages(crawl, found(urls(0, 60))),
    addPages(crawl, found(urls(30, 90))),
    addPages(crawl, found(urls(0, 90))),
  ]);

  expect(await sizes(crawl)).toMatchObject({ fetch: 90, seen: 90 });
});

test('the links of a page with very many are all added', async () => {
  await using crawl = await testCrawl();
  await addPages(crawl, found(urls(0, 1_500)));
  expect(await sizes(crawl)).toMatchObject({ fetch: 1_500, seen: 1_500 });
});

test('a worker that has lost its task adds nothing', async () => {
  await using crawl = await testCrawl();
  const { client, queues } = crawl;
  await queues.extract.enqueue({ url: url(0), contentType: 'text/html', body: '', depth: 0 }, { pid: url(0) });
  const [task] = await queues.extract.lease();
  await queues.extract.resetLeases();
  await queues.extract.lease();

  const adding = addPages(crawl, found([url(1)]), () => (task ? client.update().complete(task) : client.update()));

  await expect(adding).rejects.toBeInstanceOf(LeaseLost);
  expect(await sizes(crawl)).toMatchObject({ fetch: 0, seen: 0 });
});

test('there are never more pages than permits', async () => {
  await using crawl = await testCrawl({ permits: 10 });

  await addPages(crawl, found(urls(0, 4)));
  expect(await sizes(crawl)).toEqual({ fetch: 4, seen: 4, permits: 6 });

  await Promise.all([addPages(crawl, found(urls(0, 8))), addPages(crawl, found(urls(20, 40)))]);
  expect(await sizes(crawl)).toEqual({ fetch: 10, seen: 10, permits: 0 });
});
