import { status } from '@grpc/grpc-js';
import { parseQueueName, type UpdateTasksRequest, type UpdateTasksResponse } from '@taskmaster/proto';
import { updateSizeBound } from '../transport/request-size.ts';
import type { Timing } from '../transport/timing.ts';
import { asTaskMasterError, brokenReply } from '../transport/wire-errors.ts';
import { type TaskMasterError, withMaybeApplied } from '../values/errors.ts';
import type { CallOptions, UpdateOptions } from '../values/options.ts';
import type { RequestIds } from './request-ids.ts';
import type { RetryingCalls } from './retrying-calls.ts';
import { emptyRequest, requestIdOf } from './update-request.ts';

export interface UpdateJoinerParts {
  readonly calls: RetryingCalls;
  readonly requestIds: RequestIds;
  readonly timing: Timing;
  /** Default timeout of a call, in ms. */
  readonly timeoutMs: number;
}

/** Limits of one joined request. Larger requests cost no less per update, and delay other calls. */
const MOST_UPDATES = 100;
/** A refusal lowers the limit of updates down to this number, so that frequent refusals repeat little work. */
const FEWEST_UPDATES = 4;
const MOST_ITEMS = 200;
const MOST_BYTES = 64 * 1024;
/**
 * Larger updates are not joined, because they gain little. Joined updates are answered together, so their callers continue
 * together: with large updates node and client would wait for each other in turn.
 */
const SMALL_ITEMS = 16;
const SMALL_BYTES = MOST_BYTES / 4;
/** Least timeout of an update that is sent again alone, in ms, so that it does not fail because of a late refusal of others. */
const LEAST_TIMEOUT_MS = 1_000;
/** Reason of a node: another request with this id was applied. */
const ID_USED = 'REQUEST_ID_REUSED';

/** Properties of an update that decide what it may be joined with. */
interface Traits {
  readonly group: string;
  readonly items: number;
  readonly bytes: number;
  /** Whether the caller chose the PID of an enqueue. */
  readonly named: boolean;
}

/** An update of a caller that waits to be sent. */
interface Joined {
  readonly update: UpdateTasksRequest;
  readonly resolve: (reply: UpdateTasksResponse) => void;
  readonly reject: (error: TaskMasterError) => void;
}

/** Updates of one group that will be one request. */
interface Join {
  readonly group: string;
  readonly updates: Joined[];
  items: number;
  bytes: number;
  /** Whether a caller chose the PID of an enqueue. */
  named: boolean;
  /** Whether it has dequeues. */
  readonly removes: boolean;
}

/**
 * Joins updates that callers commit at the same time into one request. This saves time, because most of the cost of an update, in
 * the client and in the node, does not depend on its size.
 *
 *  U1  Each update is applied completely or not at all, as if it were sent alone. A refused joined request has changed nothing.
 *      Each of its updates is then sent again alone, so that only updates fail that would fail alone.
 *  U2  A request that may have been applied is repeated unchanged, with its id, or fails for all its updates. If the repetition
 *      is refused, an earlier attempt may still arrive, because a cut network delivers it late. It is fenced off before its
 *      updates are sent alone.
 *  U3  No update fails because of others. These are not joined: updates of different groups, with a deadline or a request id of
 *      their own, and updates that a full disk refuses with updates that it accepts.
 *  U4  Updates of one caller are sent in order if the order matters: before a request that is not joined, and between chosen PIDs
 *      and dequeues.
 */
export class UpdateJoiner {
  readonly #parts: UpdateJoinerParts;
  readonly #joins = new Map<string, Join>();
  #flushing = false;
  /** Limit of updates in one request. */
  #most = MOST_UPDATES;

  constructor(parts: UpdateJoinerParts) {
    this.#parts = parts;
  }

