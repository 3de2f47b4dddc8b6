import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEmbedded } from '@taskmaster/node';
import type { CrawlContext } from './add-pages.ts';
import { CrawlQueues } from './queues.ts';

export interface TestCrawl extends CrawlContext, AsyncDisposable {
  /** An empty folder, which is deleted at the end. */
  readonly dir: string;
}

/** A crawl on an engine inside the test. */
export async function testCrawl(
  options: { readonly permits?: number; readonly shards?: number } = {},
): Promise<TestCrawl> {
  await using onFailure = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'taskmaster-test-'));
  onFailure.defer(() => rm(dir, { recursive: true, force: true }));
  const client = onFailure.use(
    await openEmbedded({ dir: join(dir, 'data'), partitions: 4, store: { reserveBytes: 1024 * 1024 } }),
  );
  const { permits, shards = 1 } = options;
  const queues = new CrawlQueues(client, shards);
  if (permits !== undefined)
    await queues.first.permits.enqueueMany(Array.from({ length: permits }, () => ({ data: null })));
  const resources = onFailure.move();
  return {
    dir,
    client,
    queues,
    bounded: permits !== undefined,
    known: new Set(),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
