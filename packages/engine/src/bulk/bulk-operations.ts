import {
  BulkAction,
  BulkRunState,
  BulkSpec,
  encodeToBuffer,
  formatQueueName,
  limits,
  StoredBulkRun,
} from '@taskmaster/proto';
import {
  type BulkCommand,
  type BulkOperations,
  type BulkPlace,
  type BulkPreview,
  type BulkRunRecord,
  decodeBulkRun,
  goesOn,
  type StartedBulkRun,
  taskFilter,
} from '../domain/bulk-runs.ts';
import type { TaskView } from '../domain/commands.ts';
import { Refusal } from '../domain/refusal.ts';
import { isLeasedAt } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { EngineView } from '../pending/engine-view.ts';
import { Reads } from '../pending/reads.ts';
import { changeRecords, type RecordRequests } from '../records/change-records.ts';
import { bulkRunRecords, type RecordDraft } from '../records/record-store.ts';
import { BEGINNING, type FoundTask, lookFrom, matchingNow, queuesOf } from './look.ts';
import { ended, pidOfRun, putRun, type RunAfter, tellEnd } from './record.ts';
import { targetOf } from './run-slice.ts';

/** More than a record takes beside its spec. */
const RECORD_BYTES = 512;

/** The operations of an engine on bulk runs. */
export const bulkOperations = ({ change, read }: RecordRequests): BulkOperations => ({
  start: (command) =>
    change(
      (engineState) => startBulk(engineState, command),
      // On a full disk, too, a run may begin that frees space.
      command.spec.action === BulkAction.BULK_ACTION_DELETE ? undefined : RECORD_BYTES,
    ),
  preview: (command, from) => read(command.queues.group, (engineState) => previewBulk(engineState, command, from)),
  list: (group) =>
    read(group, async (engineState) => {
      const runs = [...(engineState.bulkRuns.of(group)?.values() ?? [])];
      await engineState.durable();
      return runs.sort((a, b) => b.run.startedUnixMs - a.run.startedUnixMs);
    }),
  cancel: (group, id) => change((engineState) => cancelBulk(engineState, group, id)),
});

/** Number of these runs that go on. */
export function runsGoingOn(records: Iterable<BulkRunRecord>): number {
  let count = 0;
  for (const record of records) if (goesOn(record)) count++;
  return count;
}

type StartCommand = Parameters<BulkOperations['start']>[0];

function startBulk(engineState: EngineState, { id, by, ...command }: StartCommand): Promise<StartedBulkRun> {
  const { queues, spec } = command;
  const { group } = queues;
  return changeRecords(engineState, group, (draft, now) => {
    const runs = engineState.bulkRuns.of(group);
    const known = runs?.get(pidOfRun(id));
    if (known !== undefined) {
      if (!isSame(known, command)) throw idReused(id);
      return { record: known, started: false };
    }
    if (runs !== undefined && runs.size >= limits.bulkRuns) removeOldest(draft, group, [...runs.values()]);
    const chosen = queuesOf(engineState, queues, { except: targetOf(spec)?.name });
    const run = {
      id,
      queues: formatQueueName(queues),
      spec,
      startedBy: by,
      startedUnixMs: now,
      state: BulkRunState.BULK_RUN_STATE_RUNNING,
      problem: '',
      tasks: chosen.reduce((sum, { ledger }) => sum + ledger.size, 0),
      lookedAt: 0,
      changed: 0,
      skipped: [],
      endedUnixMs: 0,
    };
    const { nextQueueId } = engineState.ticketsOf(engineState.partitionOf(group));
    const stored = {
      run,
      queueId: BEGINNING.queueId,
      afterPid: Buffer.from(BEGINNING.after, 'latin1'),
      endQueueId: nextQueueId,
    };
    const after = { stored, until: now };
    putRun(draft, group, after, now);
    return { record: recordOf(after), started: true };
  });
}

/** The record as memory will know it. */
const recordOf = ({ stored, until }: RunAfter): BulkRunRecord =>
  decodeBulkRun(StoredBulkRun.encode(stored).finish(), until);

