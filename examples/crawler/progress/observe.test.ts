import { expect, test } from 'vitest';
import { addPages } from '../add-pages.ts';
import { testCrawl } from '../testing.ts';
import { Observer } from './observe.ts';

test('a crawl is finished when two looks find nothing to do, and nothing has happened between them', async () => {
  await using crawl = await testCrawl({ shards: 3 });
  const { client, queues } = crawl;
  let now = 0;
  const observer = new Observer({
    client,
    queues,
    servers: async () => [],
    workers: () => [],
    expected: undefined,
    now: () => now++,
  });
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
