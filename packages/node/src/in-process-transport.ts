import { MAX_TIMER_MS, systemTiming, type Timing } from '@taskmaster/client/internal';
import {
  errorFromWire,
  type Transport,
  type TransportCallOptions,
  withMaybeApplied,
} from '@taskmaster/client/transport';
import { Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import {
  type BackupPartitionRequest,
  type BackupPartitionResponse,
  type Method,
  type MethodKey,
  type ReplyOf,
  type RequestOf,
  type UpdateTasksRequest,
  waitOf,
} from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import {
  type Caller,
  type CallFields,
  callFields,
  refusalOf,
  toWireError,
  updateFields,
} from '@taskmaster/server/calls';
import type { Handlers } from './service/handlers.ts';

export interface InProcessTransportOptions {
  readonly handlers: Handlers;
  /** Sends a partition; see `Backups`. */
  readonly backup: (request: BackupPartitionRequest, signal: AbortSignal) => AsyncIterable<BackupPartitionResponse>;
  readonly log: Log;
  /** Times calls out. Default: the clock of the process. */
  readonly timing?: Timing;
  /** Called when a call begins or ends. */
  readonly onCall?: () => void;
  /** Closes the engine behind the handlers. Called once, when the transport is closed. */
  readonly close: () => Promise<void>;
}

/**
 * Calls an engine in the same process, with the same validation and the same errors as over gRPC. Payloads are copied in both
 * directions, so that neither side can change data of the other.
 */
export class InProcessTransport implements Transport {
  readonly reachableFrom = undefined;
  readonly isInProcess = true;
  readonly #options: InProcessTransportOptions;
  readonly #timing: Timing;
  readonly #calls = new Set<InProcessCall>();
  #closed: Promise<void> | undefined;

  constructor(options: InProcessTransportOptions) {
    this.#options = options;
    this.#timing = options.timing ?? systemTiming;
  }

  async unary<Q extends object, R>(method: Method<Q, R>, request: Q, options?: TransportCallOptions): Promise<R> {
    const handlers = this.#options.handlers as unknown as Readonly<Record<string, Handler<Q, R> | undefined>>;
    const { [method.key]: handle } = handlers;
    if (handle === undefined) throw new TypeError(`an engine in this process has no ${method.key}`);
    const copyRequest = requestCopies[method.key] as Copy<Q> | undefined;
    const copyReply = replyCopies[method.key] as Copy<R> | undefined;
    const own = copyRequest === undefined ? request : copyRequest(request);
    const fields = (): CallFields =>
      method.key === 'updateTasks'
        ? updateFields(method.name, request as unknown as UpdateTasksRequest)
        : callFields(method.name, options?.traceparent);
    const reply = await this.#run(options, waitOf(request), fields, (call) => handle(own, call));
    return copyReply === undefined ? reply : copyReply(reply);
  }

  async *stream<Q extends object, R>(
    _method: Method<Q, R>,
    request: Q,
    options?: TransportCallOptions,
  ): AsyncGenerator<R, undefined> {
    const call = this.#begin();
    try {
      if (this.#closed !== undefined) throw closed();
      using _limits = call.limitBy(options, 0);
      // The only method with a streamed answer.
      const asked = request as unknown as BackupPartitionRequest;
      yield* this.#options.backup(asked, call.signal) as AsyncIterable<R>;
    } catch (thrown) {
      throw errorFromWire(toWireError(refusalOf(thrown, this.#options.log)));
    } finally {
      this.#end(call);
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    for (const call of this.#calls) call.cancel(closed());
    await this.#options.close();
  }

  #begin(): InProcessCall {
    const call = new InProcessCall(this.#timing);
    this.#calls.add(call);
    this.#options.onCall?.();
    return call;
  }

  #end(call: InProcessCall): void {
    this.#calls.delete(call);
    this.#options.onCall?.();
  }

  async #run<R>(
    options: TransportCallOptions | undefined,
    waitMs: number,
    fields: () => CallFields,
    run: (call: InProcessCall) => Promise<R>,
  ): Promise<R> {
    const { log } = this.#options;
    const call = this.#begin();
    let hasBegun = false;
    try {
      if (this.#closed !== undefined) throw closed();
      using _limits = call.limitBy(options, waitMs);
      if (call.gone) return await call.cancelled;
      hasBegun = true;
      return await Promise.race([call.cancelled, run(call)]);
    } catch (thrown) {
      // The engine finishes a cancelled call nevertheless.
      throw withMaybeApplied(errorFromWire(toWireError(refusalOf(thrown, log, fields))), hasBegun && call.gone);
    } finally {
      this.#end(call);
    }
  }
}

/** A call in progress. */
class InProcessCall implements Caller {
  readonly address = 'in process';
  readonly access = unlimitedAccess;
  readonly #timing: Timing;
  readonly #abort = new AbortController();
  readonly #cancelled = Promise.withResolvers<never>();

  constructor(timing: Timing) {
    this.#timing = timing;
    // If the answer comes first, the rejection has no other listener.
    this.#cancelled.promise.catch(() => {});
  }

  /** Rejects when the call is cancelled. */
  get cancelled(): Promise<never> {
    return this.#cancelled.promise;
  }

  get gone(): boolean {
    return this.#abort.signal.aborted;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  cancel(reason: Refusal): void {
    this.#cancelled.reject(reason);
    this.#abort.abort(reason);
  }

  /** Cancels the call at the caller's signal or timeout, until disposed of. */
  limitBy(options: TransportCallOptions | undefined, waitMs: number): Disposable {
    const { signal, timeoutMs } = options ?? {};
    const onAbort = () => this.cancel(new Refusal('CANCELLED', 'the caller cancelled the call'));
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort);
    const cancelTimer = timeoutMs === undefined ? undefined : this.#cancelAfter(timeoutMs + waitMs);
    return {
      [Symbol.dispose]: () => {
        signal?.removeEventListener('abort', onAbort);
        cancelTimer?.();
      },
    };
  }

  #cancelAfter(ms: number): (() => void) | undefined {
    if (!(ms <= MAX_TIMER_MS)) return undefined;
    const cancel = () => this.cancel(new Refusal('DEADLINE_EXCEEDED', `no answer within ${ms} ms`));
    return this.#timing.after(ms, cancel, true);
  }
}

function closed(): Refusal {
  return new Refusal('CANCELLED', 'the client is closed');
}

type Handler<Q, R> = (request: Q, caller: Caller) => Promise<R>;
type Copy<T> = (message: T) => T;

const requestCopies: { readonly [K in MethodKey]?: Copy<RequestOf<K>> } = {
  updateTasks: (request) => ({
    ...request,
    enqueue: request.enqueue.map((item) => ({ ...item, data: new Uint8Array(item.data) })),
  }),
  putSchedule: ({ schedule, spec }) => ({
    schedule,
    spec: spec && { ...spec, data: new Uint8Array(spec.data), pidPrefix: new Uint8Array(spec.pidPrefix) },
  }),
};

const replyCopies: { readonly [K in MethodKey]?: Copy<ReplyOf<K>> } = {
  leaseTasks: withOwnData,
  peekTasks: withOwnData,
  getTasks: withOwnData,
  waitForTasks: ({ ended }) => ({
    ended: ended.map((task) => ({ ...task, result: task.result && new Uint8Array(task.result) })),
  }),
};

function withOwnData<T extends { readonly data: Uint8Array }, R extends { readonly tasks: readonly T[] }>(reply: R): R {
  return { ...reply, tasks: reply.tasks.map((task) => ({ ...task, data: new Uint8Array(task.data) })) };
}
