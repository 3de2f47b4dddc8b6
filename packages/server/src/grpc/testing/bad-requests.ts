import { type EnqueueMode, limits, PeekKind, type UpdatePart } from '@taskmaster/proto';
import { badBulkRuns } from './bad-bulk-runs.ts';
import { badHeaders } from './bad-headers.ts';
import { badLinks } from './bad-links.ts';
import { type BadRequest, bad } from './bad-request.ts';
import { badSchedules } from './bad-schedules.ts';
import { badLimits, badPauses, badSettings } from './bad-settings.ts';
import { badTopics } from './bad-topics.ts';
import { badWaits } from './bad-waits.ts';
import {
  aDequeue,
  aFilter,
  aGet,
  aLease,
  aList,
  anEnqueue,
  anUpdate,
  aPeek,
  aRelease,
  aRenew,
  aRetry,
  bytes,
  someStats,
} from './requests.ts';

const long = (length: number): string => 'x'.repeat(length);
const times = <T>(count: number, value: T): T[] => new Array<T>(count).fill(value);
const YEARS_300 = 300 * 365 * 24 * 3600 * 1000;

const enqueue = (change: Parameters<typeof anEnqueue>[0]): BadRequest['call'] => {
  return (node) => node.updateTasks(anUpdate({ enqueue: [anEnqueue(change)] }));
};
const retry = (change: Parameters<typeof aRetry>[0]): BadRequest['call'] => enqueue({ retry: aRetry(change) });
const update = (change: Parameters<typeof anUpdate>[0]): BadRequest['call'] => {
  return (node) => node.updateTasks(anUpdate(change));
};
const byKey = (key: string, change: Parameters<typeof aDequeue>[0] = {}): BadRequest['call'] =>
  update({ dequeue: [aDequeue({ pid: bytes(''), key, ...change })] });
const lease = (change: Parameters<typeof aLease>[0]): BadRequest['call'] => {
  return (node) => node.leaseTasks(aLease(change));
};
const peek = (change: Parameters<typeof aPeek>[0]): BadRequest['call'] => {
  return (node) => node.peekTasks(aPeek(change));
};
const get = (change: Parameters<typeof aGet>[0]): BadRequest['call'] => {
  return (node) => node.getTasks(aGet(change));
};
const list = (change: Parameters<typeof aList>[0]): BadRequest['call'] => {
  return (node) => node.listQueues(aList(change));
};
const filter = (change: Parameters<typeof aFilter>[0]): BadRequest['call'] => list({ filter: aFilter(change) });
const stats = (change: Parameters<typeof someStats>[0]): BadRequest['call'] => {
  return (node) => node.getQueueStats(someStats(change));
};

const aPart = (change: Partial<UpdatePart>): UpdatePart => ({
  enqueues: 0,
  dequeues: 0,
  renewals: 0,
  releases: 0,
  ...change,
});

