import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Engine } from '@taskmaster/engine';
import {
  batchOf,
  eachResult,
  type LeaseCommand,
  type LeasedTask,
  Refusal,
  type UpdateCommand,
} from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import {
  type BatchLeaseTasksRequest,
  type BatchLeaseTasksResponse,
  type BatchUpdateTasksRequest,
  type BatchUpdateTasksResponse,
  type LeaseResult,
  type LeaseTasksRequest,
  limits,
  NOTHING_CHANGED,
  parseQueueName,
  type UpdateResult,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
  type Error as WireError,
} from '@taskmaster/proto';
import {
  type Caller,
  countRequests,
  leasableOnly,
  REPLY_BYTES,
  recheckOfLease,
  requireLease,
  requireUpdate,
  toWireError,
  waitingBytes,
} from '@taskmaster/server/calls';
import { countAtMost, parseLease, refuse } from '@taskmaster/server/requests';
import { fittingTasks, leaseReply, updateReply } from './reply/build-reply.ts';
import { giveBack, leaseWithin } from './turns/lease-within.ts';
import { countItems, errorIn, parseUpdate, update } from './updates.ts';

/** Tasks that updates of one batch publish in one turn of the event loop. One update may publish more. */
const MOST_AHEAD = 1_000;

/** Updates that the engine decides together, and their places among the requests of a batch. */
interface Together {
  readonly indexes: number[];
  readonly commands: UpdateCommand[];
  readonly copies: Copies;
}

/** The most that requests publish: tasks, and bytes of their outcomes. */
interface Copies {
  tasks: number;
  bytes: number;
}

/** Numbers, tags and lengths of the outcome of a task, in bytes, and its PID if the queue assigns it. */
const OUTCOME_BYTES = 32;
/** The name of a queue, `group#name`. */
const MOST_NAME_BYTES = 2 * limits.nameBytes + 1;

/** Applies independent updates. A refused update does not affect the others. */
export async function batchUpdate(
  engine: Engine,
  log: Log,
  { requests }: BatchUpdateTasksRequest,
  caller: Caller,
): Promise<BatchUpdateTasksResponse> {
  checkCount(requests.length);
  const { access } = caller;
  countRequests(caller, requests.length - 1);
  const items = requests.reduce((sum, request) => sum + countItems(request), 0);
  countAtMost(items, { field: 'requests' }, limits.batchItems);

  const results = new Array<UpdateResult>(requests.length);
  const refuseOne = (index: number, error: unknown): void => {
    results[index] = {
      result: { $case: 'error', value: errorIn(requests.length, error, log, caller, requests[index]) },
    };
  };
  const publishing = new Publishing(engine, caller, requests);
  const answerOne = (index: number, value: UpdateTasksResponse): void => {
    publishing.answered(value);
    results[index] = { result: { $case: 'response', value } };
  };
  const applyTogether = async ({ indexes, commands }: Together): Promise<void> => {
    const batch = batchOf(commands, undefined);
    try {
      const outcome = await engine.updates.applyBatch(batch);
      eachResult(
        batch,
        outcome,
        (nth, from, to) => answerOne(indexes[nth] ?? nth, updateReply(outcome, from, to)),
        (nth, refusal) => refuseOne(indexes[nth] ?? nth, refusal),
      );
    } catch (error) {
      for (const index of indexes) refuseOne(index, error);
    }
  };

  const byGroup = new Map<string, Together>();
  const applied: Promise<void>[] = [];
  for (const [index, request] of requests.entries()) {
    const copies = publishing.copiesOf(request);
    if (request.requestId.length > 0 || request.parts.length > 0) {
      try {
        if (copies.tasks > 0) await publishing.makeRoom(copies, applied);
      } catch (error) {
        refuseOne(index, error);
        continue;
      }
      const alone = update(engine, log, request, caller);
      applied.push(
        alone.then(
          (reply) => answerOne(index, reply),
          (error: unknown) => refuseOne(index, error),
        ),
      );
      continue;
    }
    try {
      const command = parseUpdate(request);
      requireUpdate(access, command);
      const together = byGroup.get(command.group) ?? { indexes: [], commands: [], copies: { tasks: 0, bytes: 0 } };
      byGroup.set(command.group, together);
      together.indexes.push(index);
      together.commands.push(command);
      together.copies.tasks += copies.tasks;
      together.copies.bytes += copies.bytes;
    } catch (error) {
      refuseOne(index, error);
    }
  }
  for (const together of byGroup.values()) {
    try {
      if (together.copies.tasks > 0) await publishing.makeRoom(together.copies, applied);
      applied.push(applyTogether(together));
    } catch (error) {
      for (const index of together.indexes) refuseOne(index, error);
    }
  }
  await Promise.all(applied);
  return { results };
}

/**
 * What the publications of a batch become. A small batch may become millions of tasks, so it publishes about as much as one
 * update may, and not all in one turn of the event loop.
 */
