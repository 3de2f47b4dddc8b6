import { randomUUID } from 'node:crypto';
import {
  BulkAction as Action,
  type BulkFilter,
  type BulkPlace,
  type BulkSpec,
  BulkTasks,
  formatQueueName,
  limits,
  methods,
  parseQueueName,
  BulkRunState as State,
  type BulkPreview as WirePreview,
  type BulkRun as WireRun,
} from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import { type HeaderFilter, wireFilter } from '../tasks/header-filter.ts';
import { canonicalName, queuesPattern } from '../tasks/new-task.ts';
import { type TaskSummary, taskSummary } from '../tasks/task-info.ts';
import { sleep } from '../transport/timing.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import { type Duration, dateMs, durationMs } from '../values/duration.ts';
import { cancelled } from '../values/errors.ts';
import { callHook } from '../values/hooks.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { type CallOptions, callNames } from '../values/options.ts';
import { someText } from '../values/some-text.ts';

/**
 * What a bulk run does with each task. `retry`: puts dead letters back where they came from. `move`: moves tasks to another queue
 * of the group. `delete`: removes them for ever. `cancel`: cancels them, also leased ones. `reschedule`: changes when waiting
 * tasks become available. `promote`: makes delayed tasks available.
 */
export type BulkAction = 'retry' | 'move' | 'delete' | 'cancel' | 'reschedule' | 'promote';

/** Which tasks, and what to do with them. */
export interface BulkOptions extends CallOptions {
  readonly action: BulkAction;
  /** The queues, `group#pattern`. In the pattern, `*` stands for any number of characters. */
  readonly queues: string;
  /** Only tasks in this state. Default: tasks in any state that the action is about. */
  readonly tasks?: 'available' | 'delayed' | 'leased' | 'dead-letters' | undefined;
  /** Only tasks that have been in their queue for at least this time when the run begins. */
  readonly olderThan?: Duration | undefined;
  /** Only tasks that have been in their queue for at most this time then. */
  readonly newerThan?: Duration | undefined;
  /** Only tasks whose latest failure has an error with this text in its message, in upper or lower case. */
  readonly error?: string | undefined;
  /** Only tasks with these headers. */
  readonly headers?: HeaderFilter | undefined;
  /** Only tasks with a key that begins with this text. */
  readonly keyPrefix?: string | undefined;
  /** Only tasks of a kind that matches: a kind, or a pattern in which `*` stands for any number of characters. */
  readonly kind?: string | undefined;
  /** For `move`: the queue, `group#name`, of the same group. */
  readonly to?: string | undefined;
  /** For `cancel`: why. Default: no reason. */
  readonly reason?: string | undefined;
  /** For `reschedule`: for how long tasks are hidden, or until when. */
  readonly hide?: Duration | Date | undefined;
  /** Tasks that are changed per second, on average. Default: as many as the node can between other calls. */
  readonly rate?: number | undefined;
  /** The run ends after it has changed this number of tasks. Default: no limit. */
  readonly maxTasks?: number | undefined;
  /** Must be true for all tasks of all queues of a group. */
  readonly allTasks?: boolean | undefined;
}

export interface BulkRunOptions extends BulkOptions {
  /** Names the run within its group, 1 to 64 bytes. With the id of a run that does the same, none is started. Default: random. */
  readonly id?: string | undefined;
}

/** How far a bulk run is. */
export interface BulkProgress {
  readonly id: string;
  /** `group#pattern`. */
  readonly queues: string;
  /** `unknown`: an action that this version does not know. */
  readonly action: BulkAction | 'unknown';
  /** `failed`: it cannot go on. What it has changed stays changed. `unknown`: a state that this version does not know. */
  readonly state: 'running' | 'done' | 'cancelled' | 'failed' | 'unknown';
  /** Why it has failed. */
  readonly problem: string | undefined;
  /** Tasks in its queues when it began. */
  readonly tasks: number;
  /** Tasks that it has looked at. */
  readonly lookedAt: number;
  readonly changed: number;
  /** Tasks that match and that it has left as they are, by reason: `TASK_LEASED`, `TASK_EXISTS`, ... */
  readonly skipped: Readonly<Record<string, number>>;
  /** Who started it: the name of a principal, or an address. */
  readonly by: string;
  readonly startedAt: Date;
  /** Undefined: it goes on. */
  readonly endedAt: Date | undefined;
}

export interface BulkPreviewOptions extends BulkOptions {
  /** Called with what it has counted so far, after each 100,000 tasks or 5 s. */
  readonly onProgress?: ((sofar: BulkPreview) => void) | undefined;
}

/** What a bulk run would do now. */
export interface BulkPreview {
  /** Queues that match. */
  readonly queues: number;
  /** Tasks in them. */
  readonly tasks: number;
  /** Tasks that the preview has looked at: all of them, unless the queues change meanwhile. */
  readonly lookedAt: number;
  /** Of these, tasks that match. */
  readonly matched: number;
  /** Of these, tasks that a run would leave as they are because they are leased. */
  readonly leased: number;
  /** The first tasks that match, at most 10. */
  readonly samples: readonly TaskSummary[];
}

