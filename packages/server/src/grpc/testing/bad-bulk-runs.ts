import {
  BulkAction,
  type BulkFilter,
  type BulkSpec,
  type HeaderTest,
  limits,
  type StartBulkRunRequest,
} from '@taskmaster/proto';
import { type BadRequest, bad } from './bad-request.ts';
import { aBulkFilter, aBulkSpec } from './requests.ts';

const long = (length: number): string => 'x'.repeat(length);

const start =
  (change: Partial<StartBulkRunRequest>): BadRequest['call'] =>
  (node) =>
    node.startBulkRun({
      id: 'run',
      queues: 'shop#mail',
      spec: aBulkSpec(),
      preview: false,
      allTasks: false,
      ...change,
    });

const spec = (change: Partial<BulkSpec>): BadRequest['call'] => start({ spec: aBulkSpec(change) });
const filter = (change: Partial<BulkFilter>): BadRequest['call'] => spec({ filter: aBulkFilter(change) });
const headers = (all: HeaderTest[]): BadRequest['call'] => filter({ headers: { all } });
const headerTest = (key: string): HeaderTest => ({ key, test: { $case: 'exists', value: true } });

const { BULK_ACTION_MOVE, BULK_ACTION_RESCHEDULE } = BulkAction;
const tooLong = limits.bulkTextBytes + 1;
const ALL = 'spec.filter.headers.all';

