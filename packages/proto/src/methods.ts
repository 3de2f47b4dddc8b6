import { type EntryBound, entryBounds } from './entries/entry-bounds.ts';
import { AccessServiceService } from './gen/taskmaster/v1/access.ts';
import { BackupServiceService } from './gen/taskmaster/v1/backup.ts';
import { BulkAction, type BulkSpec } from './gen/taskmaster/v1/bulk.ts';
import { ClusterServiceService } from './gen/taskmaster/v1/cluster.ts';
import { TaskMasterServiceService } from './gen/taskmaster/v1/service.ts';
import type { StreamCall } from './gen/taskmaster/v1/stream.ts';
import type { GroupRight, Right } from './rights.ts';

// One row for each RPC that callers may make. Servers, routers, transports and the audit log are built from these rows. A method
// without a row, or a row without one of the facts, does not compile. `Stream` has no row: it carries calls of other methods.

const { stream: _, ...taskService } = TaskMasterServiceService;
const definitions = { ...taskService, ...ClusterServiceService, ...AccessServiceService, ...BackupServiceService };
type Definitions = typeof definitions;

/** The name of a method in code, as in `peekTasks`. */
export type MethodKey = keyof Definitions;
/** A method of the TaskMasterService with one request and one reply. */
export type TaskMethodKey = keyof typeof taskService;
/** A method of the ClusterService. */
export type ClusterMethodKey = keyof typeof ClusterServiceService;
/** The name of a method in gRPC, as in `PeekTasks`. */
export type MethodName<K extends MethodKey = MethodKey> = Capitalize<K>;
export type RequestOf<K extends MethodKey> = ReturnType<Definitions[K]['requestDeserialize']>;
export type ReplyOf<K extends MethodKey> = ReturnType<Definitions[K]['responseDeserialize']>;

/**
 * What a repetition of a call does whose answer was lost. `read`: nothing, because the call changes nothing. `harmless`: nothing
 * more than the first attempt, because the request says how something is to be, or because its tasks come back. `unsafe`: it may
 * take effect once more.
 */
export type Repetition = 'read' | 'harmless' | 'unsafe';

/** The field of a request that names its group: a queue, a pattern of queues, a schedule or a topic, as `group#name`. */
type GroupField = 'queue' | 'queues' | 'schedule' | 'topic';

/** Queues, schedules or topics that a request names, or its partition. They say which node gets it. */
export type RoutedNames = number | string | readonly string[] | undefined;

/** The right on the group that a field of the request names. `whole`: the field may also name the whole group. */
export interface GroupScope {
  readonly of: 'group';
  readonly field: GroupField;
  readonly right: GroupRight;
  readonly whole?: 'as group#' | 'as group# or empty';
}

export type Scope<Q> =
  /** One group. The call goes to its holder. */
  | (GroupScope & { readonly field: keyof Q })
  /** Tasks and queues, each of which takes a right. The code that serves the method checks the rights and finds the holders. */
  | { readonly of: 'items'; readonly routedBy: (request: Q) => RoutedNames }
  /** The cluster. Undefined: every principal may ask. */
  | {
      readonly of: 'cluster';
      readonly right: Exclude<Right, GroupRight> | undefined;
      readonly routedBy?: (request: Q) => RoutedNames;
    };

/** What the audit log says of a call beside its caller. */
export interface AuditFacts {
  readonly target: string;
  readonly details?: Readonly<Record<string, string | boolean>>;
}

/** Whether a message has lists or maps, at any depth. */
type HasEntries<T> = T extends Uint8Array | string | number | boolean | undefined
  ? false
  : T extends readonly unknown[]
    ? true
    : string extends keyof T
      ? true
      : true extends { [K in keyof T]-?: HasEntries<T[K]> }[keyof T]
        ? true
        : false;

/** The kinds of calls on a stream. All but updates may wait. */
export type StreamCase = Exclude<NonNullable<StreamCall['call']>['$case'], 'cancel'>;

/** The facts of one method. */
interface Facts<Q> {
  readonly scope: Scope<Q>;
  readonly repetition: Repetition;
  /** Whether it reads much, so that it waits for its turn among other such calls. */
  readonly isLarge: boolean | ((request: Q) => boolean);
  /** What the audit log records of the call. Undefined: nothing but refusals for want of rights. */
  readonly audit: ((request: Q) => AuditFacts | undefined) | undefined;
  /** The limits that are checked before a request is decoded. */
  readonly entries?: readonly EntryBound[];
  /** As what its calls go over a stream. Undefined: they do not. */
  readonly streamed?: StreamCase;
  /** Whether a request is refused that has fields of a later release: without its conditions it would change more. */
  readonly isExact?: boolean;
}

