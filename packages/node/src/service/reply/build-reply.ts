import {
  BATCH_START,
  dataOf,
  type Failure,
  headerRoom,
  headersOf,
  isParked,
  type KeptSignal,
  type LeasedSignals,
  type LeasedTask,
  type LimitUse,
  leasedHistoryBytes,
  limitMessage,
  type MatchedQueue,
  NEVER,
  NO_LINKS,
  type PauseRecord,
  type Pid,
  type PublishedTask,
  type QueuePage,
  type QueueStats,
  Refusal,
  type RetryPolicy,
  type StatsReport,
  shownBytes,
  type TaskState,
  type TaskView,
  type UpdateEnd,
  type UpdateOutcome,
} from '@taskmaster/engine/domain';
import {
  ChildFailure,
  formatQueueName,
  type GetQueueStatsResponse,
  type LeaseTasksResponse,
  type ListQueuesResponse,
  limits,
  type Publication,
  type QueueKinds,
  type QueueName,
  type QueueStats as QueueStatsMessage,
  type QueueWatch,
  type RetryPolicy as RetryPolicyMessage,
  type TaskFailure,
  type TaskInfo,
  type TaskParent,
  type TaskSignal,
  TaskState as TaskStateMessage,
  type TaskWaits,
  type UpdateTasksResponse,
  WaitTimeout,
  type LeasedSignals as WireSignals,
} from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/calls';
import { pageTokenAfter } from '@taskmaster/server/requests';

/** Upper limits for the numbers and tags of an entry, without names, PID and data, in bytes. */
const STATS_BYTES = 138;
const PAUSE_BYTES = 32;
const LIMIT_BYTES = 96;
const KIND_BYTES = 48;
const HELD_KEY_BYTES = 24;
const WATCH_BYTES = 48;
const TROUBLE_BYTES = 32;
/** A whole number and three of four bytes. */
const SAMPLE_BYTES = 22;
const LEASED_BYTES = 106;
const TASK_BYTES = 195;
const PARENT_BYTES = 32;
const FAILURE_BYTES = 48;

/** Maximum size of all queues that a lease reply names beside its tasks, and of the numbers and tags of one of them. */
const MORE_QUEUES_BYTES = 32 * 1024;
const MATCHED_BYTES = 20;

const NO_DATA = Buffer.alloc(0);

/** A PID, for the protocol. */
export const pidMessage = (pid: Pid): Buffer => Buffer.from(pid, 'latin1');

/** The reply to an update, or to one of a batch: to the outcomes between these places. */
export function updateReply(
  { enqueued, renewed, released }: UpdateOutcome,
  from: OutcomeEnd = BATCH_START,
  to?: OutcomeEnd,
): UpdateTasksResponse {
  return {
    enqueued: between(enqueued, from.enqueue, to?.enqueue).map(({ pid, result, leased, published }) => ({
      pid: pidMessage(pid),
      result,
      leased,
      published: published && publication(published),
    })),
    renewed: between(renewed, from.renew, to?.renew).map(({ until, cancelReason }) => ({
      leaseUntilUnixMs: until,
      cancelReason,
    })),
    released: between(released, from.release, to?.release).map(({ until, deadLetterQueue }) => ({
      hiddenUntilUnixMs: until ?? 0,
      deadLetterQueue: deadLetterQueue ?? '',
    })),
    refused: [],
  };
}

function between<T>(outcomes: readonly T[], from: number, to = outcomes.length): readonly T[] {
  if (to > outcomes.length) throw new RangeError(`the engine left out outcome ${outcomes.length}`);
  return from === 0 && to === outcomes.length ? outcomes : outcomes.slice(from, to);
}

const publication = (published: readonly PublishedTask[]): Publication => ({
  tasks: published.map(({ queue, pid, result, leased }) => ({
    queue: formatQueueName(queue),
    pid: pidMessage(pid),
    result,
    leased,
  })),
});

type OutcomeEnd = Omit<UpdateEnd, 'dequeue'>;

export function leaseReply(tasks: readonly LeasedTask[], moreQueues?: readonly MatchedQueue[]): LeaseTasksResponse {
  return {
    moreQueues: moreQueues === undefined ? [] : withinBytes(moreQueues),
    tasks: tasks.map((task) => ({
      queue: formatQueueName(task.queue),
      pid: pidMessage(task.pid),
      data: dataOf(task),
      leaseToken: task.token,
      leaseUntilUnixMs: task.until,
      attempt: task.attempt,
      enqueuedUnixMs: task.enqueuedAt,
      maxAttempts: task.maxAttempts === limits.defaultMaxAttempts ? undefined : task.maxAttempts,
      progress: task.history?.progress?.text ?? '',
      checkpoint: task.history?.checkpoint,
      key: task.history?.key ?? '',
      headers: headersOf(task),
      leaseDurationMs: task.leaseDurationMs ?? 0,
      timeLimitMs: task.timeLimitMs,
      patternId: task.patternId ?? 0,
      unbegun: task.unbegun,
      signals: task.signals && leasedSignals(task.signals, task.queue.group),
      kind: task.history?.given?.kind,
      limitKey: task.history?.given?.limitKey || undefined,
      orderKey: task.history?.links?.orderKey,
    })),
  };
}

