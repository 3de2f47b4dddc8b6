import { EnqueueMode, formatQueueName, methods, WhenFull, type QueueSettings as WireSettings } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import {
  canonicalName,
  modeOf,
  nameToFill,
  queuesPattern,
  retryPolicy,
  type TaskOptions,
  type TaskRetryOptions,
} from '../tasks/new-task.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import { type Duration, durationMs, leaseDurationMs, timeLimitMs } from '../values/duration.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { CallOptions } from '../values/options.ts';
import { callNames } from '../values/options.ts';

/** Settings of queues: what applies unless a task or a request says otherwise. What is left out is not set. */
export interface QueueSettings {
  /** Retry policy of tasks that have none. Applies to attempts that fail from now on. */
  readonly retry?: Omit<TaskRetryOptions, 'deadLetterQueue'> | undefined;
  /** Dead-letter queue of tasks whose policy names none: a queue of the same group. */
  readonly deadLetterQueue?: string | undefined;
  /** How long leases last. */
  readonly leaseDuration?: Duration | undefined;
  /** Mode of enqueues. */
  readonly mode?: TaskOptions['mode'];
  /** How long results are kept if their completions do not say. */
  readonly resultRetention?: Duration | undefined;
  /** For how long after a completion enqueues of the same PID add nothing. The outcome is `kept-out`. */
  readonly keepOut?: Duration | undefined;
  /** How long one attempt may take at tasks that have no limit of their own. Applies to leases and renewals from now on. */
  readonly timeLimit?: Duration | undefined;
  /** How many tasks may wait in a queue, available or delayed. An enqueue that would add one more does what `whenFull` says. */
  readonly maxBacklog?: number | undefined;
  /** How many tasks with the same limit key may wait in a queue. As with `maxBacklog`, of the tasks with this key. */
  readonly maxKeyBacklog?: number | undefined;
  /**
   * What such an enqueue does: it is refused with `BACKLOG_FULL` (default), drops the first available task of the queue or with
   * the key, or drops the new one. Then its outcome is `dropped`. Waits learn of a dropped task as of a cancelled one.
   */
  readonly whenFull?: 'refuse' | 'drop-oldest' | 'drop-newest' | undefined;
  /**
   * Leases are granted in turns of the limit keys of tasks: the next task is one of the key for which the least time was spent.
   * The tasks of a key are leased in the order of their PIDs.
   */
  readonly fairTurns?: FairTurns | undefined;
}

/** How queues take turns of limit keys. */
export interface FairTurns {
  /**
   * Weights of keys, by key or by pattern, 1 to 1,000,000: a key with the weight 2 gets twice the time of one with the weight 1.
   * Default: 1.
   */
  readonly weights?: Readonly<Record<string, number>> | undefined;
}

/** Settings as the node has them. Times are in ms. */
export interface QueueSettingsInfo {
  /** `group#pattern`, or the name of the queue that was asked about. */
  readonly queues: string;
  /** `maxAttempts: Infinity`: no limit. */
  readonly retry:
    | { readonly maxAttempts: number; readonly backoff: { readonly initial: number; readonly max: number } }
    | undefined;
  readonly deadLetterQueue: string | undefined;
  readonly leaseDuration: number | undefined;
  readonly mode: TaskOptions['mode'];
  readonly resultRetention: number | undefined;
  /** Undefined: enqueues are not kept out. */
  readonly keepOut: number | undefined;
  /** Undefined: there is no limit. */
  readonly timeLimit: number | undefined;
  /** Undefined: any number of tasks may wait. */
  readonly maxBacklog: number | undefined;
  /** Undefined: any number of tasks with the same limit key may wait. */
  readonly maxKeyBacklog: number | undefined;
  readonly whenFull: QueueSettings['whenFull'];
  /** Undefined: tasks are leased in the order of their PIDs. */
  readonly fairTurns: Required<FairTurns> | undefined;
}

const MODES: Readonly<Record<number, TaskOptions['mode']>> = {
  [EnqueueMode.ENQUEUE_MODE_COLLAPSE]: 'collapse',
  [EnqueueMode.ENQUEUE_MODE_FAIL]: 'fail',
  [EnqueueMode.ENQUEUE_MODE_REPLACE]: 'replace',
  [EnqueueMode.ENQUEUE_MODE_RERUN]: 'rerun',
  [EnqueueMode.ENQUEUE_MODE_RERUN_FIRST]: 'rerun-first',
};

const RULES: Readonly<Record<number, QueueSettings['whenFull']>> = {
  [WhenFull.WHEN_FULL_REFUSE]: 'refuse',
  [WhenFull.WHEN_FULL_DROP_OLDEST]: 'drop-oldest',
  [WhenFull.WHEN_FULL_DROP_NEWEST]: 'drop-newest',
};

/**
 * The settings of queues. They are durable, also while a queue has no tasks. `client.queueSettings` gives it.
 *
 * Settings belong to the queues of a group whose names match a pattern: `*` stands for any number of characters. If several
 * match, each field comes from the most specific settings that have it: first those without `*`, then those with more other
 * characters.
 */
export class QueueSettingsOfClient {
  readonly #context: ClientContext;

  /** Internal: use `client.queueSettings`. */
  constructor(context: ClientContext) {
    this.#context = context;
  }