type Row<Q> = Facts<Q> & (HasEntries<Q> extends true ? { readonly entries: readonly EntryBound[] } : unknown);

/** What a bulk run does, as in `BULK_ACTION_RETRY`. */
export const bulkName = (spec: BulkSpec | undefined): string =>
  Object.entries(BulkAction).find(([, action]) => action === spec?.action)?.[0] ?? 'unknown';

/** A reply with at least this number of items counts as large. */
const LARGE_ITEMS = 100;

const rows = {
  updateTasks: {
    scope: {
      of: 'items',
      // All its queues have the same group.
      routedBy: ({ enqueue, dequeue, renew, release }) => (enqueue[0] ?? dequeue[0] ?? renew[0] ?? release[0])?.queue,
    },
    // With a request id it is harmless.
    repetition: 'unsafe',
    isLarge: false,
    audit: undefined,
    streamed: 'update',
    entries: entryBounds.update,
  },
  leaseTasks: {
    scope: { of: 'items', routedBy: ({ queues }) => queues },
    // Tasks of a lost reply are available again when their leases expire.
    repetition: 'harmless',
    isLarge: false,
    audit: undefined,
    streamed: 'lease',
    entries: entryBounds.lease,
  },
  batchUpdateTasks: {
    scope: { of: 'items', routedBy: () => undefined },
    repetition: 'unsafe',
    isLarge: false,
    audit: undefined,
    entries: entryBounds.batchUpdate,
  },
  batchLeaseTasks: {
    scope: { of: 'items', routedBy: () => undefined },
    repetition: 'harmless',
    isLarge: false,
    audit: undefined,
    entries: entryBounds.batchLease,
  },
  waitForTasks: {
    scope: { of: 'items', routedBy: ({ tasks }) => tasks[0]?.queue },
    repetition: 'read',
    isLarge: false,
    audit: undefined,
    streamed: 'wait',
    entries: entryBounds.wait,
  },
  readEvents: {
    scope: { of: 'items', routedBy: ({ queues }) => queues },
    repetition: 'read',
    isLarge: false,
    audit: undefined,
    streamed: 'events',
    entries: entryBounds.events,
  },
  listQueues: {
    scope: { of: 'items', routedBy: () => undefined },
    repetition: 'read',
    isLarge: true,
    audit: undefined,
  },
  getQueueStats: {
    scope: { of: 'items', routedBy: ({ queues }) => queues },
    repetition: 'read',
    isLarge: ({ queues }) => queues.length === 0 || queues.length >= LARGE_ITEMS,
    audit: undefined,
    entries: entryBounds.stats,
  },
  getOverview: {
    // Nodes leave out the queues that the caller may not read.
    scope: { of: 'items', routedBy: () => undefined },
    repetition: 'read',
    isLarge: true,
    audit: undefined,
  },
  peekTasks: {
    scope: { of: 'group', field: 'queue', right: 'read' },
    repetition: 'read',
    isLarge: ({ includeData, limit, kinds }) => includeData || kinds !== undefined || limit >= LARGE_ITEMS,
    audit: undefined,
    entries: entryBounds.peek,
  },
  getTasks: {
    scope: { of: 'group', field: 'queue', right: 'read' },
    repetition: 'read',
    isLarge: ({ includeData, includeChildren, pids, keys }) =>
      includeData || includeChildren === true || pids.length + keys.length >= LARGE_ITEMS,
    audit: undefined,
    entries: entryBounds.get,
  },
  deleteQueue: {
    scope: { of: 'group', field: 'queue', right: 'manage-queues' },
    // A repetition could delete a new queue of the same name.
    repetition: 'unsafe',
    isLarge: false,
    audit: ({ queue }) => ({ target: queue }),
  },
  resetLeases: {
    scope: { of: 'group', field: 'queue', right: 'manage-queues' },
    repetition: 'unsafe',
    isLarge: false,
    audit: ({ queue }) => ({ target: queue }),
  },
  putQueueSettings: {
    scope: { of: 'group', field: 'queues', right: 'manage-queues' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ queues }) => ({ target: queues }),
    entries: entryBounds.settings,
  },
  deleteQueueSettings: {
    scope: { of: 'group', field: 'queues', right: 'manage-queues' },
    repetition: 'unsafe',
    isLarge: false,
    audit: ({ queues }) => ({ target: queues }),
  },
  listQueueSettings: {
    scope: { of: 'group', field: 'queue', right: 'read', whole: 'as group# or empty' },
    repetition: 'read',
    isLarge: true,
    audit: undefined,
  },
  pauseQueues: {
    scope: { of: 'group', field: 'queues', right: 'manage-queues' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ queues, reason }) => ({ target: queues, details: { reason } }),
  },
  resumeQueues: {
    scope: { of: 'group', field: 'queues', right: 'manage-queues' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ queues }) => ({ target: queues }),
  },
  limitQueues: {
    scope: { of: 'group', field: 'queues', right: 'manage-queues' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ queues, maxLeased, rate, keys }) => ({
      target: queues,
      details: { keys, maxLeased: String(maxLeased), rate: rate ? `${rate.tasks} in ${rate.perMs} ms` : '' },
    }),
  },
  unlimitQueues: {
    scope: { of: 'group', field: 'queues', right: 'manage-queues' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ queues, keys }) => ({ target: queues, details: { keys } }),
  },
  startBulkRun: {
    scope: { of: 'group', field: 'queues', right: 'lease' },
    repetition: 'harmless',
    isLarge: ({ preview }) => preview,
    audit: ({ id, queues, spec, preview }) =>
      preview ? undefined : { target: queues, details: { run: id, bulk: bulkName(spec), spec: JSON.stringify(spec) } },
    entries: entryBounds.bulk,
    isExact: true,
  },
  listBulkRuns: {
    scope: { of: 'group', field: 'queue', right: 'read', whole: 'as group# or empty' },
    repetition: 'read',
    isLarge: true,
    audit: undefined,
  },
  cancelBulkRun: {
    scope: { of: 'group', field: 'queue', right: 'lease', whole: 'as group# or empty' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ queue, id }) => ({ target: queue, details: { run: id } }),
  },
  putSchedule: {
    scope: { of: 'group', field: 'schedule', right: 'enqueue' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ schedule }) => ({ target: schedule }),
    entries: entryBounds.schedule,
  },
  listSchedules: {
    scope: { of: 'items', routedBy: ({ schedule }) => schedule },
    repetition: 'read',
    isLarge: true,
    audit: undefined,
  },
  deleteSchedule: {
    scope: { of: 'group', field: 'schedule', right: 'enqueue' },
    repetition: 'unsafe',
    isLarge: false,
    audit: ({ schedule }) => ({ target: schedule }),
  },
  pauseSchedule: {
    scope: { of: 'group', field: 'schedule', right: 'enqueue' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ schedule, paused }) => ({ target: schedule, details: { paused } }),
  },
  triggerSchedule: {
    scope: { of: 'group', field: 'schedule', right: 'enqueue' },
    repetition: 'unsafe',
    isLarge: false,
    audit: ({ schedule }) => ({ target: schedule }),
  },
  subscribe: {
    // Who may lease the tasks of a group may also direct copies of published tasks to its queues: it could remove any task
    // already.
    scope: { of: 'group', field: 'topic', right: 'lease' },
    repetition: 'harmless',
    isLarge: false,
    // One with a time to live is renewed all the time.
    audit: ({ topic, queue, ttlMs }) => (ttlMs === 0 ? { target: topic, details: { queue } } : undefined),
    entries: entryBounds.subscribe,
  },
  unsubscribe: {
    scope: { of: 'group', field: 'topic', right: 'lease' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ topic, queue }) => ({ target: topic, details: { queue } }),
  },
  listSubscriptions: {
    scope: { of: 'group', field: 'topic', right: 'read', whole: 'as group#' },
    repetition: 'read',
    isLarge: true,
    audit: undefined,
  },
  listMembers: {
    scope: { of: 'cluster', right: undefined },
    repetition: 'read',
    isLarge: false,
    audit: undefined,
  },
  listPartitions: {
    scope: { of: 'cluster', right: undefined },
    repetition: 'read',
    isLarge: false,
    audit: undefined,
  },
  drainMember: {
    scope: { of: 'cluster', right: 'manage-cluster' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ name }) => ({ target: name }),
  },
  resumeMember: {
    scope: { of: 'cluster', right: 'manage-cluster' },
    repetition: 'harmless',
    isLarge: false,
    audit: ({ name }) => ({ target: name }),
  },
  removeMember: {
    scope: { of: 'cluster', right: 'manage-cluster' },
    // The answer to a repetition would be that the member has left, without what was lost.
    repetition: 'unsafe',
    isLarge: false,
    audit: ({ name, also, acceptLoss }) => ({ target: [name, ...also].join(', '), details: { acceptLoss } }),
    entries: [],
  },
  whoAmI: {
    scope: { of: 'cluster', right: undefined },
    repetition: 'read',
    isLarge: false,
    audit: undefined,
    entries: [],
  },
  backupPartition: {
    scope: { of: 'cluster', right: 'back-up', routedBy: ({ partition }) => partition },
    repetition: 'read',
    isLarge: false,
    // A backup has a call for each partition. Together they are one line or two.
    audit: ({ failure }) => ({ target: '', ...(failure !== undefined && { details: { failure } }) }),
  },
} satisfies { readonly [K in MethodKey]: Row<RequestOf<K>> };
type Rows = typeof rows;

