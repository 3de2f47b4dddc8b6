/**
 * A worker process of the crawler. It leases tasks of all stages until it is told to stop, or until the demo that started it
 * has ended.
 */
import {
  connect,
  type Handler,
  isTaskMasterError,
  type LeasedTask,
  LeaseExpiredError,
  LeaseLostError,
  pidText,
  type Queue,
  type TaskMasterClient,
  TaskNotFoundError,
  UnrecoverableError,
  type Worker,
} from '@taskmaster/client';
import type { CrawlContext } from './add-pages.ts';
import { SegmentWriter } from './index/segment.ts';
import { CrawlQueues, type Stage } from './queues.ts';
import { reportStage } from './reports.ts';
import { extractStage, fetchStage, indexStage } from './stages.ts';
import { auditStage } from './verify/audit.ts';
import { SiteUnavailableError, Web } from './web.ts';
import type { FromWorker, ToWorker, WorkerAssignment, WorkerCounts } from './worker-messages.ts';

/**
 * Time until the tasks of a killed worker come back. It is much shorter than the default of 30 s, so that the demo can show
 * it. Leases are renewed while their worker lives.
 */
const LEASE = '3s';
/** How long calls are repeated: enough for a node to restart on a busy machine. */
const NODE_ABSENCE = '30s';
const REPORT_INTERVAL_MS = 200;
/** Expected errors, which are not reported. */
const usual = [SiteUnavailableError, UnrecoverableError, LeaseLostError, LeaseExpiredError, TaskNotFoundError];

const assignment = JSON.parse(process.argv[2] ?? '') as WorkerAssignment;
const counts = {
  handled: { fetch: 0, extract: 0, index: 0 },
  failed: 0,
  retried: 0,
  leasesLost: 0,
  callsRepeated: 0,
};

const { promise: stopping, resolve: stop } = Promise.withResolvers<void>();
process.on('message', (message: ToWorker) => {
  if (message.kind === 'stop') stop();
});
process.on('disconnect', stop);
// A terminal sends Ctrl-C to this process too, but the demo decides when it ends.
process.on('SIGINT', () => {});

await run();
process.off('disconnect', stop);
if (process.connected) process.disconnect();

async function run(): Promise<void> {
  await using client = await connect({
    endpoints: assignment.endpoints,
    workerLabel: assignment.name,
    timeout: NODE_ABSENCE,
    retry: { maxAttempts: 50 },
    onCallRetried: () => counts.callsRepeated++,
  });
  await using segment = await SegmentWriter.create(assignment.segments, assignment.name);
  const queues = new CrawlQueues(client, assignment.shards);
  const context: CrawlContext = { client, queues, bounded: assignment.bounded, known: new Set() };
  const web = new Web({ pauseMs: assignment.pauseMs });
  const workers = [
    ...worker(client, 'fetch', queues.stage('fetch'), fetchStage(context, web)),
    ...worker(client, 'extract', queues.stage('extract'), extractStage(context)),
    ...worker(client, 'index', queues.stage('index'), indexStage(context, segment, assignment.name)),
    client.worker(queues.first.reports, reportStage(context), { leaseDuration: LEASE, onAttemptFailed: onError }),
    client.worker(queues.first.audits, auditStage, { leaseDuration: LEASE, onAttemptFailed: onError }),
  ];
  for (const each of workers) each.start();
  tell({ kind: 'ready' });
  const reporting = setInterval(report, REPORT_INTERVAL_MS);
  await stopping;
  // Running tasks are finished first. They need the client and the segment.
  await Promise.all(workers.map((each) => each.stop({ timeout: '5s' })));
  clearInterval(reporting);
  report();
}

/** The worker of one stage, which leases from all shards. Empty if this process has no part in the stage. */
function worker<T>(
  client: TaskMasterClient,
  stage: Stage,
  queues: readonly Queue<T>[],
  handler: Handler<T>,
): readonly Worker<T>[] {
  const concurrency = assignment.concurrency[stage];
  if (concurrency === 0) return [];
  const counting: Handler<T> = async (task) => {
    if (task.attempt > 1) counts.retried++;
    const result = await handler(task);
    counts.handled[stage]++;
    return result;
  };
  return [
    client.worker<Queue<T>>(queues, counting, {
      concurrency,
      leaseDuration: LEASE,
      onLeaseLost,
      onAttemptFailed: onError,
    }),
  ];
}

function onLeaseLost(): void {
  counts.leasesLost++;
}

/** Reports unexpected errors. A site that answers 503, a node that is away for a moment, and a lost lease are expected. */
function onError(error: unknown, task: LeasedTask<unknown> | undefined): void {
  if (task !== undefined) counts.failed++;
  if (usual.some((kind) => error instanceof kind)) return;
  if (isTaskMasterError(error) && error.retryable) return;
  const where = task === undefined ? '' : ` (${task.queue}, ${pidText(task.pid)})`;
  tell({ kind: 'error', message: `${error instanceof Error ? error.message : String(error)}${where}` });
}

function report(): void {
  tell({ kind: 'counts', counts: counts satisfies WorkerCounts });
}

function tell(message: FromWorker): void {
  if (process.connected) process.send?.(message);
}