  /**
   * Creates or replaces the settings of the queues `group#pattern`. Call it at each start of a service: the same settings change
   * nothing. @throws InvalidRequestError, PermissionDeniedError; TypeError for options of the wrong form.
   */
  async put(queues: string, settings: QueueSettings, options: CallOptions = {}): Promise<void> {
    assertKnown('put', options, callNames);
    const { calls } = this.#context;
    const request = { queues: queuesPattern(queues), settings: wireSettings(settings) };
    await calls.call(methods.putQueueSettings, request, options);
  }

  /** Deletes the settings that were put for exactly these queues. Resolves with false if there were none. */
  async delete(queues: string, options: CallOptions = {}): Promise<boolean> {
    assertKnown('delete', options, callNames);
    const { calls } = this.#context;
    const request = { queues: canonicalName(queues) };
    const { deleted } = await calls.call(methods.deleteQueueSettings, request, options);
    return deleted;
  }

  /** All settings of a group, the most specific ones first. Default: the default group. */
  async list(group = '', options: CallOptions = {}): Promise<QueueSettingsInfo[]> {
    const { settings } = await this.#list(formatQueueName({ group, name: '' }), options);
    return settings.map(settingsInfo);
  }

  /** What applies to a queue. All fields are set. The queue need not exist. */
  async of(queue: string, options: CallOptions = {}): Promise<QueueSettingsInfo> {
    const { effective } = await this.#list(canonicalName(queue), options);
    if (effective === undefined) throw brokenReply('left out what applies to the queue');
    return settingsInfo(effective);
  }

  #list(queue: string, options: CallOptions) {
    assertKnown('settings of queues', options, callNames);
    const { calls } = this.#context;
    return calls.call(methods.listQueueSettings, { queue }, options);
  }
}

const settingsNames: OptionNames<QueueSettings> = {
  retry: true,
  deadLetterQueue: true,
  leaseDuration: true,
  mode: true,
  resultRetention: true,
  keepOut: true,
  timeLimit: true,
  maxBacklog: true,
  maxKeyBacklog: true,
  whenFull: true,
  fairTurns: true,
};

const fairNames: OptionNames<FairTurns> = { weights: true };

function wireSettings(settings: QueueSettings): WireSettings {
  assertKnown('settings', settings, settingsNames);
  return knownSettings(settings);
}

const knownSettings = ({
  retry,
  deadLetterQueue,
  leaseDuration,
  mode,
  maxBacklog,
  maxKeyBacklog,
  whenFull,
  fairTurns,
  ...times
}: QueueSettings): WireSettings => ({
  queues: '',
  retry: retry === undefined ? undefined : retryPolicy(retry),
  deadLetterQueue: deadLetterQueue === undefined ? '' : nameToFill(deadLetterQueue),
  leaseDurationMs: leaseDuration === undefined ? 0 : leaseDurationMs(leaseDuration, 'leaseDuration'),
  mode: modeOf(mode),
  resultRetentionMs: times.resultRetention === undefined ? 0 : durationMs(times.resultRetention, 'resultRetention'),
  keepOutMs: times.keepOut === undefined ? 0 : durationMs(times.keepOut, 'keepOut'),
  timeLimitMs: times.timeLimit === undefined ? 0 : timeLimitMs(times.timeLimit),
  maxBacklog: tasksOf('maxBacklog', maxBacklog),
  maxKeyBacklog: tasksOf('maxKeyBacklog', maxKeyBacklog),
  whenFull: ruleOf(whenFull),
  fairTurns: fairTurns && turnsMessage(fairTurns),
});

function turnsMessage(turns: FairTurns): WireSettings['fairTurns'] {
  assertKnown('fairTurns', turns, fairNames);
  const weights = { ...turns.weights };
  for (const [key, weight] of Object.entries(weights)) {
    if (Number.isInteger(weight) && weight >= 1) continue;
    throw new TypeError(`fairTurns.weights: ${weight} of ${key} is no whole number of at least 1`);
  }
  return { weights };
}

/** 0 is refused, because in the protocol it means any number. */
function tasksOf(name: string, most: number | undefined): number {
  if (most === undefined) return 0;
  if (Number.isInteger(most) && most >= 1) return most;
  throw new TypeError(`${name}: ${most} is no whole number of at least 1`);
}

function ruleOf(given: QueueSettings['whenFull']): WhenFull {
  if (given === undefined) return WhenFull.WHEN_FULL_UNSPECIFIED;
  const [rule] = Object.entries(RULES).find(([, name]) => name === given) ?? [];
  if (rule === undefined)
    throw new TypeError(`whenFull: ${JSON.stringify(given)} is not one of ${Object.values(RULES).join(', ')}`);
  return Number(rule) as WhenFull;
}

const settingsInfo = ({ queues, retry, ...rest }: WireSettings): QueueSettingsInfo => ({
  queues,
  retry: retry && {
    maxAttempts: retry.maxAttempts === 0 ? Number.POSITIVE_INFINITY : retry.maxAttempts,
    backoff: { initial: retry.backoffInitialMs, max: retry.backoffMaxMs },
  },
  deadLetterQueue: rest.deadLetterQueue === '' ? undefined : rest.deadLetterQueue,
  leaseDuration: rest.leaseDurationMs === 0 ? undefined : rest.leaseDurationMs,
  mode: MODES[rest.mode],
  resultRetention: rest.resultRetentionMs || undefined,
  keepOut: rest.keepOutMs || undefined,
  timeLimit: rest.timeLimitMs || undefined,
  maxBacklog: rest.maxBacklog || undefined,
  maxKeyBacklog: rest.maxKeyBacklog || undefined,
  whenFull: RULES[rest.whenFull],
  fairTurns: rest.fairTurns,
});
