import {
  BulkAction,
  type BulkFilter,
  type BulkRun,
  BulkRunState,
  type BulkSpec,
  BulkTasks,
  parseQueueName,
  type QueueName,
  StoredBulkRun,
} from '@taskmaster/proto';
import type { TaskView } from './commands.ts';
import type { TaskHeaders } from './headers.ts';
import type { Instant, Pid, QueueId } from './ids.ts';
import { KindFilter } from './kind-filter.ts';
import { isLeasedAt, kindOf, type TaskState } from './task.ts';
import { filterOf, testOf } from './topics.ts';

/** A bulk run as memory knows it. A change makes another one. */
export interface BulkRunRecord {
  readonly stored: StoredBulkRun;
  readonly run: BulkRun & { readonly spec: BulkSpec };
  /** Its name is the pattern. */
  readonly queues: QueueName;
  /** When its next slice is due, or when the record of an ended run goes. Undefined: now. */
  readonly until: Instant | undefined;
  /** False: a later release wrote it, with conditions or actions that this one does not know. It must change nothing. */
  readonly isKnown: boolean;
}

/** A run that has ended. */
export type EndedBulkRun = BulkRunRecord['run'];

export function decodeBulkRun(bytes: Uint8Array, until: Instant | undefined): BulkRunRecord {
  const stored = StoredBulkRun.decode(bytes);
  const { run } = stored;
  if (run?.spec === undefined) throw new RangeError('the record of a bulk run has no spec');
  const { spec } = run;
  // The decoder leaves fields out that it does not know.
  const isKnown = isKnownSpec(spec) && StoredBulkRun.encode(stored).finish().byteLength === bytes.byteLength;
  return { stored, run: { ...run, spec }, queues: parseQueueName(run.queues), until, isKnown };
}

function isKnownSpec({ action, filter }: BulkSpec): boolean {
  const tests = filter?.headers?.all ?? [];
  return bulkActions.has(action) && bulkTasks.has(filter?.tasks ?? 0) && tests.every(({ test }) => test !== undefined);
}

/** The actions and the states of tasks that this release knows. */
export const bulkActions: ReadonlySet<number> = new Set(Object.values(BulkAction).filter((action) => action > 0));
export const bulkTasks: ReadonlySet<number> = new Set(Object.values(BulkTasks).filter((tasks) => tasks >= 0));

export const goesOn = ({ run }: Pick<BulkRunRecord, 'run'>): boolean =>
  run.state === BulkRunState.BULK_RUN_STATE_RUNNING;

/** Which tasks a run is about. */
export interface TaskFilter {
  /** Whether a task matches by its state. */
  readonly matches: (state: TaskState, now: Instant) => boolean;
  /** Whether its headers pass too. They are in its payload. Undefined: all do. */
  readonly passes: ((headers: TaskHeaders) => boolean) | undefined;
}

/** The filter of a run that began at `began`. Tasks that came into their queue later never match. */
export function taskFilter({ action, filter }: BulkSpec, began: Instant): TaskFilter {
  const { tasks, minAgeMs, maxAgeMs, errorContains, headers, keyPrefix, kind } = filter ?? NO_FILTER;
  const latest = began - minAgeMs;
  const earliest = maxAgeMs === 0 ? 0 : began - maxAgeMs;
  const text = errorContains.toLowerCase();
  const accepted = kind ? new KindFilter([kind]) : undefined;
  const isOfState = stateTest(tasks);
  const isOfAction = stateTest(tasksOf[action] ?? BulkTasks.BULK_TASKS_UNSPECIFIED);
  return {
    matches(state, now) {
      const since = inQueueSince(state);
      if (since > latest || since < earliest || !isOfState(state, now) || !isOfAction(state, now)) return false;
      if (accepted?.accepts(kindOf(state)) === false) return false;
      if (keyPrefix !== '' && !state.history?.key?.startsWith(keyPrefix)) return false;
      return text === '' || (state.history?.failures.at(-1)?.error?.message.toLowerCase().includes(text) ?? false);
    },
    passes: headers === undefined ? undefined : testOf(filterOf(headers)),
  };
}