  /**
   * Applies an update and repeats it if that is safe, as `RetryingCalls.update` does. It gets a request id if the options have
   * none.
   * @throws TypeError for a wrong request id. Rejects with a `TaskMasterError`.
   */
  send(update: UpdateTasksRequest, options: UpdateOptions): Promise<UpdateTasksResponse> {
    const requestId = requestIdOf(options);
    const traits = traitsOf(update);
    if (requestId !== undefined) {
      this.#sendBefore(traits, () => true);
      return this.#parts.calls.update({ ...update, requestId }, options);
    }
    if (!isJoinable(update, traits, options)) {
      this.#sendBefore(traits, () => true);
      return this.#sendAlone(update, options);
    }
    // U4
    if (traits.named) this.#sendBefore(traits, ({ removes }) => removes);
    if (update.dequeue.length > 0) this.#sendBefore(traits, ({ named }) => named);
    return new Promise((resolve, reject) => this.#join({ update, resolve, reject }, traits));
  }

  #sendAlone(update: UpdateTasksRequest, options: CallOptions): Promise<UpdateTasksResponse> {
    const { calls, requestIds } = this.#parts;
    return calls.update({ ...update, requestId: requestIds.next() }, options);
  }

  #join(joined: Joined, traits: Traits): void {
    const { group, items, bytes, named } = traits;
    const key = joinKey(joined.update, group);
    let join = this.#joins.get(key);
    if (join !== undefined && !this.#hasRoom(join, traits)) {
      // Deleted first: the next join of this key must come behind the joins that began before it.
      this.#joins.delete(key);
      void this.#send(join.updates);
      join = undefined;
    }
    if (join === undefined) {
      join = { group, updates: [], items: 0, bytes: 0, named: false, removes: joined.update.dequeue.length > 0 };
      this.#joins.set(key, join);
    }
    join.updates.push(joined);
    join.named ||= named;
    join.items += items;
    join.bytes += bytes;
    this.#flushSoon();
  }

  /** Sends the waiting joins of the group that must come before the update. */
  #sendBefore({ group }: Traits, mustGo: (join: Join) => boolean): void {
    for (const [key, join] of this.#joins) {
      if (join.group !== group || !mustGo(join)) continue;
      this.#joins.delete(key);
      void this.#send(join.updates);
    }
  }

  #hasRoom(join: Join, { items, bytes }: Traits): boolean {
    return join.updates.length < this.#most && join.items + items <= MOST_ITEMS && join.bytes + bytes <= MOST_BYTES;
  }

  /** Sends in a microtask: callers that continue after the same message are joined, and no turn of the event loop is lost. */
  #flushSoon(): void {
    if (this.#flushing) return;
    this.#flushing = true;
    queueMicrotask(() => {
      this.#flushing = false;
      const joins = [...this.#joins.values()];
      this.#joins.clear();
      for (const { updates } of joins) void this.#send(updates);
    });
  }

  async #send(updates: readonly Joined[]): Promise<void> {
    const { calls, requestIds, timing, timeoutMs } = this.#parts;
    const dueAt = timing.now() + timeoutMs;
    const requestId = requestIds.next();
    try {
      share(await calls.update({ ...joinedUpdate(updates), requestId }, {}), updates);
      if (updates.length >= this.#most) this.#most = Math.min(MOST_UPDATES, this.#most + 1);
    } catch (thrown) {
      const error = asTaskMasterError(thrown);
      if (updates.length === 1 || !isOfOne(error)) {
        rejectAll(updates, error);
        return;
      }
      this.#most = Math.max(FEWEST_UPDATES, updates.length >> 1);
      if (error.maybeApplied) await this.#sendFenced(updates, requestId, dueAt);
      else this.#sendEach(updates, dueAt);
    }
  }

  #sendEach(updates: readonly Joined[], dueAt: number): void {
    const options = this.#until(dueAt);
    for (const { update, resolve, reject } of updates) this.#sendAlone(update, options).then(resolve, reject);
  }

  #until(dueAt: number): CallOptions {
    return { timeout: Math.max(LEAST_TIMEOUT_MS, dueAt - this.#parts.timing.now()) };
  }

  /**
   * Sends each update alone after a joined request that may still arrive (U2). The first update that the node accepts uses the id
   * of the joined request, so the node refuses this request from then on. If the joined request was applied before, the node
   * answers that the id was used.
   */
  async #sendFenced(updates: readonly Joined[], requestId: Uint8Array, dueAt: number): Promise<void> {
    const { calls } = this.#parts;
    const refused: { readonly joined: Joined; readonly error: TaskMasterError }[] = [];
    for (const [index, joined] of updates.entries()) {
      try {
        const reply = await calls.update({ ...joined.update, requestId }, this.#until(dueAt));
        for (const { joined: one, error } of refused) one.reject(error);
        joined.resolve(reply);
        this.#sendEach(updates.slice(index + 1), dueAt);
        return;
      } catch (thrown) {
        const error = asTaskMasterError(thrown);
        if (error.reason === ID_USED) {
          await this.#shareLate(updates, requestId, dueAt);
          return;
        }
        if (error.maybeApplied) {
          rejectAll(updates, error);
          return;
        }
        refused.push({ joined, error });
      }
    }
    for (const { joined, error } of refused) joined.reject(withMaybeApplied(error, true));
  }

  /** Repeats the joined request, which was applied, to get its outcome. */
  async #shareLate(updates: readonly Joined[], requestId: Uint8Array, dueAt: number): Promise<void> {
    try {
      share(await this.#parts.calls.update({ ...joinedUpdate(updates), requestId }, this.#until(dueAt)), updates);
    } catch (thrown) {
      rejectAll(updates, withMaybeApplied(asTaskMasterError(thrown), true));
    }
  }
}

