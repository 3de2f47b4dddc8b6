import type { QueueFilter, QueueStats, QueueTotals, UnreachableNode } from '@taskmaster/proto';
import { type CallOptions, callHook } from '../values/options.ts';
import type { ClientContext } from './context.ts';
import { canonicalName, type QueueRef } from './new-task.ts';

/** Which queues. All conditions given must hold; none: every queue that holds tasks. */
export interface QueueFilterOptions {
  /** RE2 expression found anywhere in the full name, `group#name`; at most 256 bytes. */
  readonly regex?: string | undefined;
  /** Only queues of this group; the empty string is the default group. */
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
  /** Exactly these queues, at most 10,000; one without tasks has zeros. Not together with `filter`. */
  readonly queues?: readonly (string | QueueRef)[] | undefined;
  /** Queues by what they are like. */
  readonly filter?: QueueFilterOptions | undefined;
}

export interface StatsReport {
  /** One for each queue; at most 10,000 where a filter chose them. */
  readonly queues: readonly QueueStats[];
  /** Sums over all queues chosen. */
  readonly totals: QueueTotals;
  /** Nodes of a cluster that did not answer: their queues are missing, from the sums too. Named queues are never missing. */
  readonly unreachable: readonly UnreachableNode[];
}

export interface ListOptions extends CallOptions {
  readonly filter?: QueueFilterOptions | undefined;
  /** Queues asked for at a time, 1 to 10,000. Default 1,000. */
  readonly pageSize?: number | undefined;
  /** Called with the nodes of a cluster that did not answer for a page: their queues may be missing from it. */
  readonly onUnreachable?: ((nodes: readonly UnreachableNode[]) => void) | undefined;
}

const noTotals: QueueTotals = { queues: 0, available: 0, leased: 0, delayed: 0, completed: 0 };

export async function queueStats(context: ClientContext, options: StatsOptions): Promise<StatsReport> {
  const { caller } = context;
  if (options.queues?.length === 0) return { queues: [], totals: noTotals, unreachable: [] };
  const request = {
    queues: (options.queues ?? []).map((queue) => (typeof queue === 'string' ? canonicalName(queue) : queue.name)),
    filter: wireFilter(options.filter),
  };
  const reply = await caller.call('getQueueStats', 'read', options, (attempt) =>
    caller.transport.getQueueStats(request, attempt),
  );
  return { queues: reply.queues, totals: reply.totals ?? noTotals, unreachable: reply.unreachable };
}

/** Every queue that holds tasks and fits, page by page, in order of their names. */
export async function* listQueues(context: ClientContext, options: ListOptions): AsyncGenerator<QueueStats, void> {
  const { caller } = context;
  const filter = wireFilter(options.filter);
  let pageToken = '';
  do {
    const request = { filter, limit: options.pageSize ?? 0, pageToken };
    const page = await caller.call('listQueues', 'read', options, (attempt) =>
      caller.transport.listQueues(request, attempt),
    );
    if (page.unreachable.length > 0) callHook(options.onUnreachable, page.unreachable);
    yield* page.queues;
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
}

function wireFilter(filter: QueueFilterOptions | undefined): QueueFilter | undefined {
  if (filter === undefined) return undefined;
  const { regex, ...bounds } = filter;
  return { ...bounds, nameRegex: regex ?? '' };
}
