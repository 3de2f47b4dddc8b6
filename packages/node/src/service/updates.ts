import type { Engine } from '@taskmaster/engine';
import {
  BATCH_START,
  type BatchCommand,
  type DequeueItem,
  type EnqueueItem,
  endOf,
  type Instant,
  latin1Of,
  type Pid,
  type ReleaseItem,
  type RenewItem,
  type RetryPolicy,
  type TaskError,
  type TaskItem,
  type TaskResult,
  taskMetadata,
  type UpdateCommand,
  type UpdateEnd,
  type UpdateOutcome,
  withHeaders,
} from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import {
  type Dequeue,
  type Enqueue,
  limits,
  NO_ENTRIES,
  type QueueName,
  type Release,
  type Renew,
  type RetryPolicy as RetryPolicyMessage,
  type TaskError as TaskErrorMessage,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
  type Error as WireError,
} from '@taskmaster/proto';
import {
  type Caller,
  countRequests,
  refusalOf,
  requireUpdate,
  type TaskHandlers,
  toWireError,
  updateFields,
} from '@taskmaster/server/calls';
import {
  checkTraceparent,
  countAtMost,
  duration,
  excerpt,
  headers,
  leaseTime,
  leaseToken,
  type Place,
  pathOf,
  pid,
  pidOrNone,
  refuse,
  refuseEmptyUpdate,
  startWithin,
  taskGiven,
  taskKey,
  textAtMost,
  wholeNumber,
} from '@taskmaster/server/requests';
import { OneGroup } from './one-group.ts';
import { isLinkedOrSignal, parseLinks } from './parse-links.ts';
import { enqueueMode, retryLimits } from './parse-retry.ts';
import { updateReply } from './reply/build-reply.ts';

/** The part of the service that changes tasks. */
export const updateHandlers = (engine: Pick<Engine, 'updates'>, log: Log): Pick<TaskHandlers, 'updateTasks'> => ({
  updateTasks: (request, caller) => update(engine, log, request, caller),
});

/** Applies an update, or its parts: a refused part does not affect the others. */
export function update(
  { updates }: Pick<Engine, 'updates'>,
  log: Log,
  request: UpdateTasksRequest,
  caller: Caller,
): Promise<UpdateTasksResponse> {
  if (request.parts.length > 0) return updateParts(updates, log, request, caller);
  // Not an async function: its frame would cost each update 300 bytes (bench row B1).
  try {
    const command = parseUpdate(request);
    requireUpdate(caller.access, command);
    return updates.apply(command).then(replyOf);
  } catch (error) {
    return Promise.reject(error);
  }
}

const replyOf = (outcome: UpdateOutcome): UpdateTasksResponse => updateReply(outcome);

async function updateParts(
  updates: Engine['updates'],
  log: Log,
  request: UpdateTasksRequest,
  caller: Caller,
): Promise<UpdateTasksResponse> {
  const { access } = caller;
  const parts = request.parts.length;
  const batch = parseParts(request);
  requireUpdate(access, batch);
  countRequests(caller, parts - 1);
  const outcome = await updates.applyBatch(batch);
  const reply = updateReply(outcome);
  for (const [part, refusal] of outcome.refusals) {
    reply.refused.push({ part, error: errorIn(parts, refusal, log, caller, request) });
  }
  return reply;
}

/** Size limit of the lists of items at fault in one reply, over all its errors, in bytes. */
const BATCH_ITEMS_BYTES = 1024 * 1024;

/** The refusal of one of `requests` in a batch, for its place in their reply. `request`: the update, for the log. */
export function errorIn(
  requests: number,
  error: unknown,
  log: Log,
  caller: Caller,
  request?: UpdateTasksRequest,
): WireError {
  const refusal = refusalOf(error, log, request && (() => updateFields('UpdateTasks', request)));
  caller.requestRefused?.(refusal);
  return toWireError(refusal, BATCH_ITEMS_BYTES / requests);
}

