import { limits } from '@taskmaster/proto';
import type { EnqueueItem } from '../domain/commands.ts';
import { type GroupLimits, groupQuotas } from '../domain/group-limits.ts';
import { Refusal } from '../domain/refusal.ts';
import { kindOf } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { type PlannedChange, stateAfter, stateBefore } from '../planned-atom.ts';
import type { GroupUsage } from '../queues/group-usage.ts';
import type { Queue } from '../queues/queue.ts';
import { signalRecords } from '../records/record-store.ts';
import { deadLetterQueueOf } from './attempts.ts';
import type { Objection, PlannedUpdate, UpdateView } from './plan-update.ts';
import type { DraftMark, TaskDraft } from './task-draft.ts';

/** A queue goes a minute after its last task. */
const QUEUES_RETRY_MS = 10_000;
const QUOTA_RETRY_MS = 1_000;

/** The part of an update that the limits are about. */
interface Enqueuing {
  readonly group: string;
  readonly enqueue: readonly Pick<EnqueueItem, 'queue'>[];
}

type View = Pick<UpdateView, 'now' | 'canShowDue'>;

/**
 * The objection to an update whose enqueues would go beyond the queues of the node, or beyond a quota of the group. An update
 * that ends as much as it begins is never refused, so that pipelines go on at a limit. Where they may matter, attempts that are
 * over end first: a cancelled task goes, a dead letter replaces an earlier one, and dead-letter queues are created.
 */
export function objectionByLimits(
  engineState: EngineState,
  command: Enqueuing,
  planned: PlannedUpdate,
  view: View,
): Objection | undefined {
  const { draft, mark } = planned;
  const byKinds = objectionByKinds(engineState, planned);
  if (byKinds !== undefined) return byKinds;
  const queues = queuesCreatedBy(command, planned);
  const ofNode = queues > 0 ? objectionByNode(engineState, countOf(draft.created), view) : undefined;
  const quotas = engineState.groupLimits(command.group);
  if (ofNode !== undefined || quotas === undefined) return ofNode;
  const before = { ...usageBefore(draft, mark), queues: countOf(draft.created, mark.created) };
  before.bytes += mark.earlyBytes;
  const more = { ...usageOf(draft.changes.slice(mark.changes)), queues };
  more.bytes += draft.earlySignalBytes - mark.earlyBytes;
  const used = engineState.table.usageOf(command.group);
  const refusal = refusalByQuota(used, command.group, quotas, before, more);
  const { lastAttempts } = engineState;
  const most = (used?.queues ?? 0) + before.queues + queues + lastAttempts.targetCount(command.group);
  const isNear = queues > 0 && quotas.queues !== undefined && most > quotas.queues;
  if (refusal === undefined && !isNear) return undefined;
  return endFirst(lastAttempts.dueIn(command.group, view.now), view) ?? refusal;
}

/**
 * To an update whose new tasks have kinds that their queue or its dead-letter queue has not, and has no room for. Dead letters
 * come in any case, so the bound of their queue holds for those to come.
 */
function objectionByKinds({ table }: EngineState, { draft, mark }: PlannedUpdate): Refusal | undefined {
  let checked: Set<Queue> | undefined;
  for (let at = mark.changes; at < draft.changes.length; at++) {
    const planned = draft.changes[at];
    if (planned?.change.kind !== 'enqueue' || planned.change.after.history?.origin !== undefined) continue;
    const { queue, change } = planned;
    const kind = kindOf(change.after);
    if (kind === undefined || queue.ledger.kinds?.has(kind)) continue;
    const dead = table.get(deadLetterQueueOf(queue.ledger.name, queue.settings, change.after));
    const deadKinds = dead?.ledger.kinds;
    if (dead !== undefined && deadKinds !== undefined && deadKinds.size >= limits.queueKinds && !deadKinds.has(kind))
      return tooManyKinds(dead);
    if (checked?.has(queue)) continue;
    checked ??= new Set();
    checked.add(queue);
    const kinds = new Set(queue.ledger.kinds?.keys());
    for (const other of draft.changes) {
      const after = other.queue === queue ? stateAfter(other.change) : undefined;
      const added = after && kindOf(after);
      if (added !== undefined) kinds.add(added);
    }
    if (kinds.size > limits.queueKinds) return tooManyKinds(queue);
  }
  return undefined;
}

/** That of the node, to an update whose draft creates `created` queues. */
function objectionByNode({ table, config, lastAttempts, holdings }: EngineState, created: number, view: View) {
  const { maxQueues } = config;
  const queues = table.size + created;
  if (queues + lastAttempts.targetCount() <= maxQueues) return undefined;
  const over = lastAttempts.due(view.now);
  // An update does not wait for a partition that moves: its queues are about to be elsewhere.
  const objection = endFirst(
    over.filter(({ partition }) => holdings.canCommit(partition)),
    view,
  );
  return objection ?? (queues > maxQueues ? tooManyQueues(maxQueues) : undefined);
}

function endFirst(over: readonly Queue[], view: View): Objection | undefined {
  const queues = over.filter((queue) => view.canShowDue(queue));
  return queues.length === 0 ? undefined : { kind: 'due', queues: new Set(queues) };
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
function queuesCreatedBy(command: Enqueuing, { start, end, draft, mark }: PlannedUpdate): number {
  if (draft.created.length === mark.created) return 0;
  const enqueue = command.enqueue.slice(start.enqueue, end.enqueue);
  const names = new Set(enqueue.map(({ queue }) => queue.name));
  return draft.created
    .slice(mark.created)
    .reduce((count, queue) => (!queue.isReserved && names.has(queue.ledger.name.name) ? count + 1 : count), 0);
}

/** Number of the first `length` queues that count. Default: of all. */
function countOf(queues: readonly Queue[], length = queues.length): number {
  let count = 0;
  for (let at = 0; at < length; at++) if (queues[at]?.isReserved === false) count++;
  return count;
}

/**
 * What the changes add to the tasks and bytes of a group. Records count neither here nor in what the group uses, but for the
 * bytes of signals that came before their tasks: nothing else bounds these.
 */
function usageOf(changes: readonly PlannedChange[]): { tasks: number; bytes: number } {
  const more = { tasks: 0, bytes: 0 };
  for (const { queue, change } of changes) {
    if (queue.isReserved && !signalRecords.has(queue.ledger.name)) continue;
    const before = stateBefore(change);
    const after = stateAfter(change);
    if (!queue.isReserved) more.tasks += (after === undefined ? 0 : 1) - (before === undefined ? 0 : 1);
    more.bytes += (after?.dataBytes ?? 0) - (before?.dataBytes ?? 0);
  }
  return more;
}

function refusalByQuota(
  used: GroupUsage | undefined,
  group: string,
  quotas: GroupLimits,
  before: GroupUsage,
  more: GroupUsage,
): Refusal | undefined {
  for (const quota of groupQuotas) {
    const limit = quotas[quota];
    if (limit === undefined || more[quota] <= 0) continue;
    const now = (used?.[quota] ?? 0) + before[quota];
    if (now + more[quota] > limit) return beyondQuota(group, quota, limit, now);
  }
  return undefined;
}

const tooManyKinds = ({ fullName }: Queue): Refusal =>
  new Refusal(
    'TOO_MANY_ITEMS',
    `the tasks of the queue ${fullName} have ${limits.queueKinds} kinds: no other may come`,
    {
      metadata: { queue: fullName, limit: String(limits.queueKinds) },
    },
  );

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
