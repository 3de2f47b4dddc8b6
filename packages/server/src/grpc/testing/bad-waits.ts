import { EventKind, limits, type ReadEventsRequest, type Reason, type WaitForTasksRequest } from '@taskmaster/proto';
import type { BadRequest } from './bad-request.ts';
import { aDequeue, anUpdate, aPeek, aWait, bytes } from './requests.ts';

type Call = BadRequest['call'];

const wait = (change: Partial<WaitForTasksRequest>): Call => {
  return (node) => node.waitForTasks(aWait(change));
};
const tasks = (...named: readonly (readonly [queue: string, pid: string])[]): Call =>
  wait({ tasks: named.map(([queue, pid]) => ({ queue, pid: bytes(pid) })) });
const read = (change: Partial<ReadEventsRequest>): Call => {
  const request = { queues: 'shop#*', after: '', kinds: [], task: undefined, maxEvents: 0, waitMs: 0, ...change };
  return (node) => node.readEvents(request);
};
const result = (change: Parameters<typeof aDequeue>[0]): Call => {
  return (node) => node.updateTasks(anUpdate({ dequeue: [aDequeue(change)] }));
};
const DAY_MS = 24 * 3600 * 1000;

const badReads: readonly (readonly [
  what: string,
  reason: Reason,
  field: string,
  change: Partial<ReadEventsRequest>,
])[] = [
  ['of no queue', 'INVALID_QUEUE', 'queues', { queues: 'shop#' }],
  ['of a reserved queue', 'INVALID_QUEUE', 'queues', { queues: 'shop#$taskmaster/results' }],
  ['of an unknown kind', 'INVALID_ARGUMENT', 'kinds[1]', { kinds: [EventKind.EVENT_KIND_LEASED, 99 as EventKind] }],
  ['of no kind', 'INVALID_ARGUMENT', 'kinds[0]', { kinds: [EventKind.EVENT_KIND_UNSPECIFIED] }],
  ['of too many kinds', 'TOO_MANY_ITEMS', 'kinds', { kinds: Array(limits.eventKinds + 1).fill(2) }],
  ['of a task without a PID', 'INVALID_PID', 'pid', { task: { $case: 'pid', value: bytes('') } }],
  ['of a task without a key', 'INVALID_ARGUMENT', 'key', { task: { $case: 'key', value: '' } }],
  ['behind no position', 'INVALID_ARGUMENT', 'after', { after: 'now' }],
  ['behind a negative position', 'INVALID_ARGUMENT', 'after', { after: '0--1' }],
  ['of less than no events', 'INVALID_ARGUMENT', 'max_events', { maxEvents: -1 }],
  ['of too many events', 'INVALID_ARGUMENT', 'max_events', { maxEvents: limits.readEvents + 1 }],
  ['that waits for hours', 'INVALID_ARGUMENT', 'wait_ms', { waitMs: limits.waitMs + 1 }],
  ['with a long span', 'INVALID_ARGUMENT', 'traceparent', { traceparent: 'x'.repeat(257) }],
];

/** Bad waits for tasks, bad reads of events, bad results, bad cancellations, and the queue of the results. */
export const badWaits: readonly BadRequest[] = [
  {
    what: 'a wait for a task of a reserved queue',
    reason: 'INVALID_QUEUE',
    field: 'tasks[0].queue',
    call: tasks(['shop#$taskmaster/results', 'a']),
  },
  {
    what: 'a look into a reserved queue',
    reason: 'INVALID_QUEUE',
    field: 'queue',
    call: (node) => node.peekTasks(aPeek({ queue: 'shop#$taskmaster/results' })),
  },
  { what: 'a wait for no task', reason: 'EMPTY_REQUEST', field: 'tasks', call: wait({ tasks: [] }) },
  {
    what: 'a wait for too many tasks',
    reason: 'TOO_MANY_ITEMS',
    field: 'tasks',
    call: tasks(...Array.from({ length: limits.awaitedTasks + 1 }, () => ['shop#mail', 'a'] as const)),
  },
  {
    what: 'a wait for a task of an unnamed queue',
    reason: 'INVALID_QUEUE',
    field: 'tasks[1].queue',
    call: tasks(['shop#mail', 'a'], ['shop#', 'a']),
  },
  {
    what: 'a wait for a task without a PID',
    reason: 'INVALID_PID',
    field: 'tasks[0].pid',
    call: tasks(['shop#mail', '']),
  },
  {
    what: 'a wait for tasks of two groups',
    reason: 'MIXED_GROUPS',
    field: 'tasks[1].queue',
    call: tasks(['shop#mail', 'a'], ['bank#mail', 'a']),
  },
  { what: 'a negative wait', reason: 'INVALID_ARGUMENT', field: 'wait_ms', call: wait({ waitMs: -1 }) },
  { what: 'a wait of hours', reason: 'INVALID_ARGUMENT', field: 'wait_ms', call: wait({ waitMs: limits.waitMs + 1 }) },
  {
    what: 'a long span of a wait',
    reason: 'INVALID_ARGUMENT',
    field: 'traceparent',
    call: wait({ traceparent: 'x'.repeat(257) }),
  },
  ...badReads.map(
    ([what, reason, field, change]): BadRequest => ({ what: `a read ${what}`, reason, field, call: read(change) }),
  ),
  {
    what: 'a large result',
    reason: 'DATA_TOO_LARGE',
    field: 'dequeue[0].result',
    call: result({ result: new Uint8Array(limits.resultBytes + 1) }),
  },
  {
    what: 'a result of a task that is put back',
    reason: 'INVALID_ARGUMENT',
    field: 'dequeue[0].result',
    call: result({ result: bytes('x'), requeue: true }),
  },
  {
    what: 'a retention without a result',
    reason: 'INVALID_ARGUMENT',
    field: 'dequeue[0].result_retention_ms',
    call: result({ resultRetentionMs: 1 }),
  },
  {
    what: 'no retention',
    reason: 'INVALID_ARGUMENT',
    field: 'dequeue[0].result_retention_ms',
    call: result({ result: bytes('x'), resultRetentionMs: 0 }),
  },
  {
    what: 'a retention of months',
    reason: 'INVALID_ARGUMENT',
    field: 'dequeue[0].result_retention_ms',
    call: result({ result: bytes('x'), resultRetentionMs: 31 * DAY_MS }),
  },
  {
    what: 'a cancellation by its worker',
    reason: 'INVALID_ARGUMENT',
    field: 'dequeue[0].cancel_reason',
    call: result({ cancelReason: '', leaseToken: 3 }),
  },
  {
    what: 'a cancellation with a result',
    reason: 'INVALID_ARGUMENT',
    field: 'dequeue[0].cancel_reason',
    call: result({ cancelReason: '', leaseToken: 0, result: bytes('x') }),
  },
  {
    what: 'a cancellation that puts back',
    reason: 'INVALID_ARGUMENT',
    field: 'dequeue[0].cancel_reason',
    call: result({ cancelReason: '', leaseToken: 0, requeue: true }),
  },
  {
    what: 'a long reason of a cancellation',
    reason: 'INVALID_ARGUMENT',
    field: 'dequeue[0].cancel_reason',
    call: result({ cancelReason: 'x'.repeat(limits.cancelReasonBytes + 1), leaseToken: 0 }),
  },
];
