import {
  errorFromWire,
  type Transport,
  type TransportCallOptions,
  withMaybeApplied,
} from '@taskmaster/client/transport';
import type {
  BackupPartitionRequest,
  BackupPartitionResponse,
  DeleteQueueRequest,
  DeleteQueueResponse,
  DeleteQueueSettingsRequest,
  DeleteQueueSettingsResponse,
  DeleteScheduleRequest,
  DeleteScheduleResponse,
  GetQueueStatsRequest,
  GetQueueStatsResponse,
  GetTasksRequest,
  GetTasksResponse,
  LeaseTasksRequest,
  LeaseTasksResponse,
  ListQueueSettingsRequest,
  ListQueueSettingsResponse,
  ListQueuesRequest,
  ListQueuesResponse,
  ListSchedulesRequest,
  ListSchedulesResponse,
  ListSubscriptionsRequest,
  ListSubscriptionsResponse,
  PauseScheduleRequest,
  PauseScheduleResponse,
  PeekTasksRequest,
  PeekTasksResponse,
  PutQueueSettingsRequest,
  PutQueueSettingsResponse,
  PutScheduleRequest,
  PutScheduleResponse,
  ResetLeasesRequest,
  ResetLeasesResponse,
  SubscribeRequest,
  SubscribeResponse,
  TriggerScheduleRequest,
  TriggerScheduleResponse,
  UnsubscribeRequest,
  UnsubscribeResponse,
  UpdateTasksRequest,
  UpdateTasksResponse,
  WaitForTasksRequest,
  WaitForTasksResponse,
} from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import { Refusal } from '@taskmaster/server/domain';
import type { Log } from '@taskmaster/server/ports';
import { type Caller, type Handlers, refusalOf, toWireError } from '@taskmaster/server/service';

export interface InProcessTransportOptions {
  readonly handlers: Handlers;
  /** Sends a partition; see `Backups`. */
  readonly backup: (request: BackupPartitionRequest, signal: AbortSignal) => AsyncIterable<BackupPartitionResponse>;
  readonly log: Log;
  /** Closes the engine behind the handlers. Called once, when the transport is closed. */
  readonly close: () => Promise<void>;
}