/** Throws a `Refusal` unless the engine can take the update as it is. */
export function parseUpdate(request: UpdateTasksRequest): UpdateCommand {
  const items = countItems(request);
  if (items === 0) refuseEmptyUpdate();
  countAtMost(items, { field: 'update' }, limits.updateItems);
  checkTraceparent(request);
  const requestId = parseRequestId(request.requestId);

  const group = new OneGroup();
  const enqueue = request.enqueue.map((item, index) => parseEnqueue(item, index, group));
  const dequeue = request.dequeue.map((item, index) => parseDequeue(item, index, group));
  const renew = request.renew.map((item, index) => parseRenew(item, index, group));
  const release = request.release.map((item, index) => parseRelease(item, index, group));
  refuseTooLarge(enqueue, dequeue, renew);
  const publishes = enqueue.some(({ isPublished }) => isPublished);
  const command = { group: group.name, enqueue, dequeue, renew, release, publishes, requestId };
  if (request.parts.length === 0) refuseConflicts(command, BATCH_START, endOf(command));
  return command;
}

/** The parts of an update as a batch. Throws a `Refusal` unless the engine can take it as it is. */
function parseParts(request: UpdateTasksRequest): BatchCommand {
  const command = parseUpdate(request);
  const updates: UpdateEnd[] = [];
  let start = BATCH_START;
  let index = 0;
  for (const { enqueues, dequeues, renewals, releases } of request.parts) {
    const end = {
      enqueue: start.enqueue + enqueues,
      dequeue: start.dequeue + dequeues,
      renew: start.renew + renewals,
      release: start.release + releases,
    };
    const items = enqueues + dequeues + renewals + releases;
    if (items === 0) refuse('EMPTY_REQUEST', { list: 'parts', index, field: 'update' }, 'has no items');
    if (items > 1) refuseConflicts(command, start, end);
    updates.push(end);
    start = end;
    index++;
  }
  const all = endOf(command);
  for (const list of ['enqueue', 'dequeue', 'renew', 'release'] as const) {
    if (start[list] === all[list]) continue;
    refuse(
      'INVALID_ARGUMENT',
      { field: 'parts' },
      `have ${start[list]} items of ${list}: the update has ${all[list]}`,
      {
        value: start[list],
        limit: all[list],
      },
    );
  }
  return { ...command, updates };
}

export function countItems({ enqueue, dequeue, renew, release }: UpdateTasksRequest): number {
  return enqueue.length + dequeue.length + renew.length + release.length;
}

function parseRequestId(id: Uint8Array): string | undefined {
  if (id.length > limits.requestIdBytes) {
    refuse('INVALID_ARGUMENT', { field: 'request_id' }, `has ${id.length} bytes: at most ${limits.requestIdBytes}`, {
      value: id.length,
      limit: limits.requestIdBytes,
    });
  }
  return id.length === 0 ? undefined : latin1Of(id);
}

function parseEnqueue(item: Enqueue, index: number, group: OneGroup): EnqueueItem {
  const list = 'enqueue';
  const isPublished = item.topic !== '';
  if (isPublished) checkPublished(item, index);
  const queue = group.queue(item.topic || item.queue, list, index, isPublished ? 'topic' : 'queue');
  refuseTooMuch(item.data, index);
  const payload =
    item.headers === NO_ENTRIES
      ? undefined
      : withHeaders(headers(item.headers, { list, index, field: 'headers' }), item.data);
  if (payload !== undefined) refuseTooMuch(payload.data, index);
  const parsed: EnqueueItem = {
    queue,
    isPublished,
    pid: pidOrNone(item.pid, { list, index, field: 'pid' }),
    data: payload?.data ?? item.data,
    headerBytes: payload?.headerBytes ?? 0,
    key: item.key === '' ? undefined : taskKey(item.key, { list, index, field: 'key' }),
    given: taskGiven(item, { list, index, field: '' }),
    mode: enqueueMode(item.mode, { list, index, field: 'mode' }),
    delayMs: duration(item.delayMs, { list, index, field: 'delay_ms' }, 0, limits.delayMs),
    runAt: runAt(item.runAtUnixMs, item.delayMs === 0, { list, index, field: 'run_at_unix_ms' }),
    start: hasStart(item) ? startOf(item, index) : undefined,
    retry: item.retry === undefined ? undefined : parseRetry(item.retry, queue, index, group),
  };
  return isLinkedOrSignal(item) ? { ...parsed, ...parseLinks(item, index, queue, group) } : parsed;
}

