import { setTimeout as delay } from 'node:timers/promises';
import { type Kill, killNode, killWorker, type Victims } from './cluster/chaos.ts';
import { drawLine } from './progress/draw.ts';
import { type CrawlStatus, completedBy } from './progress/observe.ts';
import type { Screen } from './progress/screen.ts';

interface WatchOptions {
  readonly victims: Victims;
  readonly screen: Screen;
  /** About how many pages there are: when to kill. Undefined: nobody is killed. */
  readonly pages: number | undefined;
}

const LOOK_INTERVAL_MS = 100;
/** A crawl in which no task is completed for so long will not end by itself, in ms. */
const STALLED_MS = 120_000;
/** Share of the pages that are indexed when a victim is killed. */
const KILLS = [
  { at: 0.3, kill: killWorker },
  { at: 0.6, kill: killNode },
] as const;

/** Shows the crawl until it is finished, and kills on the way. */
export async function watchCrawl(options: WatchOptions): Promise<{ status: CrawlStatus; kills: Kill[] }> {
  const { victims, screen, pages } = options;
  const { observer, signal } = victims;
  const planned = pages === undefined ? [] : KILLS.map(({ at, kill }) => ({ atPages: Math.floor(at * pages), kill }));
  const kills: Promise<Kill>[] = [];
  let recovering = 0;
  let progress = { at: 0, completed: 0 };
  for (;;) {
    const status = await observer.look(signal);
    signal.throwIfAborted();
    screen.show(status);
    const completed = completedBy(status);
    if (completed !== progress.completed) progress = { at: status.elapsedMs, completed };
    if (status.elapsedMs - progress.at > STALLED_MS) throw new Error(`the crawl does not go on: ${drawLine(status)}`);
    while (status.indexed >= (planned[0]?.atPages ?? Number.POSITIVE_INFINITY)) {
      const kill = planned.shift()?.kill(victims);
      if (kill === undefined) break;
      recovering++;
      kills.push(kill.finally(() => recovering--));
    }
    if (status.finished && recovering === 0) return { status, kills: await Promise.all(kills) };
    await Promise.race([delay(LOOK_INTERVAL_MS, undefined, { signal }), firstFailure(kills)]);
  }
}

/** Rejects when one of them does; never resolves. */
function firstFailure(kills: readonly Promise<Kill>[]): Promise<never> {
  return new Promise((_, reject) => {
    for (const kill of kills) kill.catch(reject);
  });
}
