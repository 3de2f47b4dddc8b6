import { type EnqueueItem, type GroupLimits, groupQuotas, Refusal } from '@taskmaster/server/domain';
import type { EngineState } from '../engine-state.ts';
import { type PlannedChange, stateAfter, stateBefore } from '../planned-atom.ts';
import type { GroupUsage } from '../queues/group-usage.ts';
import type { Queue } from '../queues/queue.ts';
import type { PlannedUpdate } from './plan-batch.ts';
import type { DraftMark, TaskDraft } from './task-draft.ts';

/** A queue goes a minute after its last task. */
const QUEUES_RETRY_MS = 10_000;
const QUOTA_RETRY_MS = 1_000;

/** The part of an update that the limits are about. */
interface Enqueuing {
  readonly group: string;
  readonly enqueue: readonly Pick<EnqueueItem, 'queue'>[];
}

/**
 * The refusal of an update whose enqueues would go beyond the queues of the node, or beyond a quota of the group. An update that
 * ends as much as it begins is never refused, so that pipelines go on at a limit.
 */
export function refusalByLimit(
  memory: EngineState,
  command: Enqueuing,
  { start, end, draft, mark }: PlannedUpdate,
): Refusal | undefined {
  const creates = draft.created.length > mark.created;
  const queues = creates
    ? queuesOf(command.enqueue.slice(start.enqueue, end.enqueue), draft.created.slice(mark.created))
    : 0;
  const { maxQueues } = memory.config;
  if (queues > 0 && memory.table.size + countOf(draft.created) > maxQueues) return tooManyQueues(maxQueues);
  const limits = memory.groupLimits(command.group);
  if (limits === undefined) return undefined;
  const before = { ...usageBefore(draft, mark), queues: countOf(draft.created, mark.created) };
  const more = { ...usageOf(draft.changes.slice(mark.changes)), queues };
  return refusalByQuota(memory, command.group, limits, before, more);
}

/** What the changes before an update add. Marks only move on, so it adds those since the update before. */
function usageBefore(draft: TaskDraft, { changes }: DraftMark): { tasks: number; bytes: number } {
  draft.usage ??= { changes: 0, tasks: 0, bytes: 0 };
  const { usage } = draft;
  const { tasks, bytes } = usageOf(draft.changes.slice(usage.changes, changes));
  usage.changes = changes;
  usage.tasks += tasks;
  usage.bytes += bytes;
  return usage;
}

/** Number of queues that enqueues create. Dead-letter queues do not count: they end work. */
function queuesOf(enqueue: Enqueuing['enqueue'], created: readonly Queue[]): number {
  const names = new Set(enqueue.map(({ queue }) => queue.name));
  return created.reduce(
    (count, queue) => (!queue.isReserved && names.has(queue.ledger.name.name) ? count + 1 : count),
    0,
  );
}

/** Number of the first `length` queues that count. Default: of all. */
function countOf(queues: readonly Queue[], length = queues.length): number {
  let count = 0;
  for (let at = 0; at < length; at++) if (queues[at]?.isReserved === false) count++;
  return count;
}

/** What the changes add to the tasks and bytes of a group. Records count neither here nor in what the group uses. */
function usageOf(changes: readonly PlannedChange[]): { tasks: number; bytes: number } {
  const more = { tasks: 0, bytes: 0 };
  for (const { queue, change } of changes) {
    if (queue.isReserved) continue;
    const before = stateBefore(change);
    const after = stateAfter(change);
    more.tasks += (after === undefined ? 0 : 1) - (before === undefined ? 0 : 1);
    more.bytes += (after?.dataBytes ?? 0) - (before?.dataBytes ?? 0);
  }
  return more;
}

function refusalByQuota(
  memory: EngineState,
  group: string,
  limits: GroupLimits,
  before: GroupUsage,
  more: GroupUsage,
): Refusal | undefined {
  const used = memory.table.usageOf(group);
  for (const quota of groupQuotas) {
    const limit = limits[quota];
    if (limit === undefined || more[quota] <= 0) continue;
    const now = (used?.[quota] ?? 0) + before[quota];
    if (now + more[quota] > limit) return beyondQuota(group, quota, limit, now);
  }
  return undefined;
}

const tooManyQueues = (limit: number): Refusal =>
  new Refusal('TOO_MANY_QUEUES', `this node holds ${limit} queues or more: delete some, or use existing ones`, {
    retryDelayMs: QUEUES_RETRY_MS,
    metadata: { limit: String(limit) },
  });

function beyondQuota(group: string, quota: string, limit: number, used: number): Refusal {
  const name = group === '' ? 'the default group' : `the group ${group}`;
  return new Refusal('QUOTA_EXCEEDED', `${name} may hold ${limit} ${quota} and holds ${used}`, {
    retryDelayMs: QUOTA_RETRY_MS,
    metadata: { quota, limit: String(limit), used: String(used), group },
  });
}