/** A method of the TaskMasterService that is about one group. */
export type GroupMethodKey = {
  [K in TaskMethodKey]: Rows[K]['scope'] extends { readonly of: 'group' } ? K : never;
}[TaskMethodKey];

/** A method with its facts, and how its messages are encoded. */
export interface Method<Q, R> extends Facts<Q> {
  readonly key: MethodKey;
  readonly name: MethodName;
  /** As in `/taskmaster.v1.TaskMasterService/PeekTasks`. */
  readonly path: string;
  readonly requestSerialize: (request: Q) => Buffer;
  readonly requestDeserialize: (bytes: Uint8Array) => Q;
  readonly responseSerialize: (reply: R) => Buffer;
  readonly responseDeserialize: (bytes: Uint8Array) => R;
}

type Methods = { readonly [K in MethodKey]: Method<RequestOf<K>, ReplyOf<K>> };
const keysOf = <K extends string>(record: Readonly<Record<K, unknown>>): readonly K[] => Object.keys(record) as K[];

/** The name of a method in gRPC. */
export const methodName = <K extends MethodKey>(key: K): MethodName<K> =>
  `${key.charAt(0).toUpperCase()}${key.slice(1)}` as MethodName<K>;

/** All methods. */
export const methods = Object.fromEntries(
  keysOf(definitions).map((key) => [key, { ...definitions[key], ...rows[key], key, name: methodName(key) }]),
) as unknown as Methods;

