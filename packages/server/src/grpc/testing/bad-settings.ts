import {
  type EnqueueMode,
  type LeaseRate,
  type LimitQueuesRequest,
  limits,
  NO_SETTINGS,
  type PauseQueuesRequest,
  type QueueSettings,
  type WhenFull,
} from '@taskmaster/proto';
import { type BadRequest, bad } from './bad-request.ts';
import { aRetry } from './requests.ts';

const long = (length: number): string => 'x'.repeat(length);

const putSettings =
  (change: Partial<QueueSettings>, queues = 'shop#*'): BadRequest['call'] =>
  (node) =>
    node.putQueueSettings({ queues, settings: { ...NO_SETTINGS, ...change } });

const pauseQueues =
  (change: Partial<PauseQueuesRequest>): BadRequest['call'] =>
  (node) =>
    node.pauseQueues({ queues: 'shop#*', reason: '', durationMs: 0, untilUnixMs: 0, ...change });

export const badPauses: readonly BadRequest[] = [
  ...['', 'shop#', '$taskmaster/x', long(513)].map((queues) =>
    bad(`a pause of ${queues.slice(0, 20) || 'nothing'}`, 'INVALID_QUEUE', 'queues', pauseQueues({ queues })),
  ),
  bad('a pause with a long reason', 'INVALID_ARGUMENT', 'reason', pauseQueues({ reason: long(257) })),
  ...[-1, limits.pauseMs + 1].map((durationMs) =>
    bad(`a pause for ${durationMs} ms`, 'INVALID_ARGUMENT', 'duration_ms', pauseQueues({ durationMs })),
  ),
  ...[-1, limits.runAtUnixMs + 1].map((untilUnixMs) =>
    bad(`a pause until ${untilUnixMs}`, 'INVALID_ARGUMENT', 'until_unix_ms', pauseQueues({ untilUnixMs })),
  ),
  bad(
    'a pause with two ends',
    'INVALID_ARGUMENT',
    'until_unix_ms',
    pauseQueues({ durationMs: 1, untilUnixMs: limits.runAtUnixMs }),
  ),
  bad('resuming all queues without a pattern', 'INVALID_QUEUE', 'queues', (node) =>
    node.resumeQueues({ queues: 'shop#' }),
  ),
];

const limitQueues =
  (change: Partial<LimitQueuesRequest>): BadRequest['call'] =>
  (node) =>
    node.limitQueues({ queues: 'shop#*', maxLeased: 1, rate: undefined, keys: '', ...change });

const aRate = (change: Partial<LeaseRate>): BadRequest['call'] =>
  limitQueues({ rate: { tasks: 1, perMs: 1000, burst: 0, ...change } });

export const badLimits: readonly BadRequest[] = [
  ...['', 'shop#', '$taskmaster/x', long(513)].map((queues) =>
    bad(`a limit of ${queues.slice(0, 20) || 'nothing'}`, 'INVALID_QUEUE', 'queues', limitQueues({ queues })),
  ),
  bad('a limit that limits nothing', 'EMPTY_REQUEST', 'max_leased', limitQueues({ maxLeased: 0 })),
  ...[-1, limits.maxLeased + 1].map((maxLeased) =>
    bad(`a limit of ${maxLeased} leased tasks`, 'INVALID_ARGUMENT', 'max_leased', limitQueues({ maxLeased })),
  ),
  ...[0, -1, limits.rateTasks + 1].map((tasks) =>
    bad(`a limit of ${tasks} leases in a time`, 'INVALID_ARGUMENT', 'rate.tasks', aRate({ tasks })),
  ),
  ...[0, -1, limits.ratePeriodMs + 1].map((perMs) =>
    bad(`a limit of leases in ${perMs} ms`, 'INVALID_ARGUMENT', 'rate.per_ms', aRate({ perMs })),
  ),
  ...[-1, limits.rateTasks + 1].map((burst) =>
    bad(`a limit with a burst of ${burst}`, 'INVALID_ARGUMENT', 'rate.burst', aRate({ burst })),
  ),
  ...[long(129), '\uFFFD'].map((keys) =>
    bad(`a limit of the keys ${keys.slice(0, 9)}`, 'INVALID_ARGUMENT', 'keys', limitQueues({ keys })),
  ),
  bad('ending the limit of a long key', 'INVALID_ARGUMENT', 'keys', (node) =>
    node.unlimitQueues({ queues: 'shop#*', keys: long(129) }),
  ),
  bad('ending limits without a pattern', 'INVALID_QUEUE', 'queues', (node) =>
    node.unlimitQueues({ queues: 'shop#', keys: '' }),
  ),
];

