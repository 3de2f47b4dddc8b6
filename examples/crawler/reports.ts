import { setTimeout as delay } from 'node:timers/promises';
import { type Handler, scheduledRun, type TaskMasterClient } from '@taskmaster/client';
import type { CrawlContext } from './add-pages.ts';
import type { CrawlShard } from './queues.ts';
import { type Check, check } from './verify/check.ts';

const EVERY_MS = 2_000;
const POLL_MS = 50;

/** From now on a schedule asks for a report every two seconds. The node that holds its group runs it, wherever that moves. */
export async function scheduleReports({ schedules }: TaskMasterClient, { reports }: CrawlShard): Promise<void> {
  const retry = { backoff: { initial: '100ms', max: '1s' } } as const;
  await schedules.put(reports.name, { queue: reports, data: null, every: EVERY_MS, missedRuns: 'all', retry });
}

/** Counts the pages that are indexed. If a node does not answer, the attempt is repeated. */
export function reportStage({ client, queues }: CrawlContext): Handler<null> {
  return async (task) => {
    const report = await client.stats({ queues: queues.shards.map(({ indexed }) => indexed) });
    const { available } = report.totals;
    return { enqueue: [queues.first.reported.task({ indexed: available }, { pid: task.pid, mode: 'fail' })] };
  };
}

/** Ends the schedule, waits for the last report, and checks that each run has come exactly once. */
export async function checkReports(
  { schedules }: TaskMasterClient,
  { reports, reported }: CrawlShard,
  signal: AbortSignal,
): Promise<{ readonly written: number; readonly check: Check }> {
  await schedules.pause(reports.name, { signal });
  const schedule = await schedules.get(reports.name, { signal });
  const openReports = async (): Promise<number> => {
    const { available, leased, delayed } = await reports.stats({ signal });
    return available + leased + delayed;
  };
  while ((await openReports()) > 0) await delay(POLL_MS, undefined, { signal });
  const written = await reported.peek({ limit: 1_000, data: false, signal });
  const first = (schedule?.createdAt.getTime() ?? 0) + EVERY_MS;
  const astray = written.flatMap(({ pid }, at) => {
    const instant = scheduledRun(pid)?.at.getTime();
    return instant === first + at * EVERY_MS ? [] : [`report ${at + 1} is of ${instant}`];
  });
  const runs = schedule?.counts.enqueued ?? 0;
  const against = runs === written.length ? astray : [`${written.length} reports of ${runs} runs`];
  return { written: written.length, check: check('the schedule has missed no report, and repeated none', against) };
}
