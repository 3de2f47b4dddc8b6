import { BulkAction, BulkRunState, type BulkSpec, parseQueueName } from '@taskmaster/proto';
import { BATCH_START, batchOf } from '../domain/batches.ts';
import { type BulkRunRecord, type TaskFilter, taskFilter } from '../domain/bulk-runs.ts';
import { latin1Of } from '../domain/bytes.ts';
import type { DequeueItem, ReleaseItem, UpdateCommand } from '../domain/commands.ts';
import type { Instant, Pid, QueueId } from '../domain/ids.ts';
import type { Refusal } from '../domain/refusal.ts';
import { isLeasedAt } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { capBacklogs } from '../operations/backlog.ts';
import { type Attempt, decide, decideSome } from '../operations/decide.ts';
import { DueSearches } from '../operations/expire.ts';
import { objectionByLimits } from '../operations/limits.ts';
import { type Objection, type PlannedUpdate, planBatch } from '../operations/plan-update.ts';
import { TaskDraft } from '../operations/task-draft.ts';
import { EngineView } from '../pending/engine-view.ts';
import type { Queue } from '../queues/queue.ts';
import { type Found, type FoundTask, firstOf, lookFrom, matchingNow, queuesOf } from './look.ts';
import { ended, findRun, pidOfRun, putRun, type RunAfter, tellEnd } from './record.ts';

/** Tasks that one atom changes: few enough not to delay other requests. */
const TASKS_PER_ATOM = 200;
/** A run with a rate has so many slices a second. */
const SLICES_PER_SECOND = 10;
/** How late a slice may be and still not lower the rate, in ms. */
const LATE_MS = 1000;

/** What the slices of a run have in common, as long as it is on this node. */
export interface RunOnNode {
  readonly filter: TaskFilter;
  readonly queues: readonly Queue[];
  readonly found: FoundAhead;
}

/** What was found for the next slices of runs. Each slice looks at the present state of its tasks anyway. */
export type FoundAhead = WeakMap<BulkRunRecord, Found>;

/** Reads when the run began, by the clock of this node. Undefined: it is gone. */
export async function onThisNode(
  engineState: EngineState,
  record: BulkRunRecord,
  found: FoundAhead,
): Promise<RunOnNode | undefined> {
  const { group } = record.queues;
  const { result: began } = await decide(
    engineState,
    engineState.partitionOf(group),
    (now, reads): Attempt<Instant | undefined> => {
      const draft = new TaskDraft(new EngineView(engineState, now, reads));
      const own = findRun(draft, group, record.run.id);
      if (draft.needs.length > 0) return { kind: 'needs', needs: draft.needs };
      // The instants of tasks move with the clocks of nodes.
      return { kind: 'decided', result: own?.task.state.enqueuedAt };
    },
  );
  if (began === undefined) return undefined;
  const { spec } = record.run;
  const { queueId: from, endQueueId: to } = record.stored;
  const queues = queuesOf(engineState, record.queues, { from, to, except: targetOf(spec)?.name });
  return { filter: taskFilter(spec, began), queues, found };
}

/**
 * Looks at some tasks and changes those that match, in one atom with the progress of the run. So no crash and no move of the
 * group repeats a change or leaves one out. Resolves when the atom is durable, with the run as it is then. Undefined: it was
 * cancelled.
 */
export async function runSlice(
  engineState: EngineState,
  record: BulkRunRecord,
  { filter, queues, found }: RunOnNode,
): Promise<BulkRunRecord | undefined> {
  const { run, stored } = record;
  const { spec } = run;
  const place = { queueId: stored.queueId as QueueId, after: latin1Of(stored.afterPid) as Pid };
  const moves = spec.action === BulkAction.BULK_ACTION_MOVE || spec.action === BulkAction.BULK_ACTION_RETRY;
  const withPayloads = filter.passes !== undefined || moves;
  const all = found.get(record) ?? (await lookFrom(engineState, queues, filter, place, withPayloads));
  const wanted = firstOf(all, mostTasks(run)).first.tasks;
  const searches = new DueSearches();
  const { group } = record.queues;
  const decided = await decideSome(
    engineState,
    engineState.partitionOf(group),
    wanted,
    (some, now, reads): Attempt<RunAfter | undefined> => {
      const pid = pidOfRun(run.id);
      if (engineState.bulkRuns.of(group)?.get(pid) !== record) return { kind: 'decided', result: undefined };
      const view = new EngineView(engineState, now, reads, searches.notShown);
      const { first } = firstOf(all, some.length);
      const { tasks, needs } = matchingNow(view, first.tasks, filter, now);
      if (needs.length > 0) return { kind: 'needs', needs };
      const free = tasks.filter(({ state }) => isChangeable(spec, state, now));
      const batch = batchOf(
        free.map((task) => updateOf(spec, group, task)),
        undefined,
      );
      const plan = planBatch(batch, view, (planned) => objectionTo(engineState, spec, planned, view));
      if (plan.kind === 'needs') return plan;
      if (plan.kind === 'due') return { kind: 'waits', wait: () => searches.show(engineState, plan.queues) };
      const { draft, outcome } = plan;
      const refusals = [...outcome.refusals.values()];
      const leased = tasks.length - free.length;
      const after = afterSlice(record, first, { changed: free.length - refusals.length, refusals, leased }, now);
      putRun(draft, group, after, now);
      draft.writeBoxes(now);
      if (draft.needs.length > 0) return { kind: 'needs', needs: draft.needs };
      return { kind: 'decided', result: after, changes: { changes: draft.changes, created: draft.created } };
    },
  );
  await decided.durable;
  if (decided.result !== undefined) tellEnd(engineState, decided.result);
  // What memory has by now: a cancellation may have come meanwhile.
  const after = decided.result ? engineState.bulkRuns.of(group)?.get(pidOfRun(run.id)) : undefined;
  const { rest } = firstOf(all, decided.count);
  if (after !== undefined && rest !== undefined) found.set(after, rest);
  return after;
}

