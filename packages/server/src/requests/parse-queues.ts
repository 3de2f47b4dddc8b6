import type { ListCommand, QueueFilter, StatsCommand } from '@taskmaster/engine/domain';
import {
  type QueueFilter as FilterMessage,
  type GetQueueStatsRequest,
  type ListQueuesRequest,
  limits,
  type QueueName,
  QueueOrder,
  type QueuePlace,
} from '@taskmaster/proto';
import { RE2JS, RE2JSException } from 're2js';
import { countAtMost, excerpt, type Place, refuse, wholeNumber } from './checks.ts';
import { parsePageToken, parsePlaceToken } from './page-token.ts';
import { groupName, queueName } from './queue-names.ts';

const DEFAULT_LIST_LIMIT = 1_000;

/** A listing of queues. */
export type QueueListing = Omit<ListCommand, 'after'> & {
  readonly withWatch: boolean;
} & (
    | { readonly order: 'name'; readonly after: QueueName | undefined }
    | { readonly order: 'trouble'; readonly after: QueuePlace | undefined }
  );

/** Throws a `Refusal` unless the engine can take the listing as it is. */
export function parseList(request: ListQueuesRequest): QueueListing {
  const { order = QueueOrder.QUEUE_ORDER_UNSPECIFIED, pageToken } = request;
  const asked = wholeNumber(request.limit, { field: 'limit' }, 0, limits.listQueues);
  const limit = asked === 0 ? DEFAULT_LIST_LIMIT : asked;
  const filter = parseFilter(request.filter);
  if (order === QueueOrder.QUEUE_ORDER_TROUBLE) {
    return { filter, limit, order: 'trouble', after: parsePlaceToken(pageToken), withWatch: true };
  }
  if (order !== QueueOrder.QUEUE_ORDER_UNSPECIFIED) {
    refuse('INVALID_ARGUMENT', { field: 'order' }, `is ${order}, which this release does not know`);
  }
  return { filter, limit, order: 'name', after: parsePageToken(pageToken), withWatch: request.includeWatch ?? false };
}

/** Throws a `Refusal` unless the engine can take the request as it is. */
export function parseStats(request: GetQueueStatsRequest): StatsCommand {
  if (request.queues.length === 0) {
    return { kind: 'filtered', filter: parseFilter(request.filter), limit: limits.listQueues };
  }
  if (request.filter !== undefined) {
    refuse('INVALID_ARGUMENT', { field: 'filter' }, 'is set beside queues: name the queues or filter them, not both');
  }
  countAtMost(request.queues.length, { field: 'queues' }, limits.listQueues);
  const queues = request.queues.map((full, index) => queueName(full, { list: 'queues', index, field: '' }));
  return { kind: 'named', queues };
}

function parseFilter(filter: FilterMessage | undefined): QueueFilter {
  const [minAvailable, maxAvailable] = bounds('available', filter?.minAvailable, filter?.maxAvailable);
  const [minLeased, maxLeased] = bounds('leased', filter?.minLeased, filter?.maxLeased);
  const [minDelayed, maxDelayed] = bounds('delayed', filter?.minDelayed, filter?.maxDelayed);
  return {
    matches: nameRegex(filter?.nameRegex ?? '', { field: 'filter.name_regex' }),
    group: filter?.group === undefined ? undefined : groupName(filter.group, { field: 'filter.group' }),
    minAvailable,
    maxAvailable,
    minLeased,
    maxLeased,
    minDelayed,
    maxDelayed,
  };
}

type Bound = number | undefined;

function bounds(what: string, min: Bound, max: Bound): [Bound, Bound] {
  for (const [field, value] of Object.entries({ [`filter.min_${what}`]: min, [`filter.max_${what}`]: max })) {
    if (value !== undefined) wholeNumber(value, { field }, 0, Number.MAX_SAFE_INTEGER);
  }
  if (min !== undefined && max !== undefined && min > max) {
    refuse('INVALID_ARGUMENT', { field: `filter.min_${what}` }, `is ${min}: at most filter.max_${what}, ${max}`, {
      value: min,
      max,
    });
  }
  return [min, max];
}

/** Compiles a regular expression for names of queues. Empty: undefined. RE2 matches in linear time. */
export function nameRegex(regex: string, place: Place): QueueFilter['matches'] {
  if (regex === '') return undefined;
  const compiled = compileRegex(regex, place);
  return (fullName) => compiled.test(fullName);
}

/**
 * Throws a `Refusal` unless it is an expression. The length limit bounds the time to compile, and the limit of instructions the
 * time to match a name: with four times as many, a long name takes a third of a second.
 */
export function compileRegex(regex: string, place: Place): RE2JS {
  const bytes = Buffer.byteLength(regex);
  if (bytes > limits.regexBytes) {
    refuse('INVALID_REGEX', place, `has ${bytes} bytes: at most ${limits.regexBytes}`, {
      value: bytes,
      limit: limits.regexBytes,
    });
  }
  const compiled = compile(regex, place);
  const size = compiled.programSize();
  if (size > limits.regexInstructions) {
    refuse('INVALID_REGEX', place, `compiles to ${size} instructions: at most ${limits.regexInstructions}`, {
      value: size,
      limit: limits.regexInstructions,
    });
  }
  return compiled;
}

function compile(regex: string, place: Place): RE2JS {
  try {
    return RE2JS.compile(regex);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    return refuse('INVALID_REGEX', place, `is ${excerpt(regex, limits.regexBytes)}: ${error.message}`, {
      value: regex,
    });
  }
}
