import {
  EnqueueMode,
  formatQueueName,
  limits,
  NO_SETTINGS,
  type PutQueueSettingsRequest,
  type QueueName,
  type QueueSettings,
  WhenFull,
} from '@taskmaster/proto';
import {
  duration,
  excerpt,
  leaseTime,
  limitKey,
  type Place,
  queueName,
  refuse,
  timeLimit,
  wholeNumber,
} from '@taskmaster/server/requests';
import { enqueueMode, retryLimits } from '../parse-retry.ts';

/** Checks `group#pattern`: the pattern follows the rules of names. */
export const queuePattern = (full: string): QueueName => queueName(full, { field: 'queues' });

/** Checks settings. Throws a `Refusal` unless they can be stored as they are. */
export function parseSettings({ queues, settings }: PutQueueSettingsRequest): QueueSettings {
  const pattern = queuePattern(queues);
  const at = (field: string): Place => ({ field: `settings.${field}` });
  const given = settings ?? NO_SETTINGS;
  if (given.retry !== undefined && given.retry.deadLetterQueue !== '') {
    refuse('INVALID_ARGUMENT', at('retry.dead_letter_queue'), 'is given: use settings.dead_letter_queue');
  }
  if (given.mode === EnqueueMode.ENQUEUE_MODE_SIGNAL) {
    refuse('INVALID_ARGUMENT', at('mode'), 'is SIGNAL: an enqueue says itself whether it is a signal');
  }
  const parsed: QueueSettings = {
    queues: formatQueueName(pattern),
    retry: given.retry && {
      ...retryLimits(given.retry, (field) => at(`retry.${field}`)),
      deadLetterQueue: '',
    },
    deadLetterQueue: deadLetterQueue(given.deadLetterQueue, pattern),
    leaseDurationMs: leaseTime(given.leaseDurationMs, at('lease_duration_ms')),
    mode: enqueueMode(given.mode, at('mode')),
    resultRetentionMs: duration(given.resultRetentionMs, at('result_retention_ms'), 0, limits.resultRetentionMs),
    keepOutMs: duration(given.keepOutMs, at('keep_out_ms'), 0, limits.resultRetentionMs),
    timeLimitMs: timeLimit(given.timeLimitMs, at('time_limit_ms')),
    maxBacklog: wholeNumber(given.maxBacklog, at('max_backlog'), 0, limits.maxBacklog),
    maxKeyBacklog: wholeNumber(given.maxKeyBacklog, at('max_key_backlog'), 0, limits.maxBacklog),
    whenFull: whenFull(given.whenFull, at('when_full')),
    fairTurns: given.fairTurns && { weights: parseWeights(given.fairTurns.weights, at('fair_turns.weights')) },
  };
  const { queues: _queues, ...fields } = parsed;
  if (Object.values(fields).every((value) => !value)) {
    refuse('EMPTY_REQUEST', { field: 'settings' }, 'sets nothing: give at least one field');
  }
  return parsed;
}

const RULES: ReadonlySet<number> = new Set(Object.values(WhenFull).filter((rule) => rule >= 0));

/** Checks a rule, which a client of a later release may not share. */
function whenFull(rule: WhenFull, place: Place): WhenFull {
  if (RULES.has(rule)) return rule;
  return refuse('INVALID_ARGUMENT', place, `is ${rule}: no such rule`, { value: rule });
}

function parseWeights(weights: Readonly<Record<string, number>>, place: Place): Record<string, number> {
  const given = Object.entries(weights);
  if (given.length > limits.weights) {
    const metadata = { value: given.length, limit: limits.weights };
    refuse('TOO_MANY_ITEMS', place, `has ${given.length} keys: at most ${limits.weights}`, metadata);
  }
  for (const [key, weight] of given) {
    if (limitKey(key, place) === '') refuse('INVALID_ARGUMENT', place, 'has an empty key');
    wholeNumber(weight, place, 1, limits.weight);
  }
  return weights;
}

function deadLetterQueue(given: string, { group, name }: QueueName): string {
  if (given === '') return '';
  const place = { field: 'settings.dead_letter_queue' };
  const target = queueName(given, place);
  if (target.group !== group) {
    const metadata = { group: target.group, otherGroup: group };
    refuse('MIXED_GROUPS', place, `is ${excerpt(given)}: the queues are of the group ${excerpt(group)}`, metadata);
  }
  if (target.name === name) refuse('INVALID_QUEUE', place, `is ${excerpt(given)}: the queue itself`);
  return formatQueueName(target);
}
