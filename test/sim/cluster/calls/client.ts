import { isDeepStrictEqual } from 'node:util';
import type {
  EnqueueCall,
  History,
  LeaseCall,
  LeasedReply,
  Outcome,
  TaskCall,
  UpdateCall,
} from '@taskmaster/cli/testing/history';
import {
  BatchUpdateTasksRequest,
  BatchUpdateTasksResponse,
  EnqueueMode,
  EnqueueResult,
  encodeToBuffer,
  LeaseTasksRequest,
  LeaseTasksResponse,
  parseQueueName,
  UpdateTasksRequest,
  UpdateTasksResponse,
  type Error as WireError,
} from '@taskmaster/proto';
import { LostError, RefusedError } from '@taskmaster/proxy';
import type { Trouble } from '../trouble.ts';

/** A way into the cluster. Rejects with `RefusedError` or `LostError`. */
export type Way = (method: string, request: Uint8Array) => Promise<Uint8Array>;

export interface ClientDeps {
  readonly history: History;
  readonly trouble: Trouble;
  readonly now: () => number;
  readonly sleep: (ms: number) => Promise<void>;
  /** Called for each attempt. */
  readonly way: () => Way;
  /** True if the clocks of all nodes agree: then instants in replies are instants of the history. */
  readonly clocksAgree: boolean;
}

/** It is not known whether the call took effect. After a failed write only the next start shows it. */
const OPEN_REASONS: ReadonlySet<string> = new Set([
  'OUTCOME_UNKNOWN',
  'DEADLINE_EXCEEDED',
  'CANCELLED',
  'STORE_FAILED',
]);
/** The call changed nothing; a later attempt may succeed. */
const PASSING_REASONS: ReadonlySet<string> = new Set([
  'NOT_HOLDER',
  'PARTITION_MOVING',
  'HOLDER_UNREACHABLE',
  'STARTING',
  'SHUTTING_DOWN',
  'OVERLOADED',
  'MEMBER_LEFT',
  'DISK_FULL',
  'OLD_DATA',
]);
/** The call changed nothing, and a later attempt would get the same answer. */
const ANSWERS: ReadonlySet<string> = new Set([
  'LEASE_LOST',
  'LEASE_EXPIRED',
  'TASK_NOT_FOUND',
  'TASK_EXISTS',
  'NOT_LEASED',
]);
/** Limit of the attempts of a call with a request id: enough for about five seconds of faults. */
const ATTEMPTS = 14;
const LONGEST_PAUSE_MS = 400;

type Failure =
  /** The call changed nothing; a retry may succeed. */
  | { readonly kind: 'passing'; readonly reason: string }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'open' };

/** Makes calls like the users of a cluster, on random ways, and records their outcomes. */
export class SimClient {
  readonly #deps: ClientDeps;

  constructor(deps: ClientDeps) {
    this.#deps = deps;
  }

  /** With a request id: repeated until its outcome is known, each time on a new way. Without: sent once. */
  async update(call: UpdateCall): Promise<Outcome> {
    const { history, now, sleep, way } = this.#deps;
    const recording = history.begin(call, now());
    const calledAt = now();
    const request = encodeToBuffer(UpdateTasksRequest, updateRequest(call));
    let open = false;
    for (let attempt = 1; ; attempt++) {
      const sent = await this.#send(way(), 'UpdateTasks', request);
      if (!('failure' in sent)) return recording.end(updated(sent.reply, call, calledAt), now());
      const { failure } = sent;
      open ||= failure.kind === 'open';
      if (failure.kind === 'refused' || call.requestId === undefined || attempt === ATTEMPTS) {
        return recording.end(open ? { kind: 'unknown' } : refused(failure), now());
      }
      await sleep(Math.min(LONGEST_PAUSE_MS, 10 * 2 ** attempt));
    }
  }