const NO_FILTER: BulkFilter = {
  tasks: BulkTasks.BULK_TASKS_UNSPECIFIED,
  minAgeMs: 0,
  maxAgeMs: 0,
  errorContains: '',
  headers: undefined,
  keyPrefix: '',
};

/** Whether a filter lets some tasks out. */
export const isFiltering = (filter: BulkFilter | undefined): boolean =>
  filter !== undefined && Object.values(filter).some((value) => Boolean(value));

/** The tasks that an action is about. Others: all. */
const tasksOf: Partial<Record<BulkAction, BulkTasks>> = {
  [BulkAction.BULK_ACTION_RETRY]: BulkTasks.BULK_TASKS_DEAD_LETTERS,
  [BulkAction.BULK_ACTION_PROMOTE]: BulkTasks.BULK_TASKS_DELAYED,
};

function stateTest(tasks: BulkTasks): TaskFilter['matches'] {
  switch (tasks) {
    case BulkTasks.BULK_TASKS_LEASED:
      return isLeasedAt;
    case BulkTasks.BULK_TASKS_AVAILABLE:
      return (state, now) => !isLeasedAt(state, now) && !isDelayedAt(state, now);
    case BulkTasks.BULK_TASKS_DELAYED:
      return (state, now) => !isLeasedAt(state, now) && isDelayedAt(state, now);
    case BulkTasks.BULK_TASKS_DEAD_LETTERS:
      return ({ history }) => history?.origin !== undefined;
    default:
      return () => true;
  }
}

const isDelayedAt = ({ visibility }: TaskState, now: Instant): boolean =>
  visibility.kind === 'hidden' && visibility.until > now;

/** When a task came into its queue: at its enqueue, or when its last attempt failed. */
function inQueueSince({ enqueuedAt, history }: TaskState): Instant {
  const origin = history?.origin;
  if (origin === undefined) return enqueuedAt;
  // A dead letter that replaces an earlier one of its task has the time of the earlier one.
  return Math.max(enqueuedAt, origin.died?.at ?? 0, history?.failures.at(-1)?.at ?? 0) as Instant;
}

/** What a bulk run is to do. */
export interface BulkCommand {
  /** Its name is the pattern. */
  readonly queues: QueueName;
  readonly spec: BulkSpec;
}

export interface StartedBulkRun {
  readonly record: BulkRunRecord;
  /** False: the group had the run already. */
  readonly started: boolean;
}

/** A place in the order of tasks: behind this PID in the queue, or in the first queue with a larger id. */
export interface BulkPlace {
  readonly queueId: QueueId;
  readonly after: Pid;
}

/** What a run would do now. */
export interface BulkPreview {
  readonly queues: number;
  readonly tasks: number;
  readonly lookedAt: number;
  readonly matched: number;
  readonly leased: number;
  readonly samples: readonly TaskView[];
  /** Where it goes on. Undefined: it has looked at all tasks. */
  readonly next: BulkPlace | undefined;
}

/** The operations of a node on bulk runs. */
export interface BulkOperations {
  /** Throws a `Refusal` if the group has another run with this id, or too many runs. */
  start(command: BulkCommand & { readonly id: string; readonly by: string }): Promise<StartedBulkRun>;
  /** Looks at a bounded number of tasks. `from`: where an earlier one has ended. Default: at the first task. */
  preview(command: BulkCommand, from?: BulkPlace): Promise<BulkPreview>;
  /** The runs of a group, the latest one first. */
  list(group: string): Promise<readonly BulkRunRecord[]>;
  /** Resolves with the run as it is then. Undefined: there is none. `cancelled`: it went on. */
  cancel(
    group: string,
    id: string,
  ): Promise<{ readonly record: BulkRunRecord | undefined; readonly cancelled: boolean }>;
}