/** A published task goes to several queues, and dead letters of one PID in one queue would replace each other. */
function checkPublished({ queue, retry }: Enqueue, index: number): void {
  const at = (field: string): Place => ({ list: 'enqueue', index, field });
  if (queue !== '') refuse('INVALID_ARGUMENT', at('topic'), 'is given beside a queue');
  if (retry === undefined || retry.deadLetterQueue === '') return;
  refuse('INVALID_ARGUMENT', at('retry.dead_letter_queue'), 'is given for a task that is published');
}

function refuseTooMuch({ length }: Uint8Array, index: number): void {
  if (length <= limits.dataBytes) return;
  const problem = `has ${length} bytes with its headers: at most ${limits.dataBytes}`;
  refuse('DATA_TOO_LARGE', { list: 'enqueue', index, field: 'data' }, problem, {
    value: length,
    limit: limits.dataBytes,
  });
}

function parseRetry(given: RetryPolicyMessage, queue: QueueName, index: number, group: OneGroup): RetryPolicy {
  const policy = retryLimits(given, (field) => ({ list: 'enqueue', index, field: `retry.${field}` }));
  return { ...policy, deadLetterQueue: deadLetterName(given.deadLetterQueue, queue, index, group) };
}

function deadLetterName(given: string, queue: QueueName, index: number, group: OneGroup): string {
  if (given === '') return '';
  const field = 'retry.dead_letter_queue';
  const target = group.queue(given, 'enqueue', index, field);
  if (target.name !== queue.name) return target.name;
  return refuse('INVALID_QUEUE', { list: 'enqueue', index, field }, `is ${excerpt(given)}: the task's own queue`);
}

function parseTask(item: Renew | Dequeue | Release, list: string, index: number, group: OneGroup): TaskItem {
  const key = 'key' in item ? item.key : undefined;
  return {
    queue: group.queue(item.queue, list, index, 'queue'),
    pid: key === undefined ? pid(item.pid, { list, index, field: 'pid' }) : NO_PID,
    token: leaseToken(item.leaseToken, { list, index, field: 'lease_token' }),
    key: key === undefined ? undefined : parseKey(key, item.pid, { list, index, field: 'key' }),
  };
}

/** The key by which an item names its task. */
function parseKey(key: string, { length }: Uint8Array, place: Place): string {
  if (length > 0) refuse('INVALID_ARGUMENT', place, 'is given beside a PID');
  return taskKey(key, place);
}

const NO_PID = '' as Pid;

function parseDequeue(item: Dequeue, index: number, group: OneGroup): DequeueItem {
  const result = parseResult(item, index);
  const task = parseTask(item, 'dequeue', index, group);
  if (item.requeue && task.key !== undefined) {
    const place = { list: 'dequeue', index, field: 'key' };
    refuse('INVALID_ARGUMENT', place, 'is given for a dead letter, which has lost its key');
  }
  return { ...task, requeue: item.requeue, result, cancelReason: parseCancel(item, index) };
}

function parseCancel({ cancelReason, leaseToken: token, requeue, result }: Dequeue, index: number): string | undefined {
  if (cancelReason === undefined) return undefined;
  const at: Place = { list: 'dequeue', index, field: 'cancel_reason' };
  if (token !== 0 || requeue || result !== undefined) {
    refuse('INVALID_ARGUMENT', at, 'is given beside a lease, a result or a requeue');
  }
  return textAtMost(cancelReason, at, limits.cancelReasonBytes);
}