function leasedSignals(came: LeasedSignals, group: string): WireSignals {
  if (came.kind === 'left out') return { signals: [], dropped: 0, leftOut: true };
  const { kept, dropped } = came.box;
  return { signals: kept.map((signal) => signalMessage(signal, group)), dropped, leftOut: false };
}

/** The first of these queues. Beside the tasks of a reply there is room for 64 KiB. */
function withinBytes(matched: readonly MatchedQueue[]): LeaseTasksResponse['moreQueues'] {
  let left = MORE_QUEUES_BYTES;
  const named = matched.map(({ queue, patternId }) => ({ queue: formatQueueName(queue), patternId }));
  return named.filter(({ queue }) => {
    left -= Buffer.byteLength(queue) + MATCHED_BYTES;
    return left >= 0;
  });
}

/** How many of the first tasks fit into a reply of `bytes`, and their size. */
export function fittingTasks(
  tasks: readonly LeasedTask[],
  bytes: number,
): { readonly count: number; readonly bytes: number } {
  let used = 0;
  for (const [index, task] of tasks.entries()) {
    const rest = LEASED_BYTES + nameBytes(task.queue) + task.pid.length + leasedHistoryBytes(task.history);
    const ofSignals = task.signals?.kind === 'all' ? shownBytes(task.signals.box, task.queue.group) : 0;
    const more = rest + task.data.length + headerRoom(task.headerBytes) + ofSignals;
    if (used + more > bytes) return { count: index, bytes: used };
    used += more;
  }
  return { count: tasks.length, bytes: used };
}

/** Builds a page of a listing. The page ends early if the reply would get too large; its token continues from there. */
/** What is known of a queue beside its statistics. */
type WatchOf = (queue: string, stats: QueueStats) => QueueWatch;

export function listReply(page: QueuePage, watchOf?: WatchOf): ListQueuesResponse {
  const queues = statsWithin(page.queues, watchOf);
  const last = page.queues[queues.length - 1];
  const more = page.more || queues.length < page.queues.length;
  return {
    queues,
    nextPageToken: more && last !== undefined ? pageTokenAfter(last.queue) : '',
    unreachable: [],
  };
}

export function statsReply(report: StatsReport, kind: 'named' | 'filtered', watchOf?: WatchOf): GetQueueStatsResponse {
  const queues = statsWithin(report.queues, watchOf);
  if (kind === 'named' && queues.length < report.queues.length) {
    throw new Refusal('TOO_MANY_ITEMS', `queues: the reply would exceed ${REPLY_BYTES} bytes; name fewer queues`, {
      metadata: { field: 'queues', limit: String(REPLY_BYTES) },
    });
  }
  return { queues, totals: { ...report.totals }, unreachable: [] };
}

/** The size of a task in a reply, in bytes. Its payload counts only if it is included. */
export function taskInfoBytes(view: TaskView, includeData: boolean): number {
  const { queue, pid, key, state } = view;
  const lease = state?.visibility.kind === 'hidden' ? state.visibility.lease : undefined;
  const texts = [lease?.worker, lease?.workerAddress, state?.retry && queue.group + state.retry.deadLetterQueue];
  const textBytes = texts.reduce<number>((sum, text) => sum + Buffer.byteLength(text ?? ''), nameBytes(queue));
  const payloadBytes = includeData && state !== undefined ? state.dataBytes + headerRoom(state.headerBytes) : 0;
  const keyBytes = state === undefined ? Buffer.byteLength(key ?? '') : 0;
  const linkBytes = state?.history?.links === undefined ? 0 : bytesOfLinks(view);
  const signalBytes = view.signals === undefined ? 0 : shownBytes(view.signals, queue.group);
  const childBytes = bytesOfParents(queue, view.children?.tasks ?? []);
  const restBytes = payloadBytes + linkBytes + signalBytes + childBytes;
  return TASK_BYTES + textBytes + bytesOfPast(view) + pid.length + keyBytes + restBytes;
}

function bytesOfLinks({ queue, state }: TaskView): number {
  const { parents, orderKey = '' } = state?.history?.links ?? NO_LINKS;
  return Buffer.byteLength(orderKey) + bytesOfParents(queue, parents);
}

