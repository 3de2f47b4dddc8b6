import {
  errorFromWire,
  type Transport,
  type TransportCallOptions,
  withMaybeApplied,
} from '@taskmaster/client/transport';
import type {
  DeleteQueueRequest,
  DeleteQueueResponse,
  GetQueueStatsRequest,
  GetQueueStatsResponse,
  GetTasksRequest,
  GetTasksResponse,
  LeaseTasksRequest,
  LeaseTasksResponse,
  ListQueuesRequest,
  ListQueuesResponse,
  PeekTasksRequest,
  PeekTasksResponse,
  ResetLeasesRequest,
  ResetLeasesResponse,
  UpdateTasksRequest,
  UpdateTasksResponse,
} from '@taskmaster/proto';
import { Refusal } from '@taskmaster/server/domain';
import type { Log } from '@taskmaster/server/ports';
import { type Caller, type Handlers, refusalOf, toWireError } from '@taskmaster/server/service';

export interface InProcessTransportOptions {
  readonly handlers: Handlers;
  readonly log: Log;
  /** Ends what the handlers work on; called once, when the transport is closed. */
  readonly close: () => Promise<void>;
}

/**
 * Calls an engine of the same process: no network, the same validation, the same errors. Payloads are copied on their way
 * in and out, so that neither side can change what the other one holds.
 */
export class InProcessTransport implements Transport {
  readonly reachableFrom = undefined;
  readonly #options: InProcessTransportOptions;
  readonly #calls = new Set<InProcessCall>();
  #closed: Promise<void> | undefined;

  constructor(options: InProcessTransportOptions) {
    this.#options = options;
  }

  updateTasks(request: UpdateTasksRequest, options?: TransportCallOptions): Promise<UpdateTasksResponse> {
    const enqueue = request.enqueue.map((item) => ({ ...item, data: new Uint8Array(item.data) }));
    return this.#run(options, 0, ({ updateTasks }) => updateTasks({ ...request, enqueue }));
  }

  async leaseTasks(request: LeaseTasksRequest, options?: TransportCallOptions): Promise<LeaseTasksResponse> {
    return withOwnData(await this.#run(options, request.waitMs, ({ leaseTasks }, call) => leaseTasks(request, call)));
  }

  listQueues(request: ListQueuesRequest, options?: TransportCallOptions): Promise<ListQueuesResponse> {
    return this.#run(options, 0, ({ listQueues }) => listQueues(request));
  }

  getQueueStats(request: GetQueueStatsRequest, options?: TransportCallOptions): Promise<GetQueueStatsResponse> {
    return this.#run(options, 0, ({ getQueueStats }) => getQueueStats(request));
  }

  async peekTasks(request: PeekTasksRequest, options?: TransportCallOptions): Promise<PeekTasksResponse> {
    return withOwnData(await this.#run(options, 0, ({ peekTasks }) => peekTasks(request)));
  }

  async getTasks(request: GetTasksRequest, options?: TransportCallOptions): Promise<GetTasksResponse> {
    return withOwnData(await this.#run(options, 0, ({ getTasks }) => getTasks(request)));
  }

  deleteQueue(request: DeleteQueueRequest, options?: TransportCallOptions): Promise<DeleteQueueResponse> {
    return this.#run(options, 0, ({ deleteQueue }) => deleteQueue(request));
  }

  resetLeases(request: ResetLeasesRequest, options?: TransportCallOptions): Promise<ResetLeasesResponse> {
    return this.#run(options, 0, ({ resetLeases }) => resetLeases(request));
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    for (const call of this.#calls) call.giveUp(closed());
    await this.#options.close();
  }

  async #run<R>(
    options: TransportCallOptions | undefined,
    waitMs: number,
    run: (handlers: Handlers, call: InProcessCall) => Promise<R>,
  ): Promise<R> {
    const { handlers, log } = this.#options;
    const call = new InProcessCall();
    this.#calls.add(call);
    let hasBegun = false;
    try {
      if (this.#closed !== undefined) throw closed();
      using _limits = call.limitBy(options, waitMs);
      if (call.gone) return await call.givenUp;
      hasBegun = true;
      return await Promise.race([call.givenUp, run(handlers, call)]);
    } catch (thrown) {
      // What is given up goes on nevertheless.
      throw withMaybeApplied(errorFromWire(toWireError(refusalOf(thrown, log))), hasBegun && call.gone);
    } finally {
      this.#calls.delete(call);
    }
  }
}

/** One call in flight, and the one who made it. */
class InProcessCall implements Caller {
  readonly address = 'in process';
  readonly #abort = new AbortController();
  readonly #givenUp = Promise.withResolvers<never>();

  constructor() {
    // It is raced against the answer; when the answer wins, nobody looks at it any more.
    this.#givenUp.promise.catch(() => {});
  }

  /** Rejects once the caller wants no answer any more. */
  get givenUp(): Promise<never> {
    return this.#givenUp.promise;
  }

  get gone(): boolean {
    return this.#abort.signal.aborted;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  giveUp(reason: Refusal): void {
    this.#givenUp.reject(reason);
    this.#abort.abort();
  }

  /** Gives up when the caller's signal or time says so, until disposed of. */
  limitBy(options: TransportCallOptions | undefined, waitMs: number): Disposable {
    const { signal, timeoutMs } = options ?? {};
    const onAbort = () => this.giveUp(new Refusal('CANCELLED', 'the call was given up by its signal'));
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort);
    const timer = timeoutMs === undefined ? undefined : this.#giveUpAfter(timeoutMs + waitMs);
    return {
      [Symbol.dispose]: () => {
        signal?.removeEventListener('abort', onAbort);
        clearTimeout(timer);
      },
    };
  }

  #giveUpAfter(ms: number): NodeJS.Timeout | undefined {
    // setTimeout takes longer times for 1 ms.
    if (!(ms <= 0x7fffffff)) return undefined;
    return setTimeout(() => this.giveUp(new Refusal('DEADLINE_EXCEEDED', `no answer within ${ms} ms`)), ms);
  }
}

function closed(): Refusal {
  return new Refusal('CANCELLED', 'the client is closed');
}

function withOwnData<T extends { readonly data: Uint8Array }, R extends { readonly tasks: readonly T[] }>(reply: R): R {
  return { ...reply, tasks: reply.tasks.map((task) => ({ ...task, data: new Uint8Array(task.data) })) };
}
