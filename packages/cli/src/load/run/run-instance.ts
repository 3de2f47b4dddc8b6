import { isTaskMasterError, type RetryEvent, type RetryOptions, type TaskMasterClient } from '@taskmaster/client';
import type { Timing } from '@taskmaster/client/internal';
import { Meter } from '../measure/meter.ts';
import type { Verification } from '../report/load-report.ts';
import { DrainFailedError } from '../verify/drain.ts';
import { TaskHistory } from '../verify/task-history.ts';
import { verifyRun } from '../verify/verify-run.ts';
import { Generator } from '../workload/generator.ts';
import { Payloads } from '../workload/payloads.ts';
import { LoadRandom } from '../workload/random.ts';
import { type Instance, queuesOf, type Workload } from '../workload/settings.ts';
import { assertEmpty, deleteQueues } from './load-queues.ts';
import { paced } from './pace.ts';
import { arrive, leave, waitForAll } from './rendezvous.ts';

interface ClientHooks {
  readonly onRetry?: (event: RetryEvent) => void;
  /** Default: as applications have it. */
  readonly retry?: RetryOptions;
}

/** How one instance runs. Plain data, which can be sent to another process. */
export interface RunSettings {
  readonly workload: Workload;
  readonly instance: Instance;
  readonly connections: number;
  /** Undefined: nothing is checked. */
  readonly verify: VerifySettings | undefined;
  /** Whether tasks that are in the queues before the load are deleted. Otherwise the load is refused. */
  readonly force: boolean;
  /** Whether the queues stay as they are at the end. */
  readonly keep: boolean;
  /** Longest wait for the other instances, in ms. */
  readonly startWithinMs: number;
}

interface VerifySettings {
  /** A lease may end earlier by this time, in ms, because the clocks of two machines do not run alike. */
  readonly clockSlackMs: number;
  /** Largest number of tasks in the history. */
  readonly mostTasksHeld: number;
  /** Longest time to read what is left in the queues, in ms. */
  readonly withinMs: number;
}

export interface RunParts {
  readonly timing: Timing;
  readonly open: (hooks: ClientHooks) => Promise<TaskMasterClient>;
  /** Tells the tasks of this run from others. At most 16 letters and digits. */
  readonly runId: string;
  /** Ends the load early. Queues are checked and cleaned nevertheless. */
  readonly signal: AbortSignal;
  /** Called when all instances have come and the load starts. */
  readonly onStart: (meter: Meter) => void;
}

/** What one instance has done. */
export interface RunOutcome {
  readonly meter: Meter;
  readonly elapsedMs: number;
  readonly isComplete: boolean;
  readonly notStarted: number;
  readonly verification: Verification | undefined;
  /** Queues that could not be deleted. */
  readonly notCleaned: readonly string[];
}

/** For calls before and after the load: they outlast a restart of a node. */
const PATIENT: RetryOptions = { maxAttempts: 1_000 };

/** Runs one instance of a load: waits for the others, makes the load, checks it, and cleans up. */
export async function runInstance(settings: RunSettings, parts: RunParts): Promise<RunOutcome> {
  const { workload, instance, force, keep } = settings;
  const { timing, open, signal } = parts;
  const queues = queuesOf(workload, instance);
  await using control = await open({ retry: PATIENT });
  if (force) await deleteQueues(control, queues);
  else await assertEmpty(control, queues);
  const isAlone = instance.count === 1;
  const { group } = workload;
  const rendezvous = { client: control, timing, group, instance, force, withinMs: settings.startWithinMs, signal };
  if (!isAlone) await arrive(rendezvous);
  let notCleaned: readonly string[] = [];
  let made: Omit<RunOutcome, 'notCleaned'>;
  try {
    if (!isAlone) await waitForAll(rendezvous);
    made = await makeLoad(settings, parts, control);
  } finally {
    if (!isAlone) await leave(control, group, instance);
    if (!keep) notCleaned = await deleteQueues(control, queues);
  }
  return { ...made, notCleaned };
}

async function makeLoad(
  { workload, instance, connections, verify }: RunSettings,
  { timing, open, runId, signal, onStart }: RunParts,
  control: TaskMasterClient,
): Promise<Omit<RunOutcome, 'notCleaned'>> {
  const random = new LoadRandom(workload.seed + instance.index);
  const payloads = new Payloads(runId, random);
  const history = verify && new TaskHistory(verify.clockSlackMs);
  let meter: Meter | undefined;
  const onRetry = ({ error }: RetryEvent): void => meter?.retried(error.reason);
  await using clients = new OpenClients();
  for (let at = 0; at < connections; at++) clients.all.push(await open({ onRetry }));
  meter = new Meter(timing);
  const generator = new Generator({
    meter,
    timing,
    payloads,
    history,
    clients: clients.all,
    workload,
    instance,
    random,
    mostTasksHeld: verify?.mostTasksHeld ?? Number.POSITIVE_INFINITY,
  });
  onStart(meter);
  const notStarted = await paced(workload, instance, timing, signal, (dueAt) => generator.operate(dueAt));
  meter.finish();
  const { elapsedMs } = meter;
  const isComplete = !signal.aborted;
  const queues = queuesOf(workload, instance);
  const verification =
    history && (await verified({ client: control, timing, queues, history, payloads, withinMs: verify.withinMs }));
  return { meter, elapsedMs, isComplete, notStarted, verification };
}

async function verified(options: Parameters<typeof verifyRun>[0]): Promise<Verification> {
  try {
    const verdict = await verifyRun(options);
    return { kind: verdict.violations === 0 ? 'kept' : 'broken', ...verdict };
  } catch (error) {
    if (!isTaskMasterError(error) && !(error instanceof DrainFailedError)) throw error;
    const reason = isTaskMasterError(error) ? `${error.reason}: ${error.message}` : error.message;
    return { kind: 'failed', reason };
  }
}

class OpenClients implements AsyncDisposable {
  readonly all: TaskMasterClient[] = [];

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((client) => client.close()));
  }
}
