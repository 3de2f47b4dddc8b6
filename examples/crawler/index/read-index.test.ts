import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type TestCrawl, testCrawl } from '../testing.ts';
import { readIndex } from './read-index.ts';
import { type IndexEntry, type Place, SegmentWriter } from './segment.ts';

const page = (url: string): IndexEntry => ({ url, title: url, textHash: 'hash', words: { word: 1 } });

async function commit({ queues }: TestCrawl, url: string, place: Place): Promise<void> {
  await queues.of(url).indexed.enqueue({ place, worker: 'w', attempt: 1 }, { pid: url, mode: 'replace' });
}

test('an entry counts when the table of contents of its shard names it', async () => {
  await using crawl = await testCrawl({ shards: 3 });
  await using segment = await SegmentWriter.create(crawl.dir, 'a');
  await commit(crawl, 'u', await segment.append(page('u')));
  await segment.noteCommitted('u');

  const index = await readIndex(crawl.dir, crawl.queues);

  expect([...index.pages]).toEqual([['u', expect.objectContaining(page('u'))]]);
  expect(index).toMatchObject({ indexed: 1, dangling: 0, double: [], uncommitted: 0 });
});

test('entries that a killed worker did not commit are garbage, and so is a torn line', async () => {
  await using crawl = await testCrawl();
  await using killed = await SegmentWriter.create(crawl.dir, 'a');
  await killed.append(page('u'));
  await appendFile(join(crawl.dir, 'a.segment'), '{"kind":"entry","url":"to');
  await using other = await SegmentWriter.create(crawl.dir, 'b');
  await commit(crawl, 'u', await other.append(page('u')));
  await other.noteCommitted('u');

  expect(await readIndex(crawl.dir, crawl.queues)).toMatchObject({
    indexed: 1,
    dangling: 0,
    double: [],
    uncommitted: 1,
  });
});

test('a page that two workers were told to have committed is double, whichever the table of contents names', async () => {
  await using crawl = await testCrawl();
  for (const name of ['a', 'b']) {
    await using segment = await SegmentWriter.create(crawl.dir, name);
    await commit(crawl, 'u', await segment.append(page('u')));
    await segment.noteCommitted('u');
  }

  expect(await readIndex(crawl.dir, crawl.queues)).toMatchObject({ indexed: 1, double: ['u'] });
});

test('a page that is only in the table of contents is missing', async () => {
  await using crawl = await testCrawl();
  await commit(crawl, 'u', { segment: 'gone.segment', offset: 0, length: 10 });

  expect(await readIndex(crawl.dir, crawl.queues)).toMatchObject({ indexed: 1, dangling: 1 });
});