export interface BulkDoneOptions extends CallOptions {
  /** Called with its progress, about twice a second. */
  readonly onProgress?: ((progress: BulkProgress) => void) | undefined;
}

/** Time between two looks at a run, in ms. */
const LOOK_MS = 500;

const bulkNames: OptionNames<BulkRunOptions> = {
  ...callNames,
  action: true,
  queues: true,
  tasks: true,
  olderThan: true,
  newerThan: true,
  error: true,
  headers: true,
  keyPrefix: true,
  kind: true,
  to: true,
  reason: true,
  hide: true,
  rate: true,
  maxTasks: true,
  allTasks: true,
  id: true,
};

const actions = {
  retry: Action.BULK_ACTION_RETRY,
  move: Action.BULK_ACTION_MOVE,
  delete: Action.BULK_ACTION_DELETE,
  cancel: Action.BULK_ACTION_CANCEL,
  reschedule: Action.BULK_ACTION_RESCHEDULE,
  promote: Action.BULK_ACTION_PROMOTE,
} as const satisfies Record<BulkAction, Action>;

const states = {
  available: BulkTasks.BULK_TASKS_AVAILABLE,
  delayed: BulkTasks.BULK_TASKS_DELAYED,
  leased: BulkTasks.BULK_TASKS_LEASED,
  'dead-letters': BulkTasks.BULK_TASKS_DEAD_LETTERS,
} as const satisfies Record<NonNullable<BulkOptions['tasks']>, BulkTasks>;

const runStates: Readonly<Record<number, BulkProgress['state']>> = {
  [State.BULK_RUN_STATE_RUNNING]: 'running',
  [State.BULK_RUN_STATE_DONE]: 'done',
  [State.BULK_RUN_STATE_CANCELLED]: 'cancelled',
  [State.BULK_RUN_STATE_FAILED]: 'failed',
};

/**
 * A bulk run, which goes on on the node whether or not a program looks. `client.bulk()` starts one; `client.bulkRun()` names
 * one. In a `for await` loop it gives its progress until it has ended.
 */
export class BulkRun implements AsyncIterable<BulkProgress> {
  readonly group: string;
  readonly id: string;
  readonly #context: ClientContext;

  /** Internal: use `client.bulk()` or `client.bulkRun()`. */
  constructor(context: ClientContext, group: string, id: string) {
    this.#context = context;
    this.group = group;
    this.id = id;
  }