export const badRequests: readonly BadRequest[] = [
  ...badSettings,
  ...badPauses,
  ...badLimits,
  ...badBulkRuns,
  bad('an update of nothing', 'EMPTY_REQUEST', 'update', update({})),
  bad('an update of too many items', 'TOO_MANY_ITEMS', 'update', update({ dequeue: times(10_001, aDequeue()) })),
  bad(
    'a long request id',
    'INVALID_ARGUMENT',
    'request_id',
    update({ dequeue: [aDequeue()], requestId: bytes(long(65)) }),
  ),
  bad(
    'a long span of an update',
    'INVALID_ARGUMENT',
    'traceparent',
    update({ dequeue: [aDequeue()], traceparent: long(257) }),
  ),
  bad(
    'queues of two groups',
    'MIXED_GROUPS',
    'dequeue[0].queue',
    update({ enqueue: [anEnqueue()], dequeue: [aDequeue({ queue: 'other#mail' })] }),
  ),
  bad(
    'the default group beside another',
    'MIXED_GROUPS',
    'renew[0].queue',
    update({ enqueue: [anEnqueue()], renew: [aRenew({ queue: 'mail' })] }),
  ),
  bad(
    'a task dequeued twice',
    'CONFLICTING_ITEMS',
    'dequeue[1]',
    update({ dequeue: [aDequeue(), aDequeue({ leaseToken: 0 })] }),
  ),
  bad(
    'a task dequeued and renewed',
    'CONFLICTING_ITEMS',
    'renew[0]',
    update({ dequeue: [aDequeue()], renew: [aRenew()] }),
  ),
  bad(
    'a task renewed and released',
    'CONFLICTING_ITEMS',
    'release[0]',
    update({ renew: [aRenew()], release: [aRelease()] }),
  ),
  bad(
    'a part without items',
    'EMPTY_REQUEST',
    'parts[1].update',
    update({ dequeue: [aDequeue()], parts: [aPart({ dequeues: 1 }), aPart({})] }),
  ),
  bad(
    'parts with more items than the update',
    'INVALID_ARGUMENT',
    'parts',
    update({ dequeue: [aDequeue()], parts: [aPart({ dequeues: 2 })] }),
  ),
  bad(
    'parts with fewer items than the update',
    'INVALID_ARGUMENT',
    'parts',
    update({ dequeue: [aDequeue()], enqueue: [anEnqueue()], parts: [aPart({ dequeues: 1 })] }),
  ),
  bad(
    'a part that names a task twice',
    'CONFLICTING_ITEMS',
    'renew[1]',
    update({
      dequeue: [aDequeue()],
      renew: [aRenew(), aRenew()],
      parts: [aPart({ renewals: 1 }), aPart({ dequeues: 1, renewals: 1 })],
    }),
  ),
  bad(
    'more data than a request may have',
    'REQUEST_TOO_LARGE',
    'update',
    update({ enqueue: times(3, anEnqueue({ data: Buffer.alloc(1.5e6) })) }),
  ),
  bad(
    'many times as much',
    'REQUEST_TOO_LARGE',
    'update',
    update({ enqueue: times(20, anEnqueue({ data: Buffer.alloc(1.5e6) })) }),
  ),

  bad('an empty queue name', 'INVALID_QUEUE', 'enqueue[0].queue', enqueue({ queue: '' })),
  bad('a queue of a group without a name', 'INVALID_QUEUE', 'enqueue[0].queue', enqueue({ queue: 'shop#' })),
  bad('a long queue name', 'INVALID_QUEUE', 'enqueue[0].queue', enqueue({ queue: `shop#${long(513)}` })),
  bad(
    'a long name of long characters',
    'INVALID_QUEUE',
    'enqueue[0].queue',
    enqueue({ queue: `shop#${'é'.repeat(257)}` }),
  ),
  bad('a long group', 'INVALID_QUEUE', 'enqueue[0].queue', enqueue({ queue: `${long(513)}#mail` })),
  bad('a name that was not UTF-8', 'INVALID_QUEUE', 'enqueue[0].queue', enqueue({ queue: 'shop#ma\uFFFDl' })),
  bad('a group that was not UTF-8', 'INVALID_QUEUE', 'enqueue[0].queue', enqueue({ queue: 'sh\uFFFDp#mail' })),
  bad('a long PID', 'INVALID_PID', 'enqueue[0].pid', enqueue({ pid: bytes(long(limits.pidBytes + 1)) })),
  bad('too much data', 'DATA_TOO_LARGE', 'enqueue[0].data', enqueue({ data: Buffer.alloc(limits.dataBytes + 1) })),
  ...badLinks,
  ...badHeaders.map(({ what, change, reason }) => {
    return bad(what, reason, reason === 'DATA_TOO_LARGE' ? 'enqueue[0].data' : 'enqueue[0].headers', enqueue(change));
  }),
  bad('an unknown mode', 'INVALID_ARGUMENT', 'enqueue[0].mode', enqueue({ mode: 9 as EnqueueMode })),
  bad('a negative delay', 'INVALID_ARGUMENT', 'enqueue[0].delay_ms', enqueue({ delayMs: -1 })),
  bad('a delay of 300 years', 'INVALID_ARGUMENT', 'enqueue[0].delay_ms', enqueue({ delayMs: YEARS_300 })),
  bad('negative attempts', 'INVALID_ARGUMENT', 'enqueue[0].retry.max_attempts', retry({ maxAttempts: -1 })),
  bad('absurdly many attempts', 'INVALID_ARGUMENT', 'enqueue[0].retry.max_attempts', retry({ maxAttempts: 1_000_001 })),
  bad('a negative backoff', 'INVALID_ARGUMENT', 'enqueue[0].retry.backoff_initial_ms', retry({ backoffInitialMs: -1 })),
  bad(
    'a backoff of 300 years',
    'INVALID_ARGUMENT',
    'enqueue[0].retry.backoff_max_ms',
    retry({ backoffMaxMs: YEARS_300 }),
  ),
  bad(
    'a backoff that begins above its bound',
    'INVALID_ARGUMENT',
    'enqueue[0].retry.backoff_initial_ms',
    retry({ backoffInitialMs: 2000, backoffMaxMs: 1000 }),
  ),
  bad(
    'a backoff that begins above one hour, the bound by default',
    'INVALID_ARGUMENT',
    'enqueue[0].retry.backoff_initial_ms',
    retry({ backoffInitialMs: 3_600_001, backoffMaxMs: 0 }),
  ),
  bad(
    'a dead-letter queue of another group',
    'MIXED_GROUPS',
    'enqueue[0].retry.dead_letter_queue',
    retry({ deadLetterQueue: 'other#dead' }),
  ),
  bad(
    'a dead-letter queue without a name',
    'INVALID_QUEUE',
    'enqueue[0].retry.dead_letter_queue',
    retry({ deadLetterQueue: 'shop#' }),
  ),
  bad(
    "the task's own queue for dead letters",
    'INVALID_QUEUE',
    'enqueue[0].retry.dead_letter_queue',
    retry({ deadLetterQueue: 'shop#mail' }),
  ),
  bad(
    'a reserved queue for dead letters',
    'INVALID_QUEUE',
    'enqueue[0].retry.dead_letter_queue',
    retry({ deadLetterQueue: 'shop#$taskmaster/settings' }),
  ),
  bad('a negative time limit', 'INVALID_ARGUMENT', 'enqueue[0].time_limit_ms', enqueue({ timeLimitMs: -1 })),
  bad(
    'a time limit of more than a year',
    'INVALID_ARGUMENT',
    'enqueue[0].time_limit_ms',
    enqueue({ timeLimitMs: limits.timeLimitMs + 1 }),
  ),
  bad('a time limit of 300 years', 'INVALID_ARGUMENT', 'enqueue[0].time_limit_ms', enqueue({ timeLimitMs: YEARS_300 })),
  ...['@2', 'resize@', 'resize@1@2', 'resize*', 'two words', 'a\u0007', 'a\uFFFD', long(limits.kindBytes + 1)].map(
    (kind) =>
      bad(`the kind ${JSON.stringify(kind.slice(0, 20))}`, 'INVALID_ARGUMENT', 'enqueue[0].kind', enqueue({ kind })),
  ),
  bad('a long key', 'INVALID_ARGUMENT', 'enqueue[0].key', enqueue({ key: long(limits.keyBytes + 1) })),
  bad(
    'a long key of limits',
    'INVALID_ARGUMENT',
    'enqueue[0].limit_key',
    enqueue({ limitKey: long(limits.keyBytes + 1) }),
  ),
  bad(
    'a key of limits that is not UTF-8',
    'INVALID_ARGUMENT',
    'enqueue[0].limit_key',
    enqueue({ limitKey: 'a\uFFFD' }),
  ),
  bad('a key that is not UTF-8', 'INVALID_ARGUMENT', 'enqueue[0].key', enqueue({ key: 'a\uFFFD' })),
  bad('a task named by an empty key', 'INVALID_ARGUMENT', 'dequeue[0].key', byKey('')),
  bad('a task named by a long key', 'INVALID_ARGUMENT', 'dequeue[0].key', byKey(long(limits.keyBytes + 1))),
  bad('a task named by key and PID', 'INVALID_ARGUMENT', 'dequeue[0].key', byKey('k', { pid: bytes('a') })),
  bad('a dead letter named by its key', 'INVALID_ARGUMENT', 'dequeue[0].key', byKey('k', { requeue: true })),
  bad(
    'a lease given back by key',
    'INVALID_ARGUMENT',
    'release[0].key',
    update({ release: [aRelease({ pid: bytes(''), key: 'k' })] }),
  ),
  bad(
    'a task named twice by its key',
    'CONFLICTING_ITEMS',
    'release[0]',
    update({
      dequeue: [aDequeue({ pid: bytes(''), key: 'k' })],
      release: [aRelease({ pid: bytes(''), key: 'k', waiting: true, leaseToken: 0 })],
    }),
  ),
  bad(
    'an enqueue into a reserved queue',
    'INVALID_QUEUE',
    'enqueue[0].queue',
    enqueue({ queue: 'shop#$taskmaster/settings' }),
  ),

  bad('a dequeue without a PID', 'INVALID_PID', 'dequeue[0].pid', update({ dequeue: [aDequeue({ pid: bytes('') })] })),
  bad(
    'the second of two dequeues without a queue',
    'INVALID_QUEUE',
    'dequeue[1].queue',
    update({ dequeue: [aDequeue(), aDequeue({ queue: '' })] }),
  ),
  bad('a renewal without a PID', 'INVALID_PID', 'renew[0].pid', update({ renew: [aRenew({ pid: bytes('') })] })),
  bad(
    'a renewal for negative time',
    'INVALID_ARGUMENT',
    'renew[0].lease_duration_ms',
    update({ renew: [aRenew({ leaseDurationMs: -5 })] }),
  ),
  bad(
    'a renewal for 300 years',
    'INVALID_ARGUMENT',
    'renew[0].lease_duration_ms',
    update({ renew: [aRenew({ leaseDurationMs: YEARS_300 })] }),
  ),
  bad(
    'a long progress',
    'INVALID_ARGUMENT',
    'renew[0].progress',
    update({ renew: [aRenew({ progress: '€'.repeat(86) })] }),
  ),
  bad(
    'a large checkpoint',
    'DATA_TOO_LARGE',
    'renew[0].checkpoint',
    update({ renew: [aRenew({ checkpoint: new Uint8Array(16 * 1024 + 1) })] }),
  ),
  bad('a begin of less than one task', 'INVALID_ARGUMENT', 'renew[0].begun', update({ renew: [aRenew({ begun: 0 })] })),
  bad(
    'a begin of too many tasks',
    'INVALID_ARGUMENT',
    'renew[0].begun',
    update({ renew: [aRenew({ begun: 10_001 })] }),
  ),
  bad(
    'an interruption that counts',
    'INVALID_ARGUMENT',
    'release[0].interrupted',
    update({ release: [aRelease({ interrupted: true })] }),
  ),
  bad('a release without a PID', 'INVALID_PID', 'release[0].pid', update({ release: [aRelease({ pid: bytes('') })] })),
  bad(
    'a release with a negative delay',
    'INVALID_ARGUMENT',
    'release[0].delay_ms',
    update({ release: [aRelease({ delayMs: -1 })] }),
  ),
  bad(
    'a release with a delay of 300 years',
    'INVALID_ARGUMENT',
    'release[0].delay_ms',
    update({ release: [aRelease({ delayMs: YEARS_300 })] }),
  ),
  bad(
    'an enqueue with a delay and an instant',
    'INVALID_ARGUMENT',
    'enqueue[0].run_at_unix_ms',
    enqueue({ delayMs: 1, runAtUnixMs: 1 }),
  ),
  bad(
    'a start by an instant and within a time',
    'INVALID_ARGUMENT',
    'enqueue[0].start_by_unix_ms',
    enqueue({ startWithinMs: 1, startByUnixMs: 1 }),
  ),
  bad('a start before 1970', 'INVALID_ARGUMENT', 'enqueue[0].start_by_unix_ms', enqueue({ startByUnixMs: -1 })),
  bad(
    'a start within 300 years',
    'INVALID_ARGUMENT',
    'enqueue[0].start_within_ms',
    enqueue({ startWithinMs: YEARS_300 }),
  ),
  bad(
    'a delay as long as the time to start',
    'INVALID_ARGUMENT',
    'enqueue[0].start_within_ms',
    enqueue({ startWithinMs: 5, delayMs: 5 }),
  ),
  bad(
    'a start before the task is shown',
    'INVALID_ARGUMENT',
    'enqueue[0].start_by_unix_ms',
    enqueue({ startByUnixMs: 5, runAtUnixMs: 5 }),
  ),
  bad('an enqueue before 1970', 'INVALID_ARGUMENT', 'enqueue[0].run_at_unix_ms', enqueue({ runAtUnixMs: -1 })),
  bad(
    'an enqueue for the year 10000',
    'INVALID_ARGUMENT',
    'enqueue[0].run_at_unix_ms',
    enqueue({ runAtUnixMs: 253_402_300_800_000 }),
  ),
  bad(
    'a release with a delay and an instant',
    'INVALID_ARGUMENT',
    'release[0].run_at_unix_ms',
    update({ release: [aRelease({ delayMs: 0, runAtUnixMs: 1 })] }),
  ),
  bad(
    'a dead letter for later',
    'INVALID_ARGUMENT',
    'release[0].run_at_unix_ms',
    update({ release: [aRelease({ deadLetter: true, runAtUnixMs: 1 })] }),
  ),
  bad(
    'another delay for a task with a lease',
    'INVALID_ARGUMENT',
    'release[0].waiting',
    update({ release: [aRelease({ waiting: true, leaseToken: 7 })] }),
  ),
  bad(
    'another delay for an attempt that failed',
    'INVALID_ARGUMENT',
    'release[0].waiting',
    update({ release: [aRelease({ waiting: true, leaseToken: 0, error: { message: '', details: '' } })] }),
  ),
  bad(
    'an error of an attempt that does not count',
    'INVALID_ARGUMENT',
    'release[0].error',
    update({ release: [aRelease({ refundAttempt: true, error: { message: 'no', details: '' } })] }),
  ),
  bad(
    'a long message of an error',
    'INVALID_ARGUMENT',
    'release[0].error.message',
    update({ release: [aRelease({ error: { message: long(513), details: '' } })] }),
  ),
  bad(
    'long details of an error, in bytes of UTF-8',
    'INVALID_ARGUMENT',
    'release[0].error.details',
    update({ release: [aRelease({ error: { message: '', details: '€'.repeat(683) } })] }),
  ),
  bad(
    'a dead letter whose attempt does not count',
    'INVALID_ARGUMENT',
    'release[0].dead_letter',
    update({ release: [aRelease({ refundAttempt: true, deadLetter: true })] }),
  ),
  bad(
    'a dead letter with a delay',
    'INVALID_ARGUMENT',
    'release[0].delay_ms',
    update({ release: [aRelease({ delayMs: 0, deadLetter: true })] }),
  ),

  bad('a lease of no queue', 'EMPTY_REQUEST', 'queues', lease({ queues: [] })),
  bad('a lease of too many queues', 'TOO_MANY_ITEMS', 'queues', lease({ queues: times(1_001, 'mail') })),
  bad('a lease of an unnamed queue', 'INVALID_QUEUE', 'queues[1]', lease({ queues: ['mail', ''] })),
  bad('a lease of no tasks', 'INVALID_ARGUMENT', 'max_tasks', lease({ maxTasks: 0 })),
  bad('a lease of no kinds', 'EMPTY_REQUEST', 'kinds.patterns', lease({ kinds: { patterns: [] } })),
  bad(
    'a lease of too many kinds',
    'TOO_MANY_ITEMS',
    'kinds.patterns',
    lease({ kinds: { patterns: times(limits.leaseKinds + 1, 'resize') } }),
  ),
  ...['@*', '*@1@2', 'two words', '\n', 'a\uFFFD', long(limits.kindBytes + 1)].map((pattern) =>
    bad(
      `a lease of the kind ${JSON.stringify(pattern.slice(0, 20))}`,
      'INVALID_ARGUMENT',
      'kinds.patterns[1]',
      lease({ kinds: { patterns: ['resize@*', pattern] } }),
    ),
  ),
  bad('a lease of -1 tasks', 'INVALID_ARGUMENT', 'max_tasks', lease({ maxTasks: -1 })),
  bad('a lease of too many tasks', 'INVALID_ARGUMENT', 'max_tasks', lease({ maxTasks: 10_001 })),
  bad('a lease for negative time', 'INVALID_ARGUMENT', 'lease_duration_ms', lease({ leaseDurationMs: -1 })),
  bad(
    'a lease for more than a year',
    'INVALID_ARGUMENT',
    'lease_duration_ms',
    lease({ leaseDurationMs: limits.leaseDurationMs + 1 }),
  ),
  bad('a negative wait', 'INVALID_ARGUMENT', 'wait_ms', lease({ waitMs: -1 })),
  bad('a wait of more than 10 minutes', 'INVALID_ARGUMENT', 'wait_ms', lease({ waitMs: limits.waitMs + 1 })),
  bad('a long bound of PIDs', 'INVALID_PID', 'max_pid', lease({ maxPid: bytes(long(4097)) })),
  bad('a long label of a worker', 'INVALID_ARGUMENT', 'worker_label', lease({ workerLabel: long(257) })),
  bad('a long span of a lease', 'INVALID_ARGUMENT', 'traceparent', lease({ traceparent: long(257) })),
  bad('a negative bound of bytes', 'INVALID_ARGUMENT', 'max_bytes', lease({ maxBytes: -1 })),
  bad(
    'a bound of bytes beyond a reply',
    'INVALID_ARGUMENT',
    'max_bytes',
    lease({ maxBytes: limits.replyDataBytes + 1 }),
  ),

  bad(
    'a page of leased tasks',
    'INVALID_ARGUMENT',
    'after_pid',
    peek({ kind: PeekKind.PEEK_KIND_LEASED, afterPid: bytes('a') }),
  ),
  bad('a peek into an unnamed queue', 'INVALID_QUEUE', 'queue', peek({ queue: '' })),
  bad('a peek of an unknown kind', 'INVALID_ARGUMENT', 'kind', peek({ kind: 9 as PeekKind })),
  bad('a peek at no kinds', 'EMPTY_REQUEST', 'kinds.patterns', peek({ kinds: { patterns: [] } })),
  bad('a peek at a wrong kind', 'INVALID_ARGUMENT', 'kinds.patterns[0]', peek({ kinds: { patterns: ['a b'] } })),
  bad('a peek at no tasks', 'INVALID_ARGUMENT', 'limit', peek({ limit: 0 })),
  bad('a peek at too many tasks', 'INVALID_ARGUMENT', 'limit', peek({ limit: 1_001 })),
  bad('a get from an unnamed queue', 'INVALID_QUEUE', 'queue', get({ queue: 'shop#' })),
  bad('a get of no PIDs', 'EMPTY_REQUEST', 'pids', get({ pids: [] })),
  bad('a get of an empty PID', 'INVALID_PID', 'pids[1]', get({ pids: [bytes('a'), bytes('')] })),
  bad('a get by an empty key', 'INVALID_ARGUMENT', 'keys[1]', get({ keys: ['a', ''] })),
  bad('a get of too many PIDs and keys', 'TOO_MANY_ITEMS', 'pids', get({ keys: times(1_000, 'a') })),
  bad('a get of too many PIDs', 'TOO_MANY_ITEMS', 'pids', get({ pids: times(1_001, bytes('a')) })),

  bad('a negative limit', 'INVALID_ARGUMENT', 'limit', list({ limit: -1 })),
  bad('a limit beyond a reply', 'INVALID_ARGUMENT', 'limit', list({ limit: 10_001 })),
  bad('a page token of something else', 'INVALID_PAGE_TOKEN', 'page_token', list({ pageToken: 'not from here!' })),
  bad('a page token that names no queue', 'INVALID_PAGE_TOKEN', 'page_token', list({ pageToken: 'c2hvcCM' })),
  bad('a regular expression that is none', 'INVALID_REGEX', 'filter.name_regex', filter({ nameRegex: '(' })),
  bad('a look-ahead, which RE2 has not', 'INVALID_REGEX', 'filter.name_regex', filter({ nameRegex: '(?=a)b' })),
  bad('a back reference, which RE2 has not', 'INVALID_REGEX', 'filter.name_regex', filter({ nameRegex: '(a)\\1' })),
  bad(
    'nested repeats of exponential size',
    'INVALID_REGEX',
    'filter.name_regex',
    filter({ nameRegex: '((a{1000}){1000}){1000}' }),
  ),
  bad(
    'a regular expression that takes long for one name',
    'INVALID_REGEX',
    'filter.name_regex',
    filter({ nameRegex: '(?i)(\\pL|N|.){0,1000}x' }),
  ),
  bad('a long regular expression', 'INVALID_REGEX', 'filter.name_regex', filter({ nameRegex: long(257) })),
  bad('a long group to filter by', 'INVALID_QUEUE', 'filter.group', filter({ group: long(513) })),
  bad('a group with a separator', 'INVALID_QUEUE', 'filter.group', filter({ group: 'shop#mail' })),
  bad('a negative bound of sizes', 'INVALID_ARGUMENT', 'filter.min_available', filter({ minAvailable: -1 })),
  bad('bounds the wrong way round', 'INVALID_ARGUMENT', 'filter.min_leased', filter({ minLeased: 2, maxLeased: 1 })),

  bad(
    'statistics of named and filtered queues',
    'INVALID_ARGUMENT',
    'filter',
    stats({ queues: ['mail'], filter: aFilter() }),
  ),
  bad('statistics of too many queues', 'TOO_MANY_ITEMS', 'queues', stats({ queues: times(10_001, 'mail') })),
  bad('statistics of an unnamed queue', 'INVALID_QUEUE', 'queues[0]', stats({ queues: [''] })),
  bad(
    'statistics by a bad expression',
    'INVALID_REGEX',
    'filter.name_regex',
    stats({ filter: aFilter({ nameRegex: '[' }) }),
  ),

  bad('deleting an unnamed queue', 'INVALID_QUEUE', 'queue', (node) => node.deleteQueue({ queue: '' })),
  bad('deleting a queue of a long name', 'INVALID_QUEUE', 'queue', (node) => node.deleteQueue({ queue: long(513) })),
  bad('resetting the leases of an unnamed queue', 'INVALID_QUEUE', 'queue', (node) => node.resetLeases({ queue: '#' })),
  ...badWaits,
  ...badSchedules.map((request) => bad(...request)),
  ...badTopics,
];
