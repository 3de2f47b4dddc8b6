import { createHash } from 'node:crypto';
import { type Handler, UnrecoverableError } from '@taskmaster/client';
import { addPages, type CrawlContext } from './add-pages.ts';
import type { SegmentWriter } from './index/segment.ts';
import { countWords } from './index/words.ts';
import { parsePage } from './page.ts';
import type { ExtractTask, FetchTask, IndexTask } from './queues.ts';
import { SiteUnavailableError, type Web } from './web.ts';

/** Attempts at a page that answers 500. Then it is given up. */
const ATTEMPTS_AT_BROKEN = 3;

/**
 * Fetches a page. The return value of a handler is enqueued in the update that completes the task. If a handler throws, the
 * attempt fails and the node hides the task for its backoff.
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
      // The task keeps the errors. If it becomes a dead letter, they say why.
      if (!(error instanceof SiteUnavailableError)) throw error;
      if (error.isBroken && task.attempt >= ATTEMPTS_AT_BROKEN) throw new UnrecoverableError(error.message);
      if (error.retryAfterMs === undefined) throw error;
      // The site knows better than our backoff when it is available again.
      await task.release({ delay: error.retryAfterMs, error });
      return undefined;
    }
  };
}

/** Parses a page. Its text goes to the index stage, new links go to the fetch stage. */
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

/** Writes the words of a page to the segment of this worker, then commits the entry. See `SegmentWriter`. */
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

/** Two crawls of the same site must have the same hashes. */
export function textHash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