  /** How far it is. Undefined: the group has no such run; those that ended are kept for 7 days. */
  async progress(options: CallOptions = {}): Promise<BulkProgress | undefined> {
    const [run] = await listRuns(this.#context, this.group, options, this.id);
    return run;
  }

  /** Waits until it has ended. Resolves as `progress`. */
  async done({ onProgress, ...options }: BulkDoneOptions = {}): Promise<BulkProgress | undefined> {
    let last: BulkProgress | undefined;
    for await (const progress of this.#untilEnd(options)) {
      last = progress;
      callHook({ onProgress }, 'onProgress', progress);
    }
    return last;
  }

  /** Ends it. What it has changed stays changed. Resolves with whether it went on until then. */
  async cancel(options: CallOptions = {}): Promise<boolean> {
    assertKnown('cancel', options, callNames);
    const request = { queue: formatQueueName({ group: this.group, name: '' }), id: this.id };
    return (await this.#context.calls.call(methods.cancelBulkRun, request, options)).cancelled;
  }

  [Symbol.asyncIterator](): AsyncGenerator<BulkProgress, void> {
    return this.#untilEnd({});
  }

  async *#untilEnd(options: CallOptions): AsyncGenerator<BulkProgress, void> {
    for (;;) {
      const progress = await this.progress(options);
      if (progress !== undefined) yield progress;
      if (progress?.state !== 'running') return;
      await this.#wait(options.signal);
    }
  }

  async #wait(signal: AbortSignal | undefined): Promise<void> {
    try {
      await sleep(this.#context.timing, LOOK_MS, signal);
    } catch {
      throw cancelled(signal);
    }
  }
}

export async function startBulk(context: ClientContext, options: BulkRunOptions): Promise<BulkRun> {
  const { id = randomUUID(), ...rest } = options;
  const request = { ...bulkRequest('bulk', rest), id, preview: false };
  await context.calls.call(methods.startBulkRun, request, options);
  return new BulkRun(context, parseQueueName(request.queues).group, id);
}

/** Looks at all tasks, in as many calls as it takes. */
export async function previewBulk(
  context: ClientContext,
  { onProgress, ...options }: BulkPreviewOptions,
): Promise<BulkPreview> {
  const request = { ...bulkRequest('previewBulk', options), id: '', preview: true };
  let sofar: BulkPreview | undefined;
  for (let previewFrom: BulkPlace | undefined; ; ) {
    const { preview } = await context.calls.call(methods.startBulkRun, { ...request, previewFrom }, options);
    if (preview === undefined) throw brokenReply('left out the preview');
    sofar = withNext(sofar, preview);
    callHook({ onProgress }, 'onProgress', sofar);
    if (preview.next === undefined) return sofar;
    previewFrom = preview.next;
  }
}

/** What a preview has counted before, and in its next call. */
function withNext(sofar: BulkPreview | undefined, next: WirePreview): BulkPreview {
  const { queues, tasks, lookedAt, matched, leased } = next;
  return {
    queues,
    tasks,
    lookedAt: lookedAt + (sofar?.lookedAt ?? 0),
    matched: matched + (sofar?.matched ?? 0),
    leased: leased + (sofar?.leased ?? 0),
    samples: [...(sofar?.samples ?? []), ...next.samples.map(taskSummary)].slice(0, limits.bulkPreviewSamples),
  };
}

export async function listRuns(
  context: ClientContext,
  group: string,
  options: CallOptions,
  id = '',
): Promise<BulkProgress[]> {
  assertKnown('bulkRuns', options, callNames);
  const request = { queue: formatQueueName({ group, name: '' }), id };
  const { runs } = await context.calls.call(methods.listBulkRuns, request, options);
  return runs.map(progressOf);
}

function bulkRequest(what: string, options: BulkOptions) {
  assertKnown(what, options, bulkNames);
  const { action, queues, allTasks = false } = options;
  if (!Object.hasOwn(actions, action)) {
    throw new TypeError(`action: '${String(action)}' is none of ${Object.keys(actions).join(', ')}`);
  }
  return { queues: queuesPattern(queues), spec: specOf(options), allTasks };
}

function specOf(options: BulkOptions): BulkSpec {
  const { action, to, reason = '', hide, rate, maxTasks } = options;
  const isUntil = hide instanceof Date;
  return {
    action: actions[action],
    filter: filterOf(options),
    target: to === undefined ? '' : canonicalName(to),
    cancelReason: reason,
    delayMs: hide === undefined || isUntil ? 0 : atLeastOne(durationMs(hide, 'hide'), 'hide'),
    runAtUnixMs: isUntil ? dateMs(hide, 'hide') : 0,
    rate: rate === undefined ? 0 : atLeastOne(rate, 'rate', limits.bulkRate),
    maxTasks: maxTasks === undefined ? 0 : atLeastOne(maxTasks, 'maxTasks'),
  };
}

function filterOf(options: BulkOptions): BulkFilter | undefined {
  const { tasks, olderThan, newerThan, error, headers, keyPrefix, kind } = options;
  if (tasks !== undefined && !Object.hasOwn(states, tasks)) {
    throw new TypeError(`tasks: '${String(tasks)}' is none of ${Object.keys(states).join(', ')}`);
  }
  const filter = {
    tasks: tasks === undefined ? BulkTasks.BULK_TASKS_UNSPECIFIED : states[tasks],
    minAgeMs: olderThan === undefined ? 0 : durationMs(olderThan, 'olderThan'),
    maxAgeMs: newerThan === undefined ? 0 : atLeastOne(durationMs(newerThan, 'newerThan'), 'newerThan'),
    errorContains: someText('error', error),
    headers: headers === undefined ? undefined : wireFilter(headers),
    keyPrefix: someText('keyPrefix', keyPrefix),
    kind: someText('kind', kind) || undefined,
  };
  return Object.values(filter).some((value) => Boolean(value)) ? filter : undefined;
}

/** 0 is refused, because in the protocol it means that nothing is given. */
function atLeastOne(number: number, what: string, most = Number.MAX_SAFE_INTEGER): number {
  if (Number.isInteger(number) && number >= 1 && number <= most) return number;
  throw new TypeError(
    `${what}: ${number} is no whole number of at least 1${most < Number.MAX_SAFE_INTEGER ? ` and at most ${most}` : ''}`,
  );
}

const actionNames = new Map<number, BulkAction>(
  (Object.keys(actions) as BulkAction[]).map((name) => [actions[name], name]),
);

function progressOf(run: WireRun): BulkProgress {
  const { id, queues, tasks, lookedAt, changed, startedBy, problem } = run;
  return {
    id,
    queues,
    action: actionNames.get(run.spec?.action ?? 0) ?? 'unknown',
    state: runStates[run.state] ?? 'unknown',
    problem: problem === '' ? undefined : problem,
    tasks,
    lookedAt,
    changed,
    skipped: Object.fromEntries(run.skipped.map(({ reason, tasks: left }) => [reason, left])),
    by: startedBy,
    startedAt: new Date(run.startedUnixMs),
    endedAt: run.endedUnixMs === 0 ? undefined : new Date(run.endedUnixMs),
  };
}