function bytesOfParents(queue: QueueName, parents: readonly ParentName[]): number {
  let bytes = 0;
  for (const { queue: name, pid, key = '' } of parents) {
    bytes += PARENT_BYTES + nameBytes({ ...queue, name }) + pid.length + Buffer.byteLength(key);
  }
  return bytes;
}

/** The size of what a task keeps of its past, in a reply. */
function bytesOfPast(view: TaskView): number {
  const history = view.state?.history;
  if (history === undefined) return 0;
  let bytes = Buffer.byteLength(originName(view)) + leasedHistoryBytes(history);
  bytes += Buffer.byteLength(cancelledIn(view)?.reason ?? '');
  for (const { worker, error } of history.failures) {
    const texts = [worker, error?.message ?? '', error?.details ?? ''];
    bytes += texts.reduce((sum, text) => sum + Buffer.byteLength(text), FAILURE_BYTES);
  }
  return bytes;
}

export function taskInfo(view: TaskView, includeData: boolean): TaskInfo {
  const { queue, pid, state } = view;
  const data = includeData ? view.data : undefined;
  const payload = { data: data ?? NO_DATA, headerBytes: data === undefined ? 0 : (state?.headerBytes ?? 0) };
  const visibility = state?.visibility;
  const lease = visibility?.kind === 'hidden' ? visibility.lease : undefined;
  return {
    queue: formatQueueName(queue),
    pid: pidMessage(pid),
    state: stateMessage(state),
    data: dataOf(payload),
    attempts: state?.attempts ?? 0,
    enqueuedUnixMs: state?.enqueuedAt ?? 0,
    hiddenUntilUnixMs: visibility?.kind === 'hidden' && visibility.until !== NEVER ? visibility.until : 0,
    leaseToken: state?.token ?? 0,
    workerAddress: lease?.workerAddress ?? '',
    workerLabel: lease?.worker ?? '',
    leasedUnixMs: lease?.since ?? 0,
    retry: state?.retry === undefined ? undefined : retryMessage(state.retry, queue.group),
    failures: state?.history?.failures.map(failureMessage) ?? [],
    deadLetterFrom: originName(view),
    progress: state?.history?.progress?.text ?? '',
    progressUnixMs: state?.history?.progress?.at ?? 0,
    checkpointBytes: state?.history?.checkpoint?.byteLength ?? 0,
    interruptions: state?.history?.interruptions ?? 0,
    begun: lease?.suspects === 0,
    key: state === undefined ? (view.key ?? '') : (state.history?.key ?? ''),
    timeLimitMs: state?.history?.given?.timeLimitMs ?? 0,
    limitKey: state?.history?.given?.limitKey ?? '',
    kind: state?.history?.given?.kind,
    startByUnixMs: state?.history?.startBy,
    waits: state === undefined ? undefined : waitsMessage(state),
    parents: parentMessages(view),
    orderKey: state?.history?.links?.orderKey ?? '',
    signals: view.signals?.kept.map((signal) => signalMessage(signal, queue.group)) ?? [],
    droppedSignals: view.signals?.dropped ?? 0,
    children: view.children?.tasks.map((child) => parentMessage(queue.group, child)) ?? [],
    moreChildren: view.children?.isCut ?? false,
    cancelReason: cancelledIn(view)?.reason,
    cancelledUnixMs: cancelledIn(view)?.at ?? 0,
    headers: headersOf(payload),
  };
}

const ON_TIMEOUT = {
  run: WaitTimeout.WAIT_TIMEOUT_RUN,
  'dead-letter': WaitTimeout.WAIT_TIMEOUT_DEAD_LETTER,
  cancel: WaitTimeout.WAIT_TIMEOUT_CANCEL,
} as const;

const ON_FAILURE = {
  fail: ChildFailure.CHILD_FAILURE_FAIL,
  continue: ChildFailure.CHILD_FAILURE_CONTINUE,
  retry: ChildFailure.CHILD_FAILURE_RETRY,
} as const;

/** Undefined: it waits for nothing but its time. */
function waitsMessage(state: TaskState): TaskWaits | undefined {
  const waits = state.history?.waits;
  if (waits === undefined || !isParked(state)) return undefined;
  const { signals, order, timeout } = waits;
  return { signals, order, onTimeout: timeout === undefined ? NO_TIMEOUT : ON_TIMEOUT[timeout.action] };
}

const NO_TIMEOUT = WaitTimeout.WAIT_TIMEOUT_UNSPECIFIED;

const parentMessages = ({ queue: { group }, state }: TaskView): TaskParent[] =>
  (state?.history?.links ?? NO_LINKS).parents.map((parent) => parentMessage(group, parent));