function parseResult({ result: data, resultRetentionMs, requeue }: Dequeue, index: number): TaskResult | undefined {
  const at = (field: string): Place => ({ list: 'dequeue', index, field });
  const keepMs =
    resultRetentionMs === undefined
      ? undefined
      : duration(resultRetentionMs, at('result_retention_ms'), 1, limits.resultRetentionMs);
  if (data === undefined) {
    if (resultRetentionMs !== undefined)
      refuse('INVALID_ARGUMENT', at('result_retention_ms'), 'is given without a result');
    return undefined;
  }
  if (requeue) refuse('INVALID_ARGUMENT', at('result'), 'is given for a task that is put back');
  if (data.length > limits.resultBytes) {
    refuse('DATA_TOO_LARGE', at('result'), `has ${data.length} bytes: at most ${limits.resultBytes}`, {
      value: data.length,
      limit: limits.resultBytes,
    });
  }
  return { data, keepMs };
}

function parseRenew(item: Renew, index: number, group: OneGroup): RenewItem {
  const leaseDurationMs = leaseTime(item.leaseDurationMs, { list: 'renew', index, field: 'lease_duration_ms' });
  const place = { list: 'renew', index, field: 'progress' };
  const progress = item.progress === undefined ? undefined : textAtMost(item.progress, place, limits.progressBytes);
  const checkpoint = parseCheckpoint(item, index);
  const begun =
    item.begun === undefined
      ? undefined
      : wholeNumber(item.begun, { list: 'renew', index, field: 'begun' }, 1, limits.leaseTasks);
  return { ...parseTask(item, 'renew', index, group), leaseDurationMs, progress, checkpoint, begun };
}

function parseCheckpoint({ checkpoint }: Renew, index: number): Uint8Array | undefined {
  const most = limits.checkpointBytes;
  if (checkpoint === undefined || checkpoint.length <= most) return checkpoint;
  const value = checkpoint.length;
  const place = { list: 'renew', index, field: 'checkpoint' };
  return refuse('DATA_TOO_LARGE', place, `has ${value} bytes: at most ${most}`, { value, limit: most });
}

function parseRelease(item: Release, index: number, group: OneGroup): ReleaseItem {
  const at = (field: string): Place => ({ list: 'release', index, field });
  const { refundAttempt, interrupted, deadLetter } = item;
  if (refundAttempt && item.error !== undefined) {
    refuse('INVALID_ARGUMENT', at('error'), 'is given for an attempt that does not count');
  }
  if (interrupted && !refundAttempt) {
    refuse('INVALID_ARGUMENT', at('interrupted'), 'is set for an attempt that counts');
  }
  if (deadLetter && refundAttempt) {
    refuse('INVALID_ARGUMENT', at('dead_letter'), 'is set for an attempt that does not count');
  }
  if (deadLetter && item.delayMs !== undefined) {
    refuse('INVALID_ARGUMENT', at('delay_ms'), 'is given for a task that goes to its dead-letter queue');
  }
  const task = parseTask(item, 'release', index, group);
  if (item.waiting && (task.token !== undefined || refundAttempt || deadLetter || item.error !== undefined)) {
    refuse('INVALID_ARGUMENT', at('waiting'), 'is set for a task with a lease or an attempt that ends');
  }
  if (task.key !== undefined && !item.waiting) {
    refuse('INVALID_ARGUMENT', at('key'), 'is given for a leased task: name it by its PID');
  }
  return {
    ...task,
    delayMs: item.delayMs === undefined ? undefined : duration(item.delayMs, at('delay_ms'), 0, limits.delayMs),
    runAt: runAt(item.runAtUnixMs, item.delayMs === undefined && !deadLetter, at('run_at_unix_ms')),
    refundAttempt,
    interrupted,
    error: item.error === undefined ? undefined : parseError(item.error, index),
    deadLetter,
    waiting: item.waiting,
  };
}

/** Checks the instant until which a task is hidden. 0 means that there is none. */
function runAt(unixMs: number, isAlone: boolean, place: Place): Instant | undefined {
  wholeNumber(unixMs, place, 0, limits.runAtUnixMs);
  if (unixMs === 0) return undefined;
  if (!isAlone) refuse('INVALID_ARGUMENT', place, 'is given beside another delay');
  return unixMs as Instant;
}

