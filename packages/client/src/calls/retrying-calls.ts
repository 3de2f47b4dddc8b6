import { status } from '@grpc/grpc-js';
import {
  type EndedTask,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  type Method,
  methods,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
  type WaitForTasksRequest,
} from '@taskmaster/proto';
import { sleep, type Timing } from '../transport/timing.ts';
import type { Transport, TransportCallOptions } from '../transport/transport.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { durationMs } from '../values/duration.ts';
import { cancelled, type TaskMasterError, withGaveUp, withMaybeApplied } from '../values/errors.ts';
import { callHook } from '../values/hooks.ts';
import type { CallOptions, ClientSettings } from '../values/options.ts';
import { assertAttempts, decideRetry, type Repetition } from '../values/retry.ts';

export interface RetryingCallsParts {
  readonly transport: Transport;
  readonly settings: ClientSettings;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** What knows the span that is active, in the format of W3C. */
  readonly spans?: { readonly traceparent: string | undefined } | undefined;
}

/** Errors of calls that were repeated for at least this time say so, in ms. */
const WORTH_SAYING_MS = 1_000;

/** Makes calls over a transport, with deadlines. Repeats failed calls if that is safe. */
export class RetryingCalls {
  readonly #parts: RetryingCallsParts;

  constructor(parts: RetryingCallsParts) {
    this.#parts = parts;
  }

  get transport(): Transport {
    return this.#parts.transport;
  }

  /**
   * Applies an update. Without a request id it is repeated only if the failed attempt changed nothing.
   * @param failed why the first attempt failed, which was a part of another request. Undefined: there was none.
   */
  update(request: UpdateTasksRequest, options: CallOptions, failed?: TaskMasterError): Promise<UpdateTasksResponse> {
    const repetition = request.requestId.byteLength > 0 ? 'once' : 'unsafe';
    const { traceparent } = request;
    let first = failed;
    return this.run(methods.updateTasks.key, repetition, options, (attempt) => {
      const before = first;
      first = undefined;
      return before === undefined
        ? this.#parts.transport.unary(methods.updateTasks, request, traceparent ? { ...attempt, traceparent } : attempt)
        : Promise.reject(before);
    });
  }

  /**
   * Leases tasks. A repetition waits for the rest of the waiting time.
   *
   * After an abort of the signal the call settles when no more tasks can be leased to it. It may still resolve with tasks, and
   * the caller must release them.
   */
  lease(request: LeaseTasksRequest, options: CallOptions): Promise<LeaseTasksResponse> {
    return this.poll(methods.leaseTasks, request, options);
  }

  /** Waits until tasks have ended, or leases are lost or their tasks cancelled. Resolves with none after the wait. */
  async waitForTasks(request: WaitForTasksRequest, options: CallOptions): Promise<readonly EndedTask[]> {
    return (await this.poll(methods.waitForTasks, request, options)).ended;
  }

  /** Calls a method. `repetition`: default as the method says. */
  call<Q extends object, R>(
    method: Method<Q, R>,
    request: NoInfer<Q>,
    options: CallOptions,
    repetition: Repetition = method.repetition,
  ): Promise<R> {
    const { transport } = this.#parts;
    return this.run(method.key, repetition, options, (attempt) => transport.unary(method, request, attempt));
  }

  /**
   * As `call`, for a request that may wait. Later attempts wait for the rest of the time. The request names the span of the
   * caller, because it shares a stream with others.
   */
  poll<Q extends { readonly waitMs: number; readonly traceparent?: string | undefined }, R>(
    method: Method<Q, R>,
    request: Q,
    options: CallOptions,
  ): Promise<R> {
    const { timing, transport, spans } = this.#parts;
    const end = timing.now() + request.waitMs;
    const traceparent = request.traceparent ?? spans?.traceparent;
    const traced = traceparent === request.traceparent ? request : { ...request, traceparent };
    const attempt = (options: TransportCallOptions): Promise<R> => {
      const waitMs = Math.max(0, Math.min(request.waitMs, Math.round(end - timing.now())));
      const sent = waitMs === request.waitMs ? traced : { ...traced, waitMs };
      return transport.unary(method, sent, traceparent ? { ...options, traceparent } : options);
    };
    return this.run(method.key, method.repetition, options, attempt, request.waitMs);
  }