/** How many tasks the next slice changes at most. */
function mostTasks({ spec: { rate, maxTasks }, changed }: BulkRunRecord['run']): number {
  const most = rate === 0 ? TASKS_PER_ATOM : Math.min(TASKS_PER_ATOM, Math.ceil(rate / SLICES_PER_SECOND));
  return maxTasks === 0 ? most : Math.min(most, maxTasks - changed);
}

/** Leased tasks belong to their workers, which may be told to stop. */
const isChangeable = ({ action }: BulkSpec, state: FoundTask['state'], now: Instant): boolean =>
  action === BulkAction.BULK_ACTION_CANCEL || !isLeasedAt(state, now);

/** The queue that tasks go to. Undefined: they go to none. */
export const targetOf = ({ target }: BulkSpec) => (target === '' ? undefined : parseQueueName(target));

/** The update of a caller that does the same with one task. */
function updateOf(spec: BulkSpec, group: string, { queue, pid }: FoundTask): UpdateCommand {
  const task = { queue: queue.ledger.name, pid, key: undefined, token: undefined };
  const nothing = { group, enqueue: [], dequeue: [], renew: [], release: [], publishes: false, requestId: undefined };
  const dequeue = (item: Partial<DequeueItem>): UpdateCommand => ({
    ...nothing,
    dequeue: [{ ...task, requeue: false, result: undefined, cancelReason: undefined, ...item }],
  });
  const release = (item: Pick<ReleaseItem, 'delayMs' | 'runAt'>): UpdateCommand => ({
    ...nothing,
    release: [{ ...task, refundAttempt: false, error: undefined, deadLetter: false, waiting: true, ...item }],
  });
  switch (spec.action) {
    case BulkAction.BULK_ACTION_RETRY:
      return dequeue({ requeue: true });
    case BulkAction.BULK_ACTION_MOVE:
      return dequeue({ moveTo: targetOf(spec) });
    case BulkAction.BULK_ACTION_DELETE:
      return dequeue({});
    case BulkAction.BULK_ACTION_CANCEL:
      return dequeue({ cancelReason: spec.cancelReason });
    case BulkAction.BULK_ACTION_RESCHEDULE:
      return release({ delayMs: spec.delayMs, runAt: (spec.runAtUnixMs || undefined) as Instant | undefined });
    case BulkAction.BULK_ACTION_PROMOTE:
      return release({ delayMs: 0, runAt: undefined });
    default:
      throw new RangeError(`this release knows no bulk action ${spec.action}`);
  }
}

/** A move may create its target, for which the node must have room. A full target takes no more tasks if it refuses new ones. */
function objectionTo(
  engineState: EngineState,
  spec: BulkSpec,
  planned: PlannedUpdate,
  view: EngineView,
): Objection | undefined {
  const queue = targetOf(spec);
  if (queue === undefined) return undefined;
  const command = { group: queue.group, enqueue: [{ queue }] };
  const asEnqueue = { ...planned, start: BATCH_START, end: { ...BATCH_START, enqueue: 1 } };
  return objectionByLimits(engineState, command, asEnqueue, view) ?? capBacklogs([], planned, view);
}

interface SliceOutcome {
  readonly changed: number;
  readonly refusals: readonly Refusal[];
  readonly leased: number;
}

/** The run after a slice, and when its next one is due. */
function afterSlice(
  { run: before, stored, until }: BulkRunRecord,
  { lookedAt, next }: Found,
  { changed, refusals, leased }: SliceOutcome,
  now: Instant,
): RunAfter {
  const skips = new Map(before.skipped.map(({ reason, tasks }) => [reason, tasks]));
  if (leased > 0) skips.set('TASK_LEASED', (skips.get('TASK_LEASED') ?? 0) + leased);
  for (const { reason } of refusals) skips.set(reason, (skips.get(reason) ?? 0) + 1);
  const skipped = [...skips].map(([reason, tasks]) => ({ reason, tasks }));
  const run = { ...before, lookedAt: before.lookedAt + lookedAt, changed: before.changed + changed, skipped };
  const { rate, maxTasks } = run.spec;
  if (next === undefined || (maxTasks > 0 && run.changed >= maxTasks)) {
    return ended({ stored, run }, BulkRunState.BULK_RUN_STATE_DONE, now);
  }
  const { queueId, after } = next;
  const moved = { ...stored, run, queueId, afterPid: Buffer.from(after, 'latin1') };
  const from = Math.max(until ?? now, now - LATE_MS);
  const waitMs = rate === 0 ? 0 : Math.ceil((changed * 1000) / rate);
  return { stored: moved, until: (from + waitMs) as Instant };
}
