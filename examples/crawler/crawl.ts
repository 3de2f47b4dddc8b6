import { setTimeout as delay } from 'node:timers/promises';
import { type Chaos, type ChaosContext, drainNode, joinNode, killNode, killWorker } from './cluster/chaos.ts';
import type { ChaosEvent } from './cluster/events.ts';
import { drawLine } from './progress/draw.ts';
import { type CrawlStatus, completedBy } from './progress/observe.ts';
import type { Screen } from './progress/screen.ts';

interface WatchOptions {
  readonly context: ChaosContext;
  readonly screen: Screen;
  /** About the number of pages, by which the planned faults happen. Undefined: no faults. */
  readonly pages: number | undefined;
}

interface Planned {
  /** Share of the pages that are indexed when the fault happens. */
  readonly at: number;
  readonly chaos: Chaos;
  /** Whether the fault waits until the crawl has recovered from all earlier ones. */
  readonly alone: boolean;
}

const LOOK_INTERVAL_MS = 200;
/** A crawl that completes no task for this time has failed, in ms. */
const STALLED_MS = 120_000;

const onOneNode: readonly Planned[] = [
  { at: 0.3, chaos: killWorker, alone: false },
  { at: 0.6, chaos: killNode, alone: false },
];
const onCluster: readonly Planned[] = [
  { at: 0.1, chaos: killWorker, alone: false },
  { at: 0.25, chaos: killNode, alone: false },
  { at: 0.4, chaos: joinNode, alone: true },
  { at: 0.65, chaos: drainNode, alone: true },
];

/** Shows the crawl until it is finished, and causes the planned faults meanwhile. */
export async function watchCrawl(options: WatchOptions): Promise<{ status: CrawlStatus; events: ChaosEvent[] }> {
  const { context, screen, pages } = options;
  const { observer, signal, servers } = context;
  const planned = pages === undefined ? [] : [...(servers.isCluster ? onCluster : onOneNode)];
  const begun: Promise<ChaosEvent>[] = [];
  const over: ChaosEvent[] = [];
  let progress = { at: 0, completed: 0 };
  for (;;) {
    const status = await observer.look(signal);
    signal.throwIfAborted();
    screen.show(status);
    const completed = completedBy(status);
    if (completed !== progress.completed) progress = { at: status.elapsedMs, completed };
    if (status.elapsedMs - progress.at > STALLED_MS) throw new Error(`the crawl does not go on: ${drawLine(status)}`);
    const [next] = planned;
    // Faults for which a quick crawl left no time happen after it.
    const due = next !== undefined && (status.finished || status.indexed >= next.at * (pages ?? 0));
    if (due && (!next.alone || over.length === begun.length)) {
      planned.shift();
      const event = next.chaos(context, over);
      begun.push(event);
      // If the demo is interrupted, the event may fail when no caller waits for it.
      event.then(
        (ended) => over.push(ended),
        () => {},
      );
    }
    if (status.finished && planned.length === 0 && over.length === begun.length) {
      return { status, events: await Promise.all(begun) };
    }
    await Promise.race([delay(LOOK_INTERVAL_MS, undefined, { signal }), firstFailure(begun)]);
  }
}

/** Rejects when one of the events fails. Never resolves. */
function firstFailure(events: readonly Promise<ChaosEvent>[]): Promise<never> {
  return new Promise((_, reject) => {
    for (const event of events) event.catch(reject);
  });
}