const parentMessage = (group: string, { queue: name, pid, key, onFailure }: ParentName): TaskParent => ({
  queue: formatQueueName({ group, name }),
  pid: pidMessage(pid),
  key: key ?? '',
  onFailure: ON_FAILURE[onFailure],
});

interface ParentName {
  /** Without the group. */
  readonly queue: string;
  readonly pid: Pid;
  readonly key?: string | undefined;
  readonly onFailure: keyof typeof ON_FAILURE;
}

function signalMessage({ id, child, data }: KeptSignal, group: string): TaskSignal {
  if (child === undefined) return { id, queue: '', pid: NO_DATA, completed: false, data };
  const queue = formatQueueName({ group, name: child.queue });
  return { id: '', queue, pid: pidMessage(child.pid), completed: child.end === 'completed', data };
}

/** Undefined also if a later enqueue took the cancellation back. */
const cancelledIn = ({ state }: TaskView) => (state?.history?.rerun === true ? undefined : state?.history?.cancelled);

const failureMessage = ({ at, attempt, worker, error }: Failure): TaskFailure => ({
  failedUnixMs: at,
  attempt,
  workerLabel: worker,
  error,
});

function originName({ queue, state }: TaskView): string {
  const origin = state?.history?.origin;
  return origin === undefined ? '' : formatQueueName({ group: queue.group, name: origin.queue });
}

function stateMessage(state: TaskState | undefined): TaskStateMessage {
  if (state === undefined) return TaskStateMessage.TASK_STATE_NOT_FOUND;
  const { visibility } = state;
  if (visibility.kind === 'available') return TaskStateMessage.TASK_STATE_AVAILABLE;
  return visibility.lease === undefined ? TaskStateMessage.TASK_STATE_DELAYED : TaskStateMessage.TASK_STATE_LEASED;
}

function retryMessage({ deadLetterQueue, ...policy }: RetryPolicy, group: string): RetryPolicyMessage {
  const name = deadLetterQueue === '' ? '' : formatQueueName({ group, name: deadLetterQueue });
  return { ...policy, deadLetterQueue: name };
}

function statsMessage(stats: QueueStats, watchOf: WatchOf | undefined): QueueStatsMessage {
  const { queue, operations: _operations, failureRate: _failureRate, pause, heldBy, heldSince, ...numbers } = stats;
  const name = formatQueueName(queue);
  return {
    ...numbers,
    queue: name,
    watch: watchOf?.(name, stats),
    pause: pause?.message,
    heldBy: heldBy.map(limitMessage),
    heldSinceUnixMs: heldSince ?? 0,
  };
}

function pauseBytes({ message: { queues, reason, pausedBy } }: PauseRecord): number {
  return PAUSE_BYTES + [queues, reason, pausedBy].reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}

function limitBytes({ record: { message }, heldKeys }: LimitUse): number {
  let bytes = LIMIT_BYTES;
  for (const text of [message.queues, message.limitedBy, message.keys]) bytes += Buffer.byteLength(text);
  for (const { key } of heldKeys) bytes += HELD_KEY_BYTES + Buffer.byteLength(key);
  return bytes;
}

const kindsBytes = ({ most }: QueueKinds): number =>
  most.reduce((sum, { kind }) => sum + KIND_BYTES + Buffer.byteLength(kind), KIND_BYTES);

const nameBytes = ({ group, name }: QueueName): number => Buffer.byteLength(group) + Buffer.byteLength(name) + 1;

function watchBytes({ troubles, history }: QueueWatch): number {
  let bytes = WATCH_BYTES + (history?.available.length ?? 0) * SAMPLE_BYTES;
  for (const { kind, message, queue } of troubles) {
    bytes += TROUBLE_BYTES + Buffer.byteLength(kind) + Buffer.byteLength(message) + Buffer.byteLength(queue);
  }
  return bytes;
}

/** The statistics of the longest prefix of the queues that fits into a reply. */
export function statsWithin(queues: readonly QueueStats[], watchOf?: WatchOf): QueueStatsMessage[] {
  const messages: QueueStatsMessage[] = [];
  let left = REPLY_BYTES;
  for (const stats of queues) {
    const { queue, pause, heldBy, kinds } = stats;
    left -= STATS_BYTES + nameBytes(queue);
    if (pause !== undefined) left -= pauseBytes(pause);
    for (const use of heldBy) left -= limitBytes(use);
    if (kinds !== undefined) left -= kindsBytes(kinds);
    const message = statsMessage(stats, watchOf);
    if (message.watch !== undefined) left -= watchBytes(message.watch);
    if (left < 0) break;
    messages.push(message);
  }
  return messages;
}
