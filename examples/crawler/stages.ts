import { createHash } from 'node:crypto';
import type { Handler } from '@taskmaster/client';
import { addPages, type CrawlContext } from './add-pages.ts';
import type { SegmentWriter } from './index/segment.ts';
import { countWords } from './index/words.ts';
import { parsePage } from './page.ts';
import type { ExtractTask, FetchTask, IndexTask } from './queues.ts';
import { SiteUnavailableError, type Web } from './web.ts';

/**
 * Fetches a page. What a handler returns is enqueued atomically with the completion of its task; what it throws fails
 * the attempt, and the node hides the task until its backoff has passed.
 */
export function fetchStage(context: CrawlContext, web: Web): Handler<FetchTask> {
  const { client, queues } = context;
  return async (task) => {
    const { url, depth } = task.data;
    const { extract, skipped, stageRetry } = queues.of(url);
    try {
      const fetched = await web.fetch(url, task.signal);
      switch (fetched.kind) {
        case 'page':
          return { enqueue: [extract.task({ ...fetched.page, depth }, { pid: url, retry: stageRetry })] };
        case 'nothing':
          return { enqueue: [skipped.task({ reason: fetched.reason }, { pid: url, mode: 'fail' })] };
        case 'redirect':
          await addPages(context, { links: [fetched.to], foundOn: url, depth: depth + 1 }, () =>
            client.update().complete(task).enqueue(skipped, { reason: 'redirect' }, { pid: url, mode: 'fail' }),
          );
          return undefined;
        default:
          return fetched satisfies never;
      }
    } catch (error) {
      if (!(error instanceof SiteUnavailableError) || error.retryAfterMs === undefined) throw error;
      // The site knows better than our backoff when it will be back.
      await task.release({ delay: error.retryAfterMs });
      return undefined;
    }
  };
}

/** Reads a page: its text goes on to the index, the links that nobody has seen go back to be fetched. */
export function extractStage(context: CrawlContext): Handler<ExtractTask> {
  const { client, queues } = context;
  return async (task) => {
    const { url, depth } = task.data;
    const { index, stageRetry } = queues.of(url);
    const { title, text, links } = parsePage(task.data);
    await addPages(context, { links, foundOn: url, depth: depth + 1 }, () =>
      client
        .update()
        .complete(task)
        .enqueue(index, { url, title, text }, { pid: url, mode: 'fail', retry: stageRetry }),
    );
  };
}

/** Writes a page's words to this worker's segment of the index, and then makes them count. See `SegmentWriter`. */
export function indexStage(
  { client, queues }: CrawlContext,
  segment: SegmentWriter,
  worker: string,
): Handler<IndexTask> {
  return async (task) => {
    const { url, title, text } = task.data;
    const place = await segment.append({ url, title, textHash: textHash(text), words: countWords(text) });
    await client
      .update()
      .complete(task)
      .enqueue(queues.of(url).indexed, { place, worker, attempt: task.attempt }, { pid: url, mode: 'fail' })
      .commit();
    await segment.noteCommitted(url);
  };
}

/** What two crawls must agree on. */
export function textHash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