export const methodKeys: readonly MethodKey[] = keysOf(definitions);
export const taskMethodKeys: readonly TaskMethodKey[] = keysOf(taskService);
export const clusterMethodKeys: readonly ClusterMethodKey[] = keysOf(ClusterServiceService);

export const groupMethodKeys: readonly GroupMethodKey[] = taskMethodKeys.filter(
  (key): key is GroupMethodKey => rows[key].scope.of === 'group',
);

export const groupScope = (key: GroupMethodKey): GroupScope => rows[key].scope;

/** Something for each of these methods, by its name in gRPC. */
export function byMethodName<K extends MethodKey, T>(
  keys: readonly K[],
  make: (key: K) => T,
): Record<MethodName<K>, T> {
  return Object.fromEntries(keys.map((key) => [methodName(key), make(key)])) as Record<MethodName<K>, T>;
}

/** One function for each of these methods. `More`: what it gets beside the request. */
export type MethodHandlers<K extends MethodKey, More extends readonly unknown[] = []> = {
  readonly [M in K]: (request: RequestOf<M>, ...more: More) => Promise<ReplyOf<M>>;
};

/** The name of what a request about one group is about. */
export const nameIn = ({ field }: GroupScope, request: object): string =>
  (request as Readonly<Record<GroupField, string>>)[field];

/** The names in a request that say which node gets it. Undefined: any node. */
export const routedNames = <Q extends object>({ scope }: Pick<Facts<Q>, 'scope'>, request: Q): RoutedNames =>
  scope.of === 'group' ? nameIn(scope, request) : scope.routedBy?.(request);

/** How long a request may wait before it is answered, in ms. */
export const waitOf = (request: { readonly waitMs?: number }): number => request.waitMs ?? 0;