class Publishing {
  readonly #engine: Pick<Engine, 'topics'>;
  readonly #caller: Pick<Caller, 'gone'>;
  /** Tasks that were published. */
  #published = 0;
  /** Outcomes in the reply: those of all tasks that are not published, and of those that were. */
  #outcomeBytes = 0;
  /** What the updates without an answer may publish. */
  #ahead: Copies = { tasks: 0, bytes: 0 };

  constructor(engine: Pick<Engine, 'topics'>, caller: Pick<Caller, 'gone'>, requests: readonly UpdateTasksRequest[]) {
    this.#engine = engine;
    this.#caller = caller;
    for (const { enqueue } of requests) {
      for (const { topic, pid } of enqueue) if (topic === '') this.#outcomeBytes += OUTCOME_BYTES + pid.length;
    }
  }

  /** The most that a request publishes. */
  copiesOf({ enqueue }: UpdateTasksRequest): Copies {
    const copies = { tasks: 0, bytes: 0 };
    for (const { topic, pid } of enqueue) {
      if (topic === '') continue;
      const tasks = this.#engine.topics.countOf(parseQueueName(topic));
      copies.tasks += tasks;
      copies.bytes += OUTCOME_BYTES + pid.length + tasks * (OUTCOME_BYTES + MOST_NAME_BYTES + pid.length);
    }
    return copies;
  }

  /** Waits for the updates before, if they may publish much. Throws a `Refusal` if they have published as much as a batch may. */
  async makeRoom(copies: Copies, applied: readonly Promise<void>[]): Promise<void> {
    // The engine refuses an update whose outcomes have more bytes.
    const bytes = Math.min(copies.bytes, limits.publishedOutcomeBytes);
    const isTooLarge = (): boolean => this.#outcomeBytes + this.#ahead.bytes + bytes > REPLY_BYTES;
    if (this.#ahead.tasks > 0 && (this.#ahead.tasks + copies.tasks > MOST_AHEAD || isTooLarge())) {
      await Promise.all(applied);
      await nextTurn();
      this.#ahead = { tasks: 0, bytes: 0 };
      if (this.#caller.gone) throw new Refusal('CANCELLED', 'the call was cancelled', { metadata: NOTHING_CHANGED });
    }
    if (this.#published >= limits.updateItems || isTooLarge()) {
      throw new Refusal('OVERLOADED', 'the updates before this one publish as much as one batch may', {
        retryDelayMs: 1,
      });
    }
    this.#ahead = { tasks: this.#ahead.tasks + copies.tasks, bytes: this.#ahead.bytes + bytes };
  }

  answered({ enqueued }: UpdateTasksResponse): void {
    for (const { published } of enqueued) {
      if (published === undefined) continue;
      this.#published += published.tasks.length;
      this.#outcomeBytes += OUTCOME_BYTES;
      for (const { queue, pid } of published.tasks) {
        this.#outcomeBytes += OUTCOME_BYTES + Buffer.byteLength(queue) + pid.length;
      }
    }
  }
}

/**
 * Serves independent leases that share the size of one reply in equal parts. A single task may be larger than its part. If the
 * reply gets too large, the tasks of the last leases are released and these leases are refused.
 */
export async function batchLease(
  engine: Engine,
  log: Log,
  { requests }: BatchLeaseTasksRequest,
  caller: Caller,
): Promise<BatchLeaseTasksResponse> {
  checkCount(requests.length);
  countRequests(caller, requests.length - 1);
  const share = Math.floor(limits.replyDataBytes / requests.length);
  const lease = async (request: LeaseTasksRequest): Promise<readonly LeasedTask[] | WireError> => {
    try {
      const command = leaseFor(request, caller);
      const bounded = { ...command, maxBytes: Math.min(command.maxBytes, share) };
      return await leaseWithin(engine, log, bounded, caller, REPLY_BYTES, (tasks) => tasks);
    } catch (error) {
      return errorIn(requests.length, error, log, caller);
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

/** Throws a `Refusal` unless the caller may make this lease, and wait for it. */
export function leaseFor(request: LeaseTasksRequest, caller: Caller): LeaseCommand {
  const { access } = caller;
  const command = parseLease(request, caller.address);
  requireLease(access, command);
  if (command.waitMs > 0) caller.beginWaiting?.(waitingBytes(request), recheckOfLease(access, command));
  return leasableOnly(access, command);
}

function checkCount(requests: number): void {
  if (requests === 0) refuse('EMPTY_REQUEST', { field: 'requests' }, 'is empty');
  countAtMost(requests, { field: 'requests' }, limits.batchRequests);
}

function replyFull(): Refusal {
  return new Refusal('OVERLOADED', 'the tasks of earlier leases of the batch fill the reply', {
    retryDelayMs: 1,
    metadata: { limit: String(REPLY_BYTES) },
  });
}