/** Whether the enqueue says by when its task must start. */
const hasStart = ({ startWithinMs = 0, startByUnixMs = 0 }: Enqueue): boolean =>
  startWithinMs !== 0 || startByUnixMs !== 0;

/** Checks by when a task must start. Undefined: whenever. */
function startOf(item: Enqueue, index: number): EnqueueItem['start'] {
  const at = (field: string): Place => ({ list: 'enqueue', index, field });
  const { startByUnixMs = 0, runAtUnixMs, delayMs } = item;
  const startWithinMs = startWithin(item.startWithinMs, at('start_within_ms')) ?? 0;
  wholeNumber(startByUnixMs, at('start_by_unix_ms'), 0, limits.runAtUnixMs);
  if (startByUnixMs === 0 && startWithinMs === 0) return undefined;
  if (startByUnixMs === 0) {
    if (delayMs < startWithinMs) return { withinMs: startWithinMs };
    return refuse('INVALID_ARGUMENT', at('start_within_ms'), 'is over before the delay is');
  }
  if (startWithinMs > 0) refuse('INVALID_ARGUMENT', at('start_by_unix_ms'), 'is given beside `start_within_ms`');
  if (runAtUnixMs < startByUnixMs) return { by: startByUnixMs as Instant };
  return refuse('INVALID_ARGUMENT', at('start_by_unix_ms'), 'is not later than `run_at_unix_ms`');
}

function parseError({ message, details }: TaskErrorMessage, index: number): TaskError {
  const at = (field: string): Place => ({ list: 'release', index, field: `error.${field}` });
  return {
    message: textAtMost(message, at('message'), limits.errorMessageBytes),
    details: textAtMost(details, at('details'), limits.errorDetailsBytes),
  };
}

/** Refuses an update that names one task twice. Enqueues do not count, because they come after all other items. */
function refuseConflicts(
  { dequeue, renew, release }: Pick<UpdateCommand, 'dequeue' | 'renew' | 'release'>,
  start: UpdateEnd,
  end: UpdateEnd,
): void {
  if (end.dequeue - start.dequeue + end.renew - start.renew + end.release - start.release < 2) return;
  const named = new Map<string, Map<string, Place>>();
  for (const [list, items] of Object.entries({ dequeue, renew, release })) {
    const { [list as keyof UpdateEnd]: from } = start;
    const { [list as keyof UpdateEnd]: to } = end;
    for (let index = from; index < to; index++) {
      const item = items[index];
      if (item === undefined) return; // The parts have too many items, which is refused.
      const place: Place = { list, index, field: '' };
      const tasks = named.get(item.queue.name) ?? new Map<string, Place>();
      named.set(item.queue.name, tasks);
      const name = item.key === undefined ? item.pid : OF_KEY + item.key;
      const other = tasks.get(name);
      if (other !== undefined) {
        refuse('CONFLICTING_ITEMS', place, `names the same task as ${pathOf(other)}`, {
          otherField: pathOf(other),
          ...taskMetadata(item.queue, item),
        });
      }
      tasks.set(name, place);
    }
  }
}

/** No PID has this character. */
const OF_KEY = '\u{100}';

/** Limits the payload of an in-process update. Over gRPC the size of the message is limited. */
function refuseTooLarge(
  enqueue: readonly EnqueueItem[],
  dequeue: readonly DequeueItem[],
  renew: readonly RenewItem[],
): void {
  let bytes = 0;
  for (const item of enqueue) bytes += item.data.length;
  for (const { result } of dequeue) bytes += result?.data.length ?? 0;
  for (const { checkpoint } of renew) bytes += checkpoint?.length ?? 0;
  if (bytes > limits.requestBytes) {
    refuse('REQUEST_TOO_LARGE', { field: 'update' }, `has ${bytes} bytes of data: at most ${limits.requestBytes}`, {
      value: bytes,
      limit: limits.requestBytes,
    });
  }
}