  /**
   * Makes attempts until one succeeds, the retry rules allow no more, or the deadline passes.
   * @param extraMs waiting time of a lease. It extends the deadline here; the transport adds it to its own deadline.
   */
  async run<Reply>(
    operation: string,
    repetition: Repetition,
    options: CallOptions,
    attemptOnce: (options: TransportCallOptions) => Promise<Reply>,
    extraMs = 0,
  ): Promise<Reply> {
    const { settings, timing } = this.#parts;
    const { signal, maxAttempts } = options;
    if (maxAttempts !== undefined) assertAttempts('maxAttempts', maxAttempts);
    if (signal?.aborted) throw cancelled(signal);
    const timeoutMs = options.timeout === undefined ? settings.timeoutMs : durationMs(options.timeout, 'timeout');
    const traceparent = this.#parts.spans?.traceparent;
    const start = timing.now();
    let left = timeoutMs;
    let maybeApplied = false;
    let before: TaskMasterError | undefined;
    for (let attempt = 1; ; attempt++) {
      try {
        return await attemptOnce({ signal, timeoutMs: left, traceparent });
      } catch (thrown) {
        const failure = asTaskMasterError(thrown);
        const elapsedMs = timing.now() - start;
        // The error of the attempt before says why no attempt succeeded in time.
        if (before !== undefined && failure.code === status.DEADLINE_EXCEEDED) {
          const unsure = repetition !== 'read' && (maybeApplied || failure.maybeApplied);
          throw withGaveUp(before, elapsedMs, { maybeApplied: unsure, cause: failure });
        }
        const error: TaskMasterError =
          repetition === 'read' ? withMaybeApplied(failure, false) : withDoubt(failure, maybeApplied);
        maybeApplied = error.maybeApplied;
        before = error;
        await this.#beforeRepeating(operation, repetition, error, attempt, elapsedMs, timeoutMs + extraMs, options);
        left = Math.min(timeoutMs, timeoutMs + extraMs - (timing.now() - start));
      }
    }
  }

  async #beforeRepeating(
    operation: string,
    repetition: Repetition,
    error: TaskMasterError,
    attempt: number,
    elapsedMs: number,
    totalMs: number,
    { signal, maxAttempts }: CallOptions,
  ): Promise<void> {
    const { settings, timing, random, transport } = this.#parts;
    const policy = maxAttempts === undefined ? settings.retry : { ...settings.retry, maxAttempts };
    const remainingMs = totalMs - elapsedMs;
    const elsewhere = transport.canTryElsewhere ?? false;
    const failed = { error, attempt, repetition, elapsedMs, remainingMs, elsewhere };
    const decision = decideRetry(failed, policy, random);
    if (decision.kind === 'give-up') {
      const isWorthSaying = attempt > 1 && error.retryable && elapsedMs >= WORTH_SAYING_MS;
      throw isWorthSaying ? withGaveUp(error, elapsedMs) : error;
    }
    callHook(settings, 'onCallRetried', { operation, attempt, error, afterMs: decision.afterMs, elapsedMs });
    try {
      await sleep(timing, decision.afterMs, signal);
    } catch {
      throw cancelled(signal, error);
    }
  }
}

/**
 * If the answer to an earlier attempt was lost, the refusal of a later attempt does not say what became of the earlier one: a cut
 * network may deliver it late, when the queue has other tasks. Only a request that every node refuses cannot be applied.
 */
function withDoubt(failure: TaskMasterError, maybeAppliedBefore: boolean): TaskMasterError {
  // Whether a key and a PID name one task depends on what an earlier attempt has done.
  const isOfRequest = failure.code === status.INVALID_ARGUMENT && failure.reason !== 'CONFLICTING_ITEMS';
  return maybeAppliedBefore && !isOfRequest ? withMaybeApplied(failure, true) : failure;
}
