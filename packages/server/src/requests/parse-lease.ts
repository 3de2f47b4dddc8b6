import { KindFilter, type LeaseCommand, type LeasePattern } from '@taskmaster/engine/domain';
import {
  type LeaseKinds,
  type LeaseStarts,
  type LeaseTasksRequest,
  limits,
  Memo,
  type QueueName,
} from '@taskmaster/proto';
import {
  checkTraceparent,
  countAtMost,
  duration,
  kindPattern,
  leaseTime,
  pidOrNone,
  refuse,
  textAtMost,
  wholeNumber,
} from './checks.ts';
import { keptRegex } from './kept-regex.ts';
import { groupName, queueName } from './queue-names.ts';

/** Filters of kinds that are kept. One takes some kilobytes. */
const MOST_FILTERS = 1_000;

/** Throws a `Refusal` unless the engine can take the lease as it is. */
export function parseLease(request: LeaseTasksRequest, workerAddress: string): LeaseCommand {
  const maxBytes = wholeNumber(request.maxBytes, { field: 'max_bytes' }, 0, limits.replyDataBytes);
  if (request.queues.length === 0 && request.patterns.length === 0) {
    refuse('EMPTY_REQUEST', { field: 'queues' }, 'is empty: name at least one queue, or a pattern');
  }
  checkTraceparent(request);
  wholeNumber(request.maxMoreQueues, { field: 'max_more_queues' }, 0, limits.moreQueues);
  return {
    queues: parseQueues(request.queues),
    patterns: request.patterns.length === 0 ? undefined : parsePatterns(request),
    maxTasks: wholeNumber(request.maxTasks, { field: 'max_tasks' }, 1, limits.leaseTasks),
    leaseDurationMs: leaseTime(request.leaseDurationMs, { field: 'lease_duration_ms' }),
    maxPid: pidOrNone(request.maxPid, { field: 'max_pid' }),
    waitMs: duration(request.waitMs, { field: 'wait_ms' }, 0, limits.waitMs),
    worker: textAtMost(request.workerLabel, { field: 'worker_label' }, limits.workerLabelBytes),
    workerAddress,
    maxBytes: maxBytes === 0 ? limits.replyDataBytes : maxBytes,
    kinds: request.kinds && parseKinds(request.kinds),
    starts: request.starts && parseStarts(request.starts),
    includeSignals: request.includeSignals,
  };
}

/** Filters by their patterns: workers send theirs with every request. */
const knownFilters = new Memo<string, KindFilter>(MOST_FILTERS);

/** Throws a `Refusal` unless there are some, and all of them are patterns of kinds. */
export function parseKinds({ patterns }: LeaseKinds): KindFilter {
  if (patterns.length === 0) refuse('EMPTY_REQUEST', { field: 'kinds.patterns' }, 'is empty: name at least one kind');
  countAtMost(patterns.length, { field: 'kinds.patterns' }, limits.leaseKinds);
  const text = JSON.stringify(patterns);
  const known = knownFilters.get(text);
  if (known !== undefined) return known;
  for (const [index, pattern] of patterns.entries()) {
    kindPattern(pattern, { list: 'kinds.patterns', index, field: '' });
  }
  return knownFilters.remember(text, new KindFilter(patterns));
}

function parseStarts({ now, together }: LeaseStarts): LeaseCommand['starts'] {
  wholeNumber(now, { field: 'starts.now' }, 0, limits.leaseTasks);
  return { now, together: wholeNumber(together, { field: 'starts.together' }, 0, limits.leaseTasks) || 1 };
}

/** A queue named twice counts once, at its first place. */
function parseQueues(names: readonly string[]): QueueName[] {
  countAtMost(names.length, { field: 'queues' }, limits.leaseQueues);
  const queues = names.map((full, index) => queueName(full, { list: 'queues', index, field: '' }));
  // Most leases name one queue (bench row B4).
  if (queues.length === 1) return queues;
  return [...new Map(queues.map((queue) => [`${queue.group}#${queue.name}`, queue])).values()];
}

function parsePatterns({ patterns, queues }: LeaseTasksRequest): LeasePattern[] {
  countAtMost(patterns.length, { field: 'patterns' }, limits.leasePatterns);
  const parsed = patterns.map(({ nameRegex: regex, group: full, afterQueues, id }, index): LeasePattern => {
    const place = (field: string) => ({ list: 'patterns', index, field });
    if (regex === '' && full === undefined) {
      refuse('INVALID_ARGUMENT', place('name_regex'), 'is empty: give an expression, a group, or both');
    }
    wholeNumber(afterQueues, place('after_queues'), 0, queues.length);
    const group = full === undefined ? undefined : groupName(full, place('group'));
    return {
      // No name of a queue has U+FFFD.
      key: `\uFFFD${group === undefined ? '' : `#${group}`}\uFFFD${regex}`,
      matches: keptRegex(regex, place('name_regex')),
      group,
      after: new Set(queues.slice(0, afterQueues)).size,
      id,
      principal: undefined,
      mayLease: undefined,
    };
  });
  return parsed.sort((a, b) => a.after - b.after);
}
