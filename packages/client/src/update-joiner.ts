import { parseQueueName, type UpdateTasksRequest, type UpdateTasksResponse } from '@taskmaster/proto';
import type { Caller } from './caller.ts';
import type { TaskMasterError } from './errors.ts';
import type { CallOptions, UpdateOptions } from './options.ts';
import type { RequestIds } from './request-ids.ts';
import { updateSizeBound } from './request-size.ts';
import type { Timing } from './timing.ts';
import { emptyRequest, requestIdOf } from './update-request.ts';
import { asTaskMasterError, brokenReply } from './wire-errors.ts';

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

/** A caller's update that waits for its turn. */
interface Joined {
  readonly update: UpdateTasksRequest;
  readonly resolve: (reply: UpdateTasksResponse) => void;
  readonly reject: (error: TaskMasterError) => void;
}

/** Updates of one group that will be one request. */
interface Join {
  readonly updates: Joined[];
  items: number;
  bytes: number;
}

/**
 * Makes one request of the updates that callers ask for at the same time: most of what an update costs, here
 * and on the node, it costs however little is in it.
 *
 *  U1  An update takes effect wholly or not at all, as if it had been sent alone: a joined request that is refused has
 *      changed nothing, and each of its updates is sent again alone, so that only those fail that would have.
 *  U2  A request that may have taken effect is repeated as it was, under its id, or fails for all.
 *  U3  Nobody fails for the sake of others: updates of different groups, with other deadlines, with ids of their own, and
 *      those that a full disk refuses beside those that it does not, are not joined.
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
    if (requestId !== undefined) return this.#parts.caller.update({ ...update, requestId }, options);
    const bytes = updateSizeBound(update);
    const items = update.enqueue.length + update.dequeue.length;
    if (!isJoinable(update, options) || bytes > MOST_BYTES / 4 || items > MOST_ITEMS / 4) {
      return this.#sendAlone(update, options);
    }
    return new Promise((resolve, reject) => this.#join({ update, resolve, reject }, items, bytes));
  }

  #sendAlone(update: UpdateTasksRequest, options: CallOptions): Promise<UpdateTasksResponse> {
    const { caller, requestIds } = this.#parts;
    return caller.update({ ...update, requestId: requestIds.next() }, options);
  }

  #join(joined: Joined, items: number, bytes: number): void {
    const key = joinKey(joined.update);
    let join = this.#joins.get(key);
    if (join !== undefined && !this.#hasRoom(join, items, bytes)) {
      void this.#send(join.updates);
      join = undefined;
    }
    if (join === undefined) {
      join = { updates: [], items: 0, bytes: 0 };
      this.#joins.set(key, join);
    }
    join.updates.push(joined);
    join.items += items;
    join.bytes += bytes;
    this.#flushSoon();
  }

  #hasRoom(join: Join, items: number, bytes: number): boolean {
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
    const { timing, timeoutMs } = this.#parts;
    const dueAt = timing.now() + timeoutMs;
    try {
      share(await this.#sendAlone(joinedUpdate(updates), {}), updates);
      if (updates.length >= this.#most) this.#most = Math.min(MOST_UPDATES, this.#most + 1);
    } catch (thrown) {
      const error = asTaskMasterError(thrown);
      if (updates.length === 1 || isOfAll(error)) {
        for (const { reject } of updates) reject(error);
        return;
      }
      this.#most = Math.max(FEWEST_UPDATES, updates.length >> 1);
      const timeout = Math.max(1, dueAt - timing.now());
      for (const { update, resolve, reject } of updates) this.#sendAlone(update, { timeout }).then(resolve, reject);
    }
  }
}

/** Renewals and releases are left alone: few are made at once, and one lost lease among them is nothing unusual. */
function isJoinable({ renew, release }: UpdateTasksRequest, { signal, timeout }: UpdateOptions): boolean {
  return renew.length === 0 && release.length === 0 && signal === undefined && timeout === undefined;
}

/** U3: a full disk takes no new tasks, but completions. */
function joinKey({ enqueue: [added], dequeue: [removed] }: UpdateTasksRequest): string {
  const { group } = parseQueueName((added ?? removed)?.queue ?? '');
  return added === undefined ? `-${group}` : `+${group}`;
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

/** Whether the failure says nothing of any one update: no answer, or no node that would take any. */
const isOfAll = ({ maybeApplied, retryable }: TaskMasterError): boolean => maybeApplied || retryable;