export const badBulkRuns: readonly BadRequest[] = [
  ...['', 'shop#', '$taskmaster/x', long(513)].map((queues) =>
    bad(`a bulk run on ${queues.slice(0, 20) || 'nothing'}`, 'INVALID_QUEUE', 'queues', start({ queues })),
  ),
  ...['shop#*', '*', 'shop#**'].map((queues) =>
    bad(`a bulk run on all tasks of ${queues}`, 'INVALID_ARGUMENT', 'queues', start({ queues })),
  ),
  bad(
    'a bulk run that goes on from a preview',
    'INVALID_ARGUMENT',
    'preview_from',
    start({ previewFrom: { queueId: 1, afterPid: new Uint8Array(0) } }),
  ),
  bad(
    'a preview from a queue below the first',
    'INVALID_ARGUMENT',
    'preview_from.queue_id',
    start({ preview: true, previewFrom: { queueId: -1, afterPid: new Uint8Array(0) } }),
  ),
  bad(
    'a preview behind a PID that is too long',
    'INVALID_PID',
    'preview_from.after_pid',
    start({ preview: true, previewFrom: { queueId: 1, afterPid: new Uint8Array(limits.pidBytes + 1) } }),
  ),
  bad(
    'a bulk run on all tasks with a filter that lets all tasks in',
    'INVALID_ARGUMENT',
    'queues',
    start({ queues: 'shop#*', spec: aBulkSpec({ filter: aBulkFilter({ headers: { all: [] } }) }) }),
  ),
  ...['', long(limits.bulkRunIdBytes + 1)].map((id) =>
    bad(`a bulk run with an id of ${id.length} bytes`, 'INVALID_ARGUMENT', 'id', start({ id })),
  ),
  bad('a bulk run that does nothing', 'EMPTY_REQUEST', 'spec', start({ spec: undefined })),
  ...[-1, 0, 7].map((action) =>
    bad(`a bulk run of the kind ${action}`, 'INVALID_ARGUMENT', 'spec.action', spec({ action: action as BulkAction })),
  ),
  ...[-1, limits.bulkRate + 1].map((rate) =>
    bad(`a bulk run at the rate ${rate}`, 'INVALID_ARGUMENT', 'spec.rate', spec({ rate })),
  ),
  bad('a bulk run of -1 tasks', 'INVALID_ARGUMENT', 'spec.max_tasks', spec({ maxTasks: -1 })),
  bad('a bulk move to nowhere', 'INVALID_QUEUE', 'spec.target', spec({ action: BULK_ACTION_MOVE })),
  bad(
    'a bulk move to a reserved queue',
    'INVALID_QUEUE',
    'spec.target',
    spec({ action: BULK_ACTION_MOVE, target: 'shop#$taskmaster/x' }),
  ),
  bad(
    'a bulk move to another group',
    'MIXED_GROUPS',
    'spec.target',
    spec({ action: BULK_ACTION_MOVE, target: 'other#mail' }),
  ),
  bad('a bulk deletion with a target', 'INVALID_ARGUMENT', 'spec.target', spec({ target: 'shop#x' })),
  bad('a bulk deletion with a reason', 'INVALID_ARGUMENT', 'spec.cancel_reason', spec({ cancelReason: 'x' })),
  bad('a bulk deletion with a delay', 'INVALID_ARGUMENT', 'spec.delay_ms', spec({ delayMs: 1 })),
  bad('a bulk deletion with an instant', 'INVALID_ARGUMENT', 'spec.run_at_unix_ms', spec({ runAtUnixMs: 1 })),
  bad('a bulk delay of no time', 'INVALID_ARGUMENT', 'spec.delay_ms', spec({ action: BULK_ACTION_RESCHEDULE })),
  bad(
    'a bulk delay with two ends',
    'INVALID_ARGUMENT',
    'spec.delay_ms',
    spec({ action: BULK_ACTION_RESCHEDULE, delayMs: 1, runAtUnixMs: 1 }),
  ),
  bad(
    'a bulk delay of more than ten years',
    'INVALID_ARGUMENT',
    'spec.delay_ms',
    spec({ action: BULK_ACTION_RESCHEDULE, delayMs: limits.delayMs + 1 }),
  ),
  bad(
    'a bulk cancellation with a long reason',
    'INVALID_ARGUMENT',
    'spec.cancel_reason',
    spec({ action: BulkAction.BULK_ACTION_CANCEL, cancelReason: long(limits.cancelReasonBytes + 1) }),
  ),
  ...[-1, 9].map((tasks) =>
    bad(`a bulk run on states ${tasks}`, 'INVALID_ARGUMENT', 'spec.filter.tasks', filter({ tasks: tasks as never })),
  ),
  bad('a bulk run by a negative age', 'INVALID_ARGUMENT', 'spec.filter.min_age_ms', filter({ minAgeMs: -1 })),
  bad(
    'a bulk run by a great age',
    'INVALID_ARGUMENT',
    'spec.filter.max_age_ms',
    filter({ maxAgeMs: limits.bulkAgeMs + 1 }),
  ),
  bad(
    'a bulk run by ages that exclude each other',
    'INVALID_ARGUMENT',
    'spec.filter.min_age_ms',
    filter({ minAgeMs: 2, maxAgeMs: 1 }),
  ),
  bad(
    'a bulk run by a long error',
    'INVALID_ARGUMENT',
    'spec.filter.error_contains',
    filter({ errorContains: long(tooLong) }),
  ),
  bad('a bulk run by a long key', 'INVALID_ARGUMENT', 'spec.filter.key_prefix', filter({ keyPrefix: long(tooLong) })),
  bad('a bulk run by a bad kind', 'INVALID_ARGUMENT', 'spec.filter.kind', filter({ kind: 'a b' })),
  bad('a bulk run by a header without a key', 'INVALID_ARGUMENT', `${ALL}[0]`, headers([headerTest('')])),
  bad('a bulk run by one header twice', 'INVALID_ARGUMENT', `${ALL}[1]`, headers([headerTest('a'), headerTest('a')])),
  bad(
    'a bulk run by many headers',
    'TOO_MANY_ITEMS',
    ALL,
    headers(Array.from({ length: limits.filterTests + 1 }, (_, at) => headerTest(`k${at}`))),
  ),
  bad('a cancellation of a bulk run without an id', 'INVALID_ARGUMENT', 'id', (node) =>
    node.cancelBulkRun({ queue: 'shop#', id: '' }),
  ),
];