const isSame = ({ run }: BulkRunRecord, { queues, spec }: BulkCommand): boolean =>
  run.queues === formatQueueName(queues) && bytesOf(run.spec).equals(bytesOf(spec));

const bytesOf = (spec: BulkSpec): Buffer => encodeToBuffer(BulkSpec, spec);

function idReused(id: string): Refusal {
  return new Refusal('REQUEST_ID_REUSED', `the group has another bulk run with the id ${JSON.stringify(id)}`, {
    metadata: { field: 'id', value: id },
  });
}

/** Removes the run that ended first. Throws a `Refusal` if all go on. */
function removeOldest(draft: RecordDraft, group: string, runs: readonly BulkRunRecord[]): void {
  const [oldest] = runs.filter((run) => !goesOn(run)).sort((a, b) => a.run.endedUnixMs - b.run.endedUnixMs);
  if (oldest === undefined) {
    throw new Refusal('TOO_MANY_ITEMS', `the group has ${runs.length} bulk runs that go on: cancel some, or wait`, {
      metadata: { field: 'id', value: String(runs.length + 1), limit: String(limits.bulkRuns) },
    });
  }
  bulkRunRecords.remove(draft, group, pidOfRun(oldest.run.id));
}

async function cancelBulk(engineState: EngineState, group: string, id: string): ReturnType<BulkOperations['cancel']> {
  const { record, after } = await changeRecords(engineState, group, (draft, now) => {
    const record = engineState.bulkRuns.of(group)?.get(pidOfRun(id));
    if (record === undefined || !goesOn(record)) return { record, after: undefined };
    const after = ended(record, BulkRunState.BULK_RUN_STATE_CANCELLED, now);
    putRun(draft, group, after, now);
    return { record, after };
  });
  if (after === undefined) return { record, cancelled: false };
  tellEnd(engineState, after);
  return { record: recordOf(after), cancelled: true };
}

/** For how long a preview looks at tasks, in ms: people wait for it, and headers of large tasks take long to read. */
const LOOK_MS = 5_000;

/** Counts the tasks that a run would change if it began now. Looks at a bounded number of tasks behind a place. */
async function previewBulk(
  engineState: EngineState,
  { queues, spec }: BulkCommand,
  from = BEGINNING,
): Promise<BulkPreview> {
  const filter = taskFilter(spec, engineState.clock.now());
  const chosen = queuesOf(engineState, queues, { except: targetOf(spec)?.name });
  const tasks = chosen.reduce((sum, { ledger }) => sum + ledger.size, 0);
  const filled = chosen.filter(({ ledger }) => ledger.size > 0);
  const counts = { queues: filled.length, tasks, lookedAt: 0, matched: 0, leased: 0 };
  const samples: TaskView[] = [];
  const end = engineState.clock.now() + LOOK_MS;
  const goesOn = (): boolean => counts.lookedAt < limits.bulkPreviewTasks && engineState.clock.now() < end;
  let place: BulkPlace | undefined = from;
  while (place !== undefined && goesOn()) {
    const found = await lookFrom(engineState, chosen, filter, place, filter.passes !== undefined);
    const matching = await readMatching(engineState, found.tasks, filter);
    const now = engineState.clock.now();
    counts.lookedAt += found.lookedAt;
    counts.matched += matching.length;
    if (spec.action !== BulkAction.BULK_ACTION_CANCEL) {
      counts.leased += matching.filter(({ state }) => isLeasedAt(state, now)).length;
    }
    for (const { queue, pid, state } of matching.slice(0, limits.bulkPreviewSamples - samples.length)) {
      samples.push({ queue: queue.ledger.name, pid, state, data: undefined });
    }
    place = found.next;
  }
  await engineState.durable();
  return { ...counts, samples, next: place };
}

async function readMatching(
  engineState: EngineState,
  tasks: readonly FoundTask[],
  filter: Parameters<typeof matchingNow>[2],
): Promise<readonly FoundTask[]> {
  using reads = new Reads(engineState);
  for (;;) {
    const now = engineState.clock.now();
    const { tasks: matching, needs } = matchingNow(new EngineView(engineState, now, reads), tasks, filter, now);
    if (needs.length === 0) return matching;
    await reads.fetch(needs);
  }
}