  /** Updates of any groups in one request, which is sent once. */
  async batch(calls: readonly UpdateCall[]): Promise<readonly Outcome[]> {
    const { history, now, way } = this.#deps;
    const calledAt = now();
    const recordings = calls.map((call) => history.begin(call, calledAt));
    const request = encodeToBuffer(BatchUpdateTasksRequest, { requests: calls.map(updateRequest) });
    const sent = await this.#send(way(), 'BatchUpdateTasks', request);
    const results = 'failure' in sent ? [] : BatchUpdateTasksResponse.decode(sent.reply).results;
    return calls.map((call, index) => {
      const outcome = (): Outcome => {
        if ('failure' in sent) return refused(sent.failure);
        const result = results[index]?.result;
        if (result?.$case === 'response') return outcomeOf(result.value, call, calledAt);
        return result === undefined ? { kind: 'unknown' } : refused(this.#failureOf(result.value));
      };
      return recordings[index]?.end(outcome(), now()) ?? { kind: 'unknown' };
    });
  }

  /** Independent updates of one group in one request, which is repeated as `update` does. */
  async parts(calls: readonly UpdateCall[], requestId: string): Promise<void> {
    const { history, now, sleep, way } = this.#deps;
    const calledAt = now();
    const recordings = calls.map((call) => history.begin(call, calledAt));
    const updates = calls.map(updateRequest);
    const request = encodeToBuffer(UpdateTasksRequest, {
      enqueue: updates.flatMap(({ enqueue }) => enqueue),
      dequeue: updates.flatMap(({ dequeue }) => dequeue),
      renew: updates.flatMap(({ renew }) => renew),
      release: updates.flatMap(({ release }) => release),
      requestId: Buffer.from(requestId, 'latin1'),
      parts: calls.map(({ enqueue, dequeue, renew, release }) => ({
        enqueues: enqueue.length,
        dequeues: dequeue.length,
        renewals: renew.length,
        releases: release.length,
      })),
    });
    let sent = await this.#send(way(), 'UpdateTasks', request);
    let open = false;
    for (let attempt = 2; 'failure' in sent; attempt++) {
      open ||= sent.failure.kind === 'open';
      if (sent.failure.kind === 'refused' || attempt > ATTEMPTS) break;
      await sleep(Math.min(LONGEST_PAUSE_MS, 10 * 2 ** attempt));
      sent = await this.#send(way(), 'UpdateTasks', request);
    }
    const reply = 'failure' in sent ? undefined : UpdateTasksResponse.decode(sent.reply);
    let from = 0;
    for (const [index, call] of calls.entries()) {
      const outcome = (): Outcome => {
        if ('failure' in sent) return open ? { kind: 'unknown' } : refused(sent.failure);
        const refusal = reply?.refused.find(({ part }) => part === index)?.error;
        if (refusal !== undefined) return refused(this.#failureOf(refusal));
        const enqueued = reply?.enqueued.slice(from, from + call.enqueue.length) ?? [];
        from += call.enqueue.length;
        return outcomeOf({ enqueued, renewed: [], released: [], refused: [] }, call, calledAt);
      };
      recordings[index]?.end(outcome(), now());
    }
  }

  async lease(call: LeaseCall): Promise<readonly LeasedReply[]> {
    const { history, now, way, clocksAgree } = this.#deps;
    const calledAt = now();
    const recording = history.begin(call, calledAt);
    const { queues, maxTasks, leaseDurationMs, waitMs, maxPid, maxBytes } = call;
    const request = {
      queues: [...queues],
      maxTasks,
      leaseDurationMs: leaseDurationMs,
      waitMs,
      maxPid: pidBytes(maxPid),
      maxBytes,
      workerLabel: 'w',
      patterns: [],
      anyOrder: false,
      maxMoreQueues: 0,
    };
    const sent = await this.#send(way(), 'LeaseTasks', encodeToBuffer(LeaseTasksRequest, request));
    if ('failure' in sent) {
      recording.end(refused(sent.failure), now());
      return [];
    }
    const { tasks } = LeaseTasksResponse.decode(sent.reply);
    const leased = tasks.map(({ queue, pid, leaseToken, leaseUntilUnixMs, attempt, enqueuedUnixMs, ...payload }) => ({
      queue,
      pid: text(pid),
      data: payloadText(payload),
      token: leaseToken,
      // A lease begins after the call, so it is valid at least until then.
      until: clocksAgree ? leaseUntilUnixMs : calledAt + leaseDurationMs,
      attempt,
      enqueuedAt: enqueuedUnixMs,
    }));
    const grantedAt = Math.max(...leased.map(({ until }) => until - leaseDurationMs));
    const endedAt = clocksAgree && leased.length > 0 ? Math.min(now(), grantedAt) : now();
    recording.end({ kind: 'leased', tasks: leased, dismissed: false }, endedAt);
    return leased;
  }

  async #send(way: Way, method: string, request: Uint8Array): Promise<{ reply: Uint8Array } | { failure: Failure }> {
    try {
      return { reply: await way(method, request) };
    } catch (error) {
      if (error instanceof RefusedError) return { failure: this.#failureOf(error.error) };
      if (!(error instanceof LostError)) throw error;
      return { failure: error.maybeApplied ? { kind: 'open' } : { kind: 'passing', reason: error.message } };
    }
  }

  #failureOf({ reason, message }: WireError): Failure {
    if (OPEN_REASONS.has(reason)) return { kind: 'open' };
    if (PASSING_REASONS.has(reason)) return { kind: 'passing', reason };
    if (!ANSWERS.has(reason)) this.#deps.trouble.report(`a call was refused with ${reason}: ${message}`);
    return { kind: 'refused', reason };
  }
}

function refused(failure: Failure): Outcome {
  return failure.kind === 'open' ? { kind: 'unknown' } : { kind: 'refused', reason: failure.reason, items: [] };
}

function updated(reply: Uint8Array, call: UpdateCall, calledAt: number): Outcome {
  return outcomeOf(UpdateTasksResponse.decode(reply), call, calledAt);
}

const RESULTS: ReadonlyMap<EnqueueResult, 'created' | 'collapsed' | 'replaced'> = new Map([
  [EnqueueResult.ENQUEUE_RESULT_CREATED, 'created'],
  [EnqueueResult.ENQUEUE_RESULT_COLLAPSED, 'collapsed'],
  [EnqueueResult.ENQUEUE_RESULT_REPLACED, 'replaced'],
]);

function outcomeOf({ enqueued, released }: UpdateTasksResponse, call: UpdateCall, calledAt: number): Outcome {
  return {
    kind: 'updated',
    enqueued: enqueued.map(({ pid, result }) => ({ pid: text(pid), result: RESULTS.get(result) ?? 'created' })),
    // As for leases: it is valid at least until then.
    renewed: call.renew.map(({ leaseDurationMs }) => ({ until: calledAt + leaseDurationMs })),
    released: released.map(({ deadLetterQueue }) => ({ until: undefined, deadLetterQueue })),
  };
}

const MODES = {
  collapse: EnqueueMode.ENQUEUE_MODE_COLLAPSE,
  fail: EnqueueMode.ENQUEUE_MODE_FAIL,
  replace: EnqueueMode.ENQUEUE_MODE_REPLACE,
  rerun: EnqueueMode.ENQUEUE_MODE_RERUN,
  'rerun-first': EnqueueMode.ENQUEUE_MODE_RERUN_FIRST,
};

function updateRequest({ enqueue, dequeue, renew, release, requestId }: UpdateCall): UpdateTasksRequest {
  const item = ({ queue, pid, token }: TaskCall) => ({ queue, pid: pidBytes(pid), leaseToken: token ?? 0 });
  return {
    enqueue: enqueue.map(({ queue, pid, data, mode, delayMs, retry, startWithinMs }: EnqueueCall) => ({
      queue,
      pid: pidBytes(pid),
      data: Buffer.from(data, 'latin1'),
      mode: MODES[mode],
      delayMs,
      runAtUnixMs: 0,
      startWithinMs,
      retry: retry && { ...retry, deadLetterQueue: `${parseQueueName(queue).group}#${retry.deadLetterQueue}` },
      headers: headersOf(data),
      key: '',
      timeLimitMs: 0,
      limitKey: '',
      topic: '',
    })),
    dequeue: dequeue.map((one) => ({ ...item(one), requeue: one.requeue ?? false })),
    renew: renew.map((one) => ({ ...item(one), leaseDurationMs: one.leaseDurationMs, progress: one.progress })),
    release: release.map((one) => ({
      ...item(one),
      delayMs: one.delayMs,
      refundAttempt: one.refund,
      error: one.error === undefined ? undefined : { message: one.error, details: '' },
      deadLetter: one.deadLetter ?? false,
      runAtUnixMs: 0,
      waiting: one.waiting ?? false,
      interrupted: false,
    })),
    requestId: Buffer.from(requestId ?? '', 'latin1'),
    parts: [],
  };
}

/** Every third payload has headers, which say whose they are. */
const headersOf = (data: string): Record<string, string> =>
  data.charCodeAt(data.length - 1) % 3 === 0 ? { of: data } : {};

/** The text of a payload. It fits no enqueue if it has the headers of another one. */
function payloadText({ data, headers }: { data: Uint8Array; headers: Record<string, string> }): string {
  const of = text(data);
  return isDeepStrictEqual({ ...headers }, headersOf(of)) ? of : `${of} with headers ${JSON.stringify(headers)}`;
}

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');
const pidBytes = (pid: string | undefined): Uint8Array => Buffer.from(pid ?? '', 'latin1');