export const badSettings: readonly BadRequest[] = [
  bad('settings of an unnamed queue', 'INVALID_QUEUE', 'queues', putSettings({ leaseDurationMs: 1 }, 'shop#')),
  bad('settings of a reserved queue', 'INVALID_QUEUE', 'queues', putSettings({ leaseDurationMs: 1 }, '$taskmaster/x')),
  bad('settings of a long pattern', 'INVALID_QUEUE', 'queues', putSettings({ leaseDurationMs: 1 }, long(513))),
  bad('settings that set nothing', 'EMPTY_REQUEST', 'settings', putSettings({})),
  bad('no settings', 'EMPTY_REQUEST', 'settings', (node) =>
    node.putQueueSettings({ queues: 'a', settings: undefined }),
  ),
  bad(
    'settings with negative attempts',
    'INVALID_ARGUMENT',
    'settings.retry.max_attempts',
    putSettings({ retry: aRetry({ maxAttempts: -1 }) }),
  ),
  bad(
    'settings with a backoff that begins above its bound',
    'INVALID_ARGUMENT',
    'settings.retry.backoff_initial_ms',
    putSettings({ retry: aRetry({ backoffInitialMs: 2000, backoffMaxMs: 1000 }) }),
  ),
  bad(
    'settings with a dead-letter queue in the policy',
    'INVALID_ARGUMENT',
    'settings.retry.dead_letter_queue',
    putSettings({ retry: aRetry({ deadLetterQueue: 'shop#dead' }) }),
  ),
  bad(
    'settings with a dead-letter queue of another group',
    'MIXED_GROUPS',
    'settings.dead_letter_queue',
    putSettings({ deadLetterQueue: 'other#dead' }),
  ),
  bad(
    'settings of one queue with that queue for dead letters',
    'INVALID_QUEUE',
    'settings.dead_letter_queue',
    putSettings({ deadLetterQueue: 'shop#mail' }, 'shop#mail'),
  ),
  bad(
    'settings with a lease of more than a year',
    'INVALID_ARGUMENT',
    'settings.lease_duration_ms',
    putSettings({ leaseDurationMs: limits.leaseDurationMs + 1 }),
  ),
  bad(
    'settings that keep results for more than 30 days',
    'INVALID_ARGUMENT',
    'settings.result_retention_ms',
    putSettings({ resultRetentionMs: limits.resultRetentionMs + 1 }),
  ),
  bad(
    'settings that keep tasks out for a negative time',
    'INVALID_ARGUMENT',
    'settings.keep_out_ms',
    putSettings({ keepOutMs: -1 }),
  ),
  ...[-1, limits.timeLimitMs + 1].map((timeLimitMs) =>
    bad(
      `settings with a time limit of ${timeLimitMs}`,
      'INVALID_ARGUMENT',
      'settings.time_limit_ms',
      putSettings({ timeLimitMs }),
    ),
  ),
  ...[-1, limits.maxBacklog + 1].map((maxBacklog) =>
    bad(`a backlog of ${maxBacklog}`, 'INVALID_ARGUMENT', 'settings.max_backlog', putSettings({ maxBacklog })),
  ),
  ...[-1, limits.maxBacklog + 1].map((maxKeyBacklog) =>
    bad(
      `a backlog of ${maxKeyBacklog} for each key`,
      'INVALID_ARGUMENT',
      'settings.max_key_backlog',
      putSettings({ maxKeyBacklog }),
    ),
  ),
  bad(
    'an unknown rule for a full queue',
    'INVALID_ARGUMENT',
    'settings.when_full',
    putSettings({ maxBacklog: 1, whenFull: 9 as WhenFull }),
  ),
  ...[0, -1, limits.weight + 1].map((weight) =>
    bad(
      `a weight of ${weight}`,
      'INVALID_ARGUMENT',
      'settings.fair_turns.weights',
      putSettings({ fairTurns: { weights: { acme: weight } } }),
    ),
  ),
  ...['', long(129)].map((key) =>
    bad(
      `the weight of ${key === '' ? 'no key' : 'a long key'}`,
      'INVALID_ARGUMENT',
      'settings.fair_turns.weights',
      putSettings({ fairTurns: { weights: { [key]: 1 } } }),
    ),
  ),
  bad(
    'too many weights',
    'TOO_MANY_ITEMS',
    'settings.fair_turns.weights',
    putSettings({ fairTurns: { weights: Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`${at}`, 1])) } }),
  ),
  bad('settings with an unknown mode', 'INVALID_ARGUMENT', 'settings.mode', putSettings({ mode: 9 as EnqueueMode })),
  bad('deleting settings of no queue', 'INVALID_QUEUE', 'queues', (node) => node.deleteQueueSettings({ queues: '' })),
  bad('listing settings of a long group', 'INVALID_QUEUE', 'queue', (node) =>
    node.listQueueSettings({ queue: `${long(513)}#` }),
  ),
];