/**
 * Calls an engine in the same process, with the same validation and the same errors as over gRPC. Payloads are copied in both
 * directions, so that neither side can change data of the other.
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
    return this.#run(options, 0, ({ updateTasks }, call) => updateTasks({ ...request, enqueue }, call));
  }

  async leaseTasks(request: LeaseTasksRequest, options?: TransportCallOptions): Promise<LeaseTasksResponse> {
    return withOwnData(await this.#run(options, request.waitMs, ({ leaseTasks }, call) => leaseTasks(request, call)));
  }

  async waitForTasks(request: WaitForTasksRequest, options?: TransportCallOptions): Promise<WaitForTasksResponse> {
    const reply = await this.#run(options, request.waitMs, ({ waitForTasks }, call) => waitForTasks(request, call));
    return { ended: reply.ended.map((task) => ({ ...task, result: task.result && new Uint8Array(task.result) })) };
  }

  listQueues(request: ListQueuesRequest, options?: TransportCallOptions): Promise<ListQueuesResponse> {
    return this.#run(options, 0, ({ listQueues }, call) => listQueues(request, call));
  }

  getQueueStats(request: GetQueueStatsRequest, options?: TransportCallOptions): Promise<GetQueueStatsResponse> {
    return this.#run(options, 0, ({ getQueueStats }, call) => getQueueStats(request, call));
  }

  async peekTasks(request: PeekTasksRequest, options?: TransportCallOptions): Promise<PeekTasksResponse> {
    return withOwnData(await this.#run(options, 0, ({ peekTasks }, call) => peekTasks(request, call)));
  }

  async getTasks(request: GetTasksRequest, options?: TransportCallOptions): Promise<GetTasksResponse> {
    return withOwnData(await this.#run(options, 0, ({ getTasks }, call) => getTasks(request, call)));
  }

  deleteQueue(request: DeleteQueueRequest, options?: TransportCallOptions): Promise<DeleteQueueResponse> {
    return this.#run(options, 0, ({ deleteQueue }, call) => deleteQueue(request, call));
  }

  resetLeases(request: ResetLeasesRequest, options?: TransportCallOptions): Promise<ResetLeasesResponse> {
    return this.#run(options, 0, ({ resetLeases }, call) => resetLeases(request, call));
  }

  putQueueSettings(
    request: PutQueueSettingsRequest,
    options?: TransportCallOptions,
  ): Promise<PutQueueSettingsResponse> {
    return this.#run(options, 0, ({ putQueueSettings }, call) => putQueueSettings(request, call));
  }

  deleteQueueSettings(
    request: DeleteQueueSettingsRequest,
    options?: TransportCallOptions,
  ): Promise<DeleteQueueSettingsResponse> {
    return this.#run(options, 0, ({ deleteQueueSettings }, call) => deleteQueueSettings(request, call));
  }

  listQueueSettings(
    request: ListQueueSettingsRequest,
    options?: TransportCallOptions,
  ): Promise<ListQueueSettingsResponse> {
    return this.#run(options, 0, ({ listQueueSettings }, call) => listQueueSettings(request, call));
  }

  putSchedule(request: PutScheduleRequest, options?: TransportCallOptions): Promise<PutScheduleResponse> {
    const { spec } = request;
    const own = spec && { ...spec, data: new Uint8Array(spec.data), pidPrefix: new Uint8Array(spec.pidPrefix) };
    return this.#run(options, 0, ({ putSchedule }, call) => putSchedule({ ...request, spec: own }, call));
  }

  listSchedules(request: ListSchedulesRequest, options?: TransportCallOptions): Promise<ListSchedulesResponse> {
    return this.#run(options, 0, ({ listSchedules }, call) => listSchedules(request, call));
  }

  deleteSchedule(request: DeleteScheduleRequest, options?: TransportCallOptions): Promise<DeleteScheduleResponse> {
    return this.#run(options, 0, ({ deleteSchedule }, call) => deleteSchedule(request, call));
  }

  pauseSchedule(request: PauseScheduleRequest, options?: TransportCallOptions): Promise<PauseScheduleResponse> {
    return this.#run(options, 0, ({ pauseSchedule }, call) => pauseSchedule(request, call));
  }

  triggerSchedule(request: TriggerScheduleRequest, options?: TransportCallOptions): Promise<TriggerScheduleResponse> {
    return this.#run(options, 0, ({ triggerSchedule }, call) => triggerSchedule(request, call));
  }

  subscribe(request: SubscribeRequest, options?: TransportCallOptions): Promise<SubscribeResponse> {
    return this.#run(options, 0, ({ subscribe }, call) => subscribe(request, call));
  }

  unsubscribe(request: UnsubscribeRequest, options?: TransportCallOptions): Promise<UnsubscribeResponse> {
    return this.#run(options, 0, ({ unsubscribe }, call) => unsubscribe(request, call));
  }

  listSubscriptions(
    request: ListSubscriptionsRequest,
    options?: TransportCallOptions,
  ): Promise<ListSubscriptionsResponse> {
    return this.#run(options, 0, ({ listSubscriptions }, call) => listSubscriptions(request, call));
  }

  async *backupPartition(
    request: BackupPartitionRequest,
    options?: TransportCallOptions,
  ): AsyncGenerator<BackupPartitionResponse, undefined> {
    const call = new InProcessCall();
    this.#calls.add(call);
    try {
      if (this.#closed !== undefined) throw closed();
      using _limits = call.limitBy(options, 0);
      yield* this.#options.backup(request, call.signal);
    } catch (thrown) {
      throw errorFromWire(toWireError(refusalOf(thrown, this.#options.log)));
    } finally {
      this.#calls.delete(call);
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
      if (call.gone) return await call.cancelled;
      hasBegun = true;
      return await Promise.race([call.cancelled, run(handlers, call)]);
    } catch (thrown) {
      // The engine finishes a cancelled call nevertheless.
      throw withMaybeApplied(errorFromWire(toWireError(refusalOf(thrown, log))), hasBegun && call.gone);
    } finally {
      this.#calls.delete(call);
    }
  }
}

/** A call in progress. */
class InProcessCall implements Caller {
  readonly address = 'in process';
  readonly access = unlimitedAccess;
  readonly #abort = new AbortController();
  readonly #cancelled = Promise.withResolvers<never>();

  constructor() {
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
    this.#abort.abort();
  }

  /** Cancels the call at the caller's signal or timeout, until disposed of. */
  limitBy(options: TransportCallOptions | undefined, waitMs: number): Disposable {
    const { signal, timeoutMs } = options ?? {};
    const onAbort = () => this.cancel(new Refusal('CANCELLED', 'the caller cancelled the call'));
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort);
    const timer = timeoutMs === undefined ? undefined : this.#cancelAfter(timeoutMs + waitMs);
    return {
      [Symbol.dispose]: () => {
        signal?.removeEventListener('abort', onAbort);
        clearTimeout(timer);
      },
    };
  }

  #cancelAfter(ms: number): NodeJS.Timeout | undefined {
    // `setTimeout` treats longer times as 1 ms.
    if (!(ms <= 0x7fffffff)) return undefined;
    return setTimeout(() => this.cancel(new Refusal('DEADLINE_EXCEEDED', `no answer within ${ms} ms`)), ms);
  }
}

function closed(): Refusal {
  return new Refusal('CANCELLED', 'the client is closed');
}

function withOwnData<T extends { readonly data: Uint8Array }, R extends { readonly tasks: readonly T[] }>(reply: R): R {
  return { ...reply, tasks: reply.tasks.map((task) => ({ ...task, data: new Uint8Array(task.data) })) };
}
