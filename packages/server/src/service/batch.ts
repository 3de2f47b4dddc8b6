import {
  type BatchLeaseTasksRequest,
  type BatchLeaseTasksResponse,
  type BatchUpdateTasksRequest,
  type BatchUpdateTasksResponse,
  type LeaseResult,
  type LeaseTasksRequest,
  limits,
  type UpdateResult,
  type Error as WireError,
} from '@taskmaster/proto';
import type { LeasedTask, TaskEngine, UpdateCommand } from '../domain/commands.ts';
import { Refusal } from '../domain/refusal.ts';
import type { Log } from '../ports/log.ts';
import { type Caller, waitingBytes } from './caller.ts';
import { recheckOfLease, requireLease, requireUpdate } from './check-rights.ts';
import { countAtMost, refuse } from './parse/checks.ts';
import { parseLease } from './parse/parse-lease.ts';
import { countItems, parseRequestId, parseUpdate } from './parse/parse-update.ts';
import { fittingTasks, leaseReply, REPLY_BYTES, updateReply } from './reply/build-reply.ts';
import { giveBack, leaseWithin } from './turns/lease-within.ts';
import { refusalOf, toWireError } from './wire-errors.ts';

/** Size limit of the lists of items at fault in one reply, over all its errors, in bytes. */
const BATCH_ITEMS_BYTES = 1024 * 1024;

/** An update of a batch that the engine can take, and its place among the requests. */
interface Accepted {
  readonly index: number;
  readonly command: UpdateCommand;
}

/** Applies independent updates. A refused update does not affect the others. */
export async function batchUpdate(
  engine: TaskEngine,
  log: Log,
  { requests, requestId: id }: BatchUpdateTasksRequest,
  { access }: Caller,
): Promise<BatchUpdateTasksResponse> {
  checkCount(requests.length);
  // The call itself counts already.
  access.usage?.alsoRequests(requests.length - 1);
  const items = requests.reduce((sum, request) => sum + countItems(request), 0);
  countAtMost(items, { field: 'requests' }, limits.batchItems);
  const requestId = parseRequestId(id);

  const results = new Array<UpdateResult>(requests.length);
  const refuseOne = (index: number, error: unknown): void => {
    results[index] = { result: { $case: 'error', value: errorIn(requests.length, error, log) } };
  };
  const accepted: Accepted[] = [];
  for (const [index, request] of requests.entries()) {
    try {
      const command = parseUpdate(request);
      if (requestId === undefined) requireUpdate(access, command);
      accepted.push({ index, command });
    } catch (error) {
      refuseOne(index, error);
    }
  }
  if (requestId !== undefined) {
    requireTogether(accepted);
    // For the whole batch: its repetition must not have other updates because the rules have changed.
    for (const { command } of accepted) requireUpdate(access, command);
  }

  const apply = async (updates: readonly Accepted[]): Promise<void> => {
    const [first] = updates;
    if (first === undefined) return;
    const { group, requestId: ownId } = first.command;
    try {
      const batch = { group, updates: updates.map(({ command }) => command), requestId: requestId ?? ownId };
      for (const [at, result] of (await engine.updateBatch(batch)).entries()) {
        const index = updates[at]?.index ?? 0;
        if (result.kind === 'refused') refuseOne(index, result.refusal);
        else results[index] = { result: { $case: 'response', value: updateReply(result.outcome) } };
      }
    } catch (error) {
      // Without an id of the batch the updates of other groups go on.
      if (requestId !== undefined) throw error;
      for (const { index } of updates) refuseOne(index, error);
    }
  };
  await Promise.all((requestId === undefined ? writtenTogether(accepted) : [accepted]).map(apply));
  return { results };
}

/** The updates of each group; those with a request id of their own alone. */
function writtenTogether(accepted: readonly Accepted[]): readonly (readonly Accepted[])[] {
  const together = new Map<string | Accepted, Accepted[]>();
  for (const update of accepted) {
    const { group, requestId } = update.command;
    const key = requestId === undefined ? group : update;
    const others = together.get(key);
    if (others === undefined) together.set(key, [update]);
    else others.push(update);
  }
  return [...together.values()];
}

/** Checks that the updates can share the request id of their batch. */
function requireTogether(accepted: readonly Accepted[]): void {
  const group = accepted[0]?.command.group;
  for (const { index, command } of accepted) {
    const list = 'requests';
    if (command.requestId !== undefined) {
      refuse('INVALID_ARGUMENT', { list, index, field: 'request_id' }, 'is set, and the batch has a request id');
    }
    if (command.group !== group) {
      const metadata = { group: command.group, otherGroup: group ?? '' };
      refuse(
        'MIXED_GROUPS',
        { list, index, field: 'update' },
        'is of another group: the batch has a request id',
        metadata,
      );
    }
  }
}

/**
 * Serves independent leases that share the size of one reply in equal parts. A single task may be larger than its part. If the
 * reply gets too large, the tasks of the last leases are released and these leases are refused.
 */
export async function batchLease(
  engine: TaskEngine,
  log: Log,
  { requests }: BatchLeaseTasksRequest,
  caller: Caller,
): Promise<BatchLeaseTasksResponse> {
  checkCount(requests.length);
  caller.access.usage?.alsoRequests(requests.length - 1);
  const share = Math.floor(limits.replyDataBytes / requests.length);
  const lease = async (request: LeaseTasksRequest): Promise<readonly LeasedTask[] | WireError> => {
    try {
      const command = parseLease(request, caller.address);
      requireLease(caller.access, command.queues);
      if (command.waitMs > 0) {
        caller.beginWaiting?.(waitingBytes(request.queues), recheckOfLease(caller.access, command.queues));
      }
      const bounded = { ...command, maxBytes: Math.min(command.maxBytes, share) };
      return await leaseWithin(engine, log, bounded, caller, REPLY_BYTES, (tasks) => tasks);
    } catch (error) {
      return errorIn(requests.length, error, log);
    }
  };
  const outcomes = await Promise.all(requests.map(lease));

  let left = REPLY_BYTES;
  const results = outcomes.map((outcome): LeaseResult => {
    if ('code' in outcome) return { result: { $case: 'error', value: outcome } };
    const { count, bytes } = fittingTasks(outcome, left);
    if (count < outcome.length) giveBack(engine, log, outcome.slice(count));
    if (count === 0 && outcome.length > 0) {
      return { result: { $case: 'error', value: toWireError(replyFull()) } };
    }
    left -= bytes;
    return { result: { $case: 'response', value: leaseReply(outcome.slice(0, count)) } };
  });
  return { results };
}

function checkCount(requests: number): void {
  if (requests === 0) refuse('EMPTY_REQUEST', { field: 'requests' }, 'is empty');
  countAtMost(requests, { field: 'requests' }, limits.batchRequests);
}

function errorIn(requests: number, error: unknown, log: Log): WireError {
  return toWireError(refusalOf(error, log), BATCH_ITEMS_BYTES / requests);
}

function replyFull(): Refusal {
  return new Refusal('OVERLOADED', 'the tasks of earlier leases of the batch fill the reply', {
    retryDelayMs: 1,
    metadata: { limit: String(REPLY_BYTES) },
  });
}
