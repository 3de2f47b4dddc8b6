import { expect, test } from 'vitest';
import { addPages } from '../add-pages.ts';
import { type TestCrawl, testCrawl } from '../testing.ts';
import { completedBy, Observer } from './observe.ts';

function observerOf({ client, queues }: TestCrawl): Observer {
  let now = 0;
  const nobody = { servers: async () => [], workers: () => [], expected: undefined };
  return new Observer({ client, queues, ...nobody, now: () => now++ });
}

test('completed tasks count although the node has forgotten the figures of their queue', async () => {
  await using crawl = await testCrawl();
  const { fetch } = crawl.queues.first;
  const observer = observerOf(crawl);
  const counts: number[] = [];
  for (const round of [1, 2]) {
    await addPages(crawl, { links: [`http://site/${round}`], foundOn: null, depth: 0 });
    await (await fetch.lease())[0]?.complete();
    counts.push(completedBy(await observer.look()));
    await fetch.delete(); // as after a minute without a task
    expect((await fetch.stats()).completed).toBe(0);
    counts.push(completedBy(await observer.look()));
  }
  expect(counts).toEqual([1, 1, 2, 2]);
});

test('a crawl is finished when two looks find nothing to do, and nothing has happened between them', async () => {
  await using crawl = await testCrawl({ shards: 3 });
  const { client, queues } = crawl;
  const observer = observerOf(crawl);
  const fetchOne = async (): Promise<void> => {
    const [task] = await client.lease({ queues: queues.stage('fetch') });
    await task?.complete();
  };
  expect(await observer.look()).toMatchObject({ finished: false, found: 0 });

  await addPages(crawl, { links: ['http://site/1', 'http://site/2'], foundOn: null, depth: 0 });
  await fetchOne();
  expect(await observer.look()).toMatchObject({ finished: false, found: 2 });
  expect(await observer.look()).toMatchObject({ finished: false });

  await fetchOne();
  expect(await observer.look()).toMatchObject({ finished: false, silent: 0 });
  // The last look saw nothing to do, and this one does not either, but there was something in between.
  await addPages(crawl, { links: ['http://site/3'], foundOn: null, depth: 0 });
  await fetchOne();
  expect(await observer.look()).toMatchObject({ finished: false, found: 3 });

  expect(await observer.look()).toMatchObject({ finished: true, found: 3 });
});
