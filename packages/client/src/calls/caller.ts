import { status } from '@grpc/grpc-js';
import type { LeasedTask, LeaseTasksRequest, UpdateTasksRequest, UpdateTasksResponse } from '@taskmaster/proto';
import { sleep, type Timing } from '../transport/timing.ts';
import type { Transport, TransportCallOptions } from '../transport/transport.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { durationMs } from '../values/duration.ts';
import { cancelled, type TaskMasterError, withGaveUp, withMaybeApplied } from '../values/errors.ts';
import { type CallOptions, type ClientSettings, callHook } from '../values/options.ts';
import { decideRetry, type Repetition } from '../values/retry.ts';

export interface CallerParts {
  readonly transport: Transport;
  readonly settings: ClientSettings;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

/** Errors say how long a call was repeated from here on, in ms; below it nobody has noticed. */
const WORTH_SAYING_MS = 1_000;

/** Carries calls out over a transport, with deadlines, and repeats those that failed where that is safe. */
export class Caller {
  readonly #parts: CallerParts;

  constructor(parts: CallerParts) {
    this.#parts = parts;
  }

  get transport(): Transport {
    return this.#parts.transport;
  }

  /** Applies an update. One without a request id is repeated only when it is known to have changed nothing. */
  update(request: UpdateTasksRequest, options: CallOptions): Promise<UpdateTasksResponse> {
    const repetition = request.requestId.byteLength > 0 ? 'once' : 'unsafe';
    return this.call('updateTasks', repetition, options, (attempt) =>
      this.#parts.transport.updateTasks(request, attempt),
    );
  }

  /**
   * Leases tasks. A repetition waits for what is left of the waiting time.
   *
   * A transport that is given up by the signal settles once nothing is, or will be, leased to the call: it may still
   * resolve, and whoever gave up must give the tasks back.
   */
  async lease(request: LeaseTasksRequest, options: CallOptions): Promise<readonly LeasedTask[]> {
    const { transport, timing } = this.#parts;
    const waitEnd = timing.now() + request.waitMs;
    const { tasks } = await this.call(
      'leaseTasks',
      'harmless',
      options,
      (attempt) => {
        const waitMs = Math.max(0, Math.min(request.waitMs, Math.round(waitEnd - timing.now())));
        return transport.leaseTasks({ ...request, waitMs }, attempt);
      },
      request.waitMs,
    );
    return tasks;
  }

  /**
   * Makes attempts until one succeeds, the retry rules give up, or the deadline passes.
   * @param extraMs comes on top of the deadline, but not of the transport's, which adds a lease's waiting time itself.
   */
  async call<Reply>(
    operation: string,
    repetition: Repetition,
    options: CallOptions,
    attemptOnce: (options: TransportCallOptions) => Promise<Reply>,
    extraMs = 0,
  ): Promise<Reply> {
    const { settings, timing } = this.#parts;
    const { signal } = options;
    if (signal?.aborted) throw cancelled(signal);
    const timeoutMs = options.timeout === undefined ? settings.timeoutMs : durationMs(options.timeout, 'timeout');
    const start = timing.now();
    let left = timeoutMs;
    let maybeApplied = false;
    let before: TaskMasterError | undefined;
    for (let attempt = 1; ; attempt++) {
      try {
        return await attemptOnce({ signal, timeoutMs: left });
      } catch (thrown) {
        const failure = asTaskMasterError(thrown);
        const elapsedMs = timing.now() - start;
        // Why there was no answer in time is what the attempts before it were told.
        if (before !== undefined && failure.code === status.DEADLINE_EXCEEDED) {
          const unsure = repetition !== 'read' && (maybeApplied || failure.maybeApplied);
          throw withGaveUp(before, elapsedMs, { maybeApplied: unsure, cause: failure });
        }
        const error: TaskMasterError =
          repetition === 'read' ? withMaybeApplied(failure, false) : withDoubt(failure, maybeApplied);
        maybeApplied = error.maybeApplied;
        before = error;
        await this.#beforeRepeating(operation, repetition, error, attempt, elapsedMs, timeoutMs + extraMs, signal);
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
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { settings, timing, random, transport } = this.#parts;
    const remainingMs = totalMs - elapsedMs;
    const elsewhere = transport.canTryElsewhere ?? false;
    const failed = { error, attempt, repetition, elapsedMs, remainingMs, elsewhere };
    const decision = decideRetry(failed, settings.retry, random);
    if (decision.kind === 'give-up') {
      const isWorthSaying = attempt > 1 && error.retryable && elapsedMs >= WORTH_SAYING_MS;
      throw isWorthSaying ? withGaveUp(error, elapsedMs) : error;
    }
    callHook(settings.onCallRetried, { operation, attempt, error, afterMs: decision.afterMs, elapsedMs });
    try {
      await sleep(timing, decision.afterMs, signal);
    } catch {
      throw cancelled(signal, error);
    }
  }
}

/**
 * No refusal of a later attempt says what became of one whose answer was lost: it may still be on its way, as a cut network
 * delivers it late, and meet other tasks than the later one did. Only what no node would ever take cannot take effect.
 */
function withDoubt(failure: TaskMasterError, maybeAppliedBefore: boolean): TaskMasterError {
  return maybeAppliedBefore && failure.code !== status.INVALID_ARGUMENT ? withMaybeApplied(failure, true) : failure;
}