/**
 * Renewals and releases are not joined: few are made at the same time, and lost leases among them are usual. In a joined request
 * all dequeues come before all enqueues, which would change the result for a chosen PID (U1).
 */
function isJoinable(
  { dequeue, renew, release }: UpdateTasksRequest,
  { items, bytes, named }: Traits,
  { signal, timeout }: UpdateOptions,
): boolean {
  if (renew.length > 0 || release.length > 0 || signal !== undefined || timeout !== undefined) return false;
  if (dequeue.length > 0 && named) return false;
  return items <= SMALL_ITEMS && bytes <= SMALL_BYTES;
}

function traitsOf(update: UpdateTasksRequest): Traits {
  const { enqueue, dequeue, renew, release } = update;
  const first = enqueue[0] ?? dequeue[0] ?? renew[0] ?? release[0];
  return {
    group: parseQueueName(first?.queue ?? '').group,
    items: enqueue.length + dequeue.length,
    bytes: updateSizeBound(update),
    named: enqueue.some(({ pid }) => pid.byteLength > 0),
  };
}

/** U3: a full disk refuses new tasks and accepts completions. U1: chosen PIDs are in requests without dequeues. */
function joinKey({ enqueue, dequeue }: UpdateTasksRequest, group: string): string {
  if (enqueue.length === 0) return `-${group}`;
  return dequeue.length === 0 ? `+${group}` : `=${group}`;
}

function joinedUpdate(updates: readonly Joined[]): UpdateTasksRequest {
  const joined = emptyRequest();
  for (const { update } of updates) {
    for (const item of update.enqueue) joined.enqueue.push(item);
    for (const item of update.dequeue) joined.dequeue.push(item);
  }
  return joined;
}

/** Resolves each update with its part of the reply. */
function share({ enqueued }: UpdateTasksResponse, updates: readonly Joined[]): void {
  let from = 0;
  for (const { update, resolve, reject } of updates) {
    const to = from + update.enqueue.length;
    if (to > enqueued.length) reject(brokenReply('left out the outcomes of enqueues'));
    else resolve({ enqueued: enqueued.slice(from, to), renewed: [], released: [] });
    from = to;
  }
}

function rejectAll(updates: readonly Joined[], error: TaskMasterError): void {
  for (const { reject } of updates) reject(error);
}

/** Whether the node refused the content of the request. Perhaps only some of the updates are wrong. */
const isOfOne = ({ items, code }: TaskMasterError): boolean => items.length > 0 || code === status.INVALID_ARGUMENT;
