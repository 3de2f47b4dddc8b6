import { limits } from '../limits.ts';
import type { CountedFields } from './entries.ts';

/**
 * A limit of entries that is checked before a request is decoded. A request of 4 MiB can have two million empty items, which
 * would take a gigabyte of memory when decoded.
 */
export interface EntryBound {
  /** The name that a refusal has for the entries, as after decoding. */
  readonly field: string;
  /** Numbers of fields, as in the .proto files. */
  readonly counted: CountedFields;
  readonly most: number;
}

/** All items of an UpdateTasksRequest. */
const items: CountedFields = { 1: 'each', 2: 'each', 3: 'each', 4: 'each' };
/** The headers of all its enqueues. */
const headersOf: CountedFields = { 1: { 8: 'each' } };
/** The parts of an UpdateTasksRequest. Each has an item, so their limit is that of the items. */
const partsOf: CountedFields = { 6: 'each' };
/** The queues of a LeaseTasksRequest. */
const queues: CountedFields = { 1: 'each' };
/** Its patterns. */
const patterns: CountedFields = { 10: 'each' };
/** The patterns of kinds of a LeaseTasksRequest. */
const kinds: CountedFields = { 14: { 1: 'each' } };

/** The tasks of a WaitForTasksRequest. */
const awaited: CountedFields = { 1: 'each' };

const update: EntryBound = { field: 'update', counted: items, most: limits.updateItems };
/** Headers that one request can have. */
const MOST_HEADERS = limits.headers * limits.updateItems;
const headers: EntryBound = { field: 'headers', counted: headersOf, most: MOST_HEADERS };
const parts: EntryBound = { field: 'parts', counted: partsOf, most: limits.updateItems };
const lease: EntryBound = { field: 'queues', counted: queues, most: limits.leaseQueues };
const leasePatterns: EntryBound = { field: 'patterns', counted: patterns, most: limits.leasePatterns };
const leaseKinds: EntryBound = { field: 'kinds.patterns', counted: kinds, most: limits.leaseKinds };
const batchRequests: EntryBound = { field: 'requests', counted: { 1: 'each' }, most: limits.batchRequests };
const batchItems: EntryBound = { field: 'requests', counted: { 1: items }, most: limits.batchItems };
const batchParts: EntryBound = { field: 'requests', counted: { 1: partsOf }, most: limits.batchItems };
const batchHeaders: EntryBound = { field: 'headers', counted: { 1: headersOf }, most: MOST_HEADERS };
const batchQueues: EntryBound = {
  field: 'requests',
  counted: { 1: queues },
  most: limits.batchRequests * limits.leaseQueues,
};
const batchPatterns: EntryBound = {
  field: 'requests',
  counted: { 1: patterns },
  most: limits.batchRequests * limits.leasePatterns,
};
const batchKinds: EntryBound = {
  field: 'requests',
  counted: { 1: kinds },
  most: limits.batchRequests * limits.leaseKinds,
};
const calls: EntryBound = { field: 'calls', counted: { 1: 'each' }, most: limits.streamCalls };
const callItems: EntryBound = {
  field: 'calls',
  counted: { 1: { 2: items, 3: { ...queues, ...patterns, ...kinds }, 5: awaited } },
  most: limits.streamItems,
};
const callHeaders: EntryBound = { field: 'headers', counted: { 1: { 2: headersOf } }, most: MOST_HEADERS };
const callParts: EntryBound = { field: 'calls', counted: { 1: { 2: partsOf } }, most: limits.streamItems };

export const entryBounds = {
  update: [update, parts, headers],
  lease: [lease, leasePatterns, leaseKinds],
  batchUpdate: [batchRequests, batchItems, batchParts, batchHeaders],
  batchLease: [batchRequests, batchQueues, batchPatterns, batchKinds],
  settings: [{ field: 'settings.fair_turns.weights', counted: { 2: { 11: { 1: 'each' } } }, most: limits.weights }],
  stats: [{ field: 'queues', counted: { 1: 'each' }, most: limits.listQueues }],
  peek: [{ field: 'kinds.patterns', counted: { 6: { 1: 'each' } }, most: limits.leaseKinds }],
  get: [{ field: 'pids', counted: { 2: 'each', 4: 'each' }, most: limits.peekTasks }],
  wait: [{ field: 'tasks', counted: awaited, most: limits.awaitedTasks }],
  events: [{ field: 'kinds', counted: { 3: 'each' }, most: limits.eventKinds }],
  subscribe: [
    { field: 'filter.all', counted: { 3: { 1: 'each' } }, most: limits.filterTests },
    {
      field: 'filter.all',
      counted: { 3: { 1: { 2: { 1: 'each' } } } },
      most: limits.filterTests * limits.filterValues,
    },
  ],
  bulk: [
    { field: 'spec.filter.headers.all', counted: { 3: { 2: { 5: { 1: 'each' } } } }, most: limits.filterTests },
    {
      field: 'spec.filter.headers.all',
      counted: { 3: { 2: { 5: { 1: { 2: { 1: 'each' } } } } } },
      most: limits.filterTests * limits.filterValues,
    },
  ],
  schedule: [{ field: 'spec.headers', counted: { 2: { 10: 'each' } }, most: limits.headers }],
  stream: [calls, callItems, callParts, callHeaders],
} satisfies Record<string, readonly EntryBound[]>;
