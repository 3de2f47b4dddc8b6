import { methods, type QueueFilter, type QueueStats, type QueueTotals, type UnreachableNode } from '@taskmaster/proto';
import { callHook } from '../values/hooks.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { CallOptions } from '../values/options.ts';
import { callNames } from '../values/options.ts';
import type { ClientContext } from './context.ts';
import { canonicalName, type QueueRef } from './new-task.ts';

/** Filter of queues. A queue must match all conditions. Without conditions all queues that hold tasks match. */
export interface QueueFilterOptions {
  /** RE2 expression that matches any part of the full name, `group#name`. At most 256 bytes. */
  readonly regex?: string | undefined;
  /** Queues of this group. The empty string is the default group. */
  readonly group?: string | undefined;
  /** Bounds of the numbers of tasks, inclusive. */
  readonly minAvailable?: number | undefined;
  readonly maxAvailable?: number | undefined;
  readonly minLeased?: number | undefined;
  readonly maxLeased?: number | undefined;
  readonly minDelayed?: number | undefined;
  readonly maxDelayed?: number | undefined;
}

export interface StatsOptions extends CallOptions {
  /** Names of queues, at most 10,000. A queue without tasks has zeros. Not together with `filter`. */
  readonly queues?: readonly (string | QueueRef)[] | undefined;
  /** Queues that match. */
  readonly filter?: QueueFilterOptions | undefined;
}

export interface StatsReport {
  /** Statistics of each queue. With a filter at most 10,000. */
  readonly queues: readonly QueueStats[];
  /** Sums over all named or matching queues. */
  readonly totals: QueueTotals;
  /** Nodes that did not answer. Their queues are missing, also in the sums. Named queues are never missing. */
  readonly unreachable: readonly UnreachableNode[];
}

export interface ListOptions extends CallOptions {
  readonly filter?: QueueFilterOptions | undefined;
  /** Queues in one reply, 1 to 10,000. Default 1,000. */
  readonly pageSize?: number | undefined;
  /** Called with the nodes that did not answer a request. Their queues may be missing in the reply. */
  readonly onUnreachable?: ((nodes: readonly UnreachableNode[]) => void) | undefined;
}

const filterNames: OptionNames<QueueFilterOptions> = {
  regex: true,
  group: true,
  minAvailable: true,
  maxAvailable: true,
  minLeased: true,
  maxLeased: true,
  minDelayed: true,
  maxDelayed: true,
};
const statsNames: OptionNames<StatsOptions> = { ...callNames, queues: true, filter: true };
const listNames: OptionNames<ListOptions> = { ...callNames, filter: true, pageSize: true, onUnreachable: true };

const noTotals: QueueTotals = { queues: 0, available: 0, leased: 0, delayed: 0, waiting: 0, completed: 0 };

/** See `TaskMasterClient.stats`. */
export async function queueStats(context: ClientContext, options: StatsOptions): Promise<StatsReport> {
  assertKnown('stats', options, statsNames);
  const { calls } = context;
  if (options.queues?.length === 0) return { queues: [], totals: noTotals, unreachable: [] };
  const request = {
    queues: (options.queues ?? []).map((queue) => (typeof queue === 'string' ? canonicalName(queue) : queue.name)),
    filter: wireFilter(options.filter),
  };
  const reply = await calls.call(methods.getQueueStats, request, options);
  return { queues: reply.queues, totals: reply.totals ?? noTotals, unreachable: reply.unreachable };
}

/** See `TaskMasterClient.listQueues`. Reads one page at a time. */
export async function* listQueues(context: ClientContext, options: ListOptions): AsyncGenerator<QueueStats, void> {
  assertKnown('listQueues', options, listNames);
  const { calls } = context;
  const filter = wireFilter(options.filter);
  let pageToken = '';
  do {
    const request = { filter, limit: options.pageSize ?? 0, pageToken };
    const page = await calls.call(methods.listQueues, request, options);
    if (page.unreachable.length > 0) callHook(options, 'onUnreachable', page.unreachable);
    yield* page.queues;
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
}

function wireFilter(filter: QueueFilterOptions | undefined): QueueFilter | undefined {
  if (filter === undefined) return undefined;
  assertKnown('filter', filter, filterNames);
  const { regex, ...bounds } = filter;
  return { ...bounds, nameRegex: regex ?? '' };
}
