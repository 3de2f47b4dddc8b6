import {
  type BatchLeaseTasksRequest,
  type BatchLeaseTasksResponse,
  type BatchUpdateTasksRequest,
  type BatchUpdateTasksResponse,
  type LeaseResult,
  type LeaseTasksRequest,
  limits,
  type UpdateResult,
  type UpdateTasksRequest,
  type Error as WireError,
} from '@taskmaster/proto';
import type { CallerAccess } from '../access/caller-access.ts';
import { batchOf, eachResult } from '../domain/batches.ts';
import type { BatchCommand, LeasedTask, TaskEngine, UpdateCommand } from '../domain/commands.ts';
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

/** Updates that the engine decides together, and their places among the requests. */
interface Together {
  readonly indexes: readonly number[];
  readonly batch: BatchCommand;
}

interface Accepted {
  readonly indexes: number[];
  readonly commands: UpdateCommand[];
}

/**
 * Applies independent updates. A refused update does not affect the others. This is not an async function: its frame would keep
 * the request in memory while the updates are written.
 */
export function batchUpdate(
  engine: TaskEngine,
  log: Log,
  { requests, requestId: id }: BatchUpdateTasksRequest,
  { access }: Caller,
): Promise<BatchUpdateTasksResponse> {
  const count = requests.length;
  const results = new Array<UpdateResult>(count);
  const refuseOne = (index: number, error: unknown): void => {
    results[index] = { result: { $case: 'error', value: errorIn(count, error, log) } };
  };
  const apply = async ({ indexes, batch }: Together, hasId: boolean): Promise<void> => {
    try {
      const outcome = await engine.updateBatch(batch);
      eachResult(
        batch,
        outcome,
        (nth, from, to) => {
          results[indexes[nth] ?? nth] = { result: { $case: 'response', value: updateReply(outcome, from, to) } };
        },
        (nth, refusal) => refuseOne(indexes[nth] ?? nth, refusal),
      );
    } catch (error) {
      // Without an id of the batch the updates of other groups go on.
      if (hasId) throw error;
      for (const index of indexes) refuseOne(index, error);
    }
  };
  try {
    checkCount(count);
    // The call itself counts already.
    access.usage?.alsoRequests(count - 1);
    const items = requests.reduce((sum, request) => sum + countItems(request), 0);
    countAtMost(items, { field: 'requests' }, limits.batchItems);
    const requestId = parseRequestId(id);
    const together = decidedTogether(requests, requestId, access, refuseOne);
    const [only] = together;
    const applied =
      only !== undefined && together.length === 1
        ? apply(only, requestId !== undefined)
        : Promise.all(together.map((each) => apply(each, requestId !== undefined)));
    return applied.then(() => ({ results }));
  } catch (error) {
    return Promise.reject(error);
  }
}

/** The valid updates: all of a batch with a request id, otherwise those of each group. Those with ids of their own are alone. */
function decidedTogether(
  requests: readonly UpdateTasksRequest[],
  requestId: string | undefined,
  access: CallerAccess,
  refuseOne: (index: number, error: unknown) => void,
): Together[] {
  const accepted = new Map<string | number, Accepted>();
  for (const [index, request] of requests.entries()) {
    try {
      const command = parseUpdate(request);
      if (requestId === undefined) requireUpdate(access, command);
      const key = requestId ?? (command.requestId === undefined ? command.group : index);
      let together = accepted.get(key);
      if (together === undefined) {
        together = { indexes: [], commands: [] };
        accepted.set(key, together);
      }
      together.indexes.push(index);
      together.commands.push(command);
    } catch (error) {
      refuseOne(index, error);
    }
  }
  return Array.from(accepted.values(), ({ indexes, commands }) => {
    if (requestId !== undefined) {
      requireTogether(indexes, commands);
      // For the whole batch: its repetition must not have other updates because the rules have changed.
      for (const command of commands) requireUpdate(access, command);
    }
    return { indexes, batch: batchOf(commands, requestId ?? commands[0]?.requestId) };
  });
}

/** Checks that the updates can share the request id of their batch. */
function requireTogether(indexes: readonly number[], commands: readonly UpdateCommand[]): void {
  const group = commands[0]?.group;
  for (const [nth, command] of commands.entries()) {
    const index = indexes[nth] ?? nth;
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
