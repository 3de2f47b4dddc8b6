import { status } from '@grpc/grpc-js';
import { parseQueueName, type UpdateTasksRequest, type UpdateTasksResponse } from '@taskmaster/proto';
import { updateSizeBound } from '../transport/request-size.ts';
import type { Timing } from '../transport/timing.ts';
import { asTaskMasterError, brokenReply } from '../transport/wire-errors.ts';
import { type TaskMasterError, withMaybeApplied } from '../values/errors.ts';
import type { CallOptions, UpdateOptions } from '../values/options.ts';
import type { Caller } from './caller.ts';
import type { RequestIds } from './request-ids.ts';
import { emptyRequest, requestIdOf } from './update-request.ts';

export interface UpdateJoinerParts {
  readonly caller: Caller;
  readonly requestIds: RequestIds;
  readonly timing: Timing;
  /** Default deadline of a call, in ms. */
  readonly timeoutMs: number;
}

/** So many updates, items and bytes go into one request at most: what is more is spread no thinner, and holds others up. */
const MOST_UPDATES = 100;
/** After a refusal fewer, but not less than these, so that work that is often refused is hardly done twice. */
const FEWEST_UPDATES = 4;
const MOST_ITEMS = 200;
const MOST_BYTES = 64 * 1024;
/**
 * An update with more in it gains little. All that were joined are answered together, and what their callers ask for next
 * comes together again: node and client would wait for each other in turn.
 */
const SMALL_ITEMS = 16;
const SMALL_BYTES = MOST_BYTES / 4;
/** What is sent again alone has so long at least, in ms: nobody fails because others were refused late. */
const LEAST_TIMEOUT_MS = 1_000;
/** A node's reason: a request with this id, but with something else in it, took effect. */
const ID_USED = 'REQUEST_ID_REUSED';

/** What of an update decides what it may be joined with. */
interface Traits {
  readonly group: string;
  readonly items: number;
  readonly bytes: number;
  /** Whether it enqueues tasks whose PIDs the caller chose. */
  readonly named: boolean;
}

/** A caller's update that waits for its turn. */
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
  /** Whether it enqueues tasks whose PIDs callers chose. */
  named: boolean;
  readonly removes: boolean;
}

/**
 * Makes one request of the updates that callers ask for at the same time: most of what an update costs, here and on the
 * node, it costs however little is in it.
 *
 *  U1  An update takes effect wholly or not at all, as if it had been sent alone: a joined request that is refused has
 *      changed nothing, and each of its updates is sent again alone, so that only those fail that would have.
 *  U2  A request that may have taken effect is repeated as it was, under its id, or fails for all. Refused then, an earlier
 *      attempt of it may still be on its way: a cut network delivers it late. It is fenced off before anything is sent
 *      in its place.
 *  U3  Nobody fails for the sake of others: updates of different groups, with other deadlines, with ids of their own, and
 *      those that a full disk refuses beside those that it does not, are not joined.
 *  U4  What one caller asks for without waiting leaves in that order where it could make a difference: before a request that
 *      is not joined, and between chosen PIDs and dequeues.
 */
export class UpdateJoiner {
  readonly #parts: UpdateJoinerParts;
  readonly #joins = new Map<string, Join>();
  #flushing = false;
  /** At most so many updates in one request. */
  #most = MOST_UPDATES;

  constructor(parts: UpdateJoinerParts) {
    this.#parts = parts;
  }

  /**
   * Applies an update, repeating it where that is safe; see `Caller.update`. It gets a request id unless the options have one.
   * @throws TypeError for a wrong request id; else rejects with a `TaskMasterError`.
   */
  send(update: UpdateTasksRequest, options: UpdateOptions): Promise<UpdateTasksResponse> {
    const requestId = requestIdOf(options);
    const traits = traitsOf(update);
    if (requestId !== undefined) {
      this.#sendBefore(traits, () => true);
      return this.#parts.caller.update({ ...update, requestId }, options);
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
    const { caller, requestIds } = this.#parts;
    return caller.update({ ...update, requestId: requestIds.next() }, options);
  }

  #join(joined: Joined, traits: Traits): void {
    const { group, items, bytes, named } = traits;
    const key = joinKey(joined.update, group);
    let join = this.#joins.get(key);
    if (join !== undefined && !this.#hasRoom(join, traits)) {
      // Deleted, so that what follows it takes its place behind those that were asked for before.
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

  /** Sends what waits of the group, as far as it must not come after the update. */
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

  /** Once those have asked who go on because of the same message; waiting longer would cost a turn. */
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
    const { caller, requestIds, timing, timeoutMs } = this.#parts;
    const dueAt = timing.now() + timeoutMs;
    const requestId = requestIds.next();
    try {
      share(await caller.update({ ...joinedUpdate(updates), requestId }, {}), updates);
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
   * Sends updates alone of which an earlier attempt, joined, may still be on its way (U2). The id of that is used up by the
   * first of them that the node takes: it is refused from then on, whenever it comes. If it came before, the node says
   * that the id was used, and the joined request is what took effect.
   */
  async #sendFenced(updates: readonly Joined[], requestId: Uint8Array, dueAt: number): Promise<void> {
    const { caller } = this.#parts;
    const refused: { readonly joined: Joined; readonly error: TaskMasterError }[] = [];
    for (const [index, joined] of updates.entries()) {
      try {
        const reply = await caller.update({ ...joined.update, requestId }, this.#until(dueAt));
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

  /** Asks for the outcome of what took effect after all. */
  async #shareLate(updates: readonly Joined[], requestId: Uint8Array, dueAt: number): Promise<void> {
    try {
      share(await this.#parts.caller.update({ ...joinedUpdate(updates), requestId }, this.#until(dueAt)), updates);
    } catch (thrown) {
      rejectAll(updates, withMaybeApplied(asTaskMasterError(thrown), true));
    }
  }
}

/**
 * Renewals and releases are left alone: few are made at once, and one lost lease among them is nothing unusual. In a joined
 * request all dequeues come before all enqueues: where somebody chose a PID, that would be another order (U1).
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

/** U3: a full disk takes no new tasks, but completions. U1: chosen PIDs are in requests without dequeues. */
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

/** Gives each update what the reply says of it. */
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

/** Whether the node refused because of what is in the request: not all of it need be at fault. */
const isOfOne = ({ items, code }: TaskMasterError): boolean => items.length > 0 || code === status.INVALID_ARGUMENT;
