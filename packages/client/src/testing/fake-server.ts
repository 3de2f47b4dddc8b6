import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
} from '@grpc/grpc-js';
import {
  type BackupPartitionRequest,
  type BackupPartitionResponse,
  BackupServiceService,
  ClusterServiceService,
  ERROR_DOMAIN,
  ErrorInfo,
  type ListSubscriptionsRequest,
  RetryInfo,
  Status,
  type StreamRequest,
  type StreamResponse,
  type StreamResult,
  type SubscribeRequest,
  TaskMasterServiceService,
  type UnsubscribeRequest,
  UpdateRefused,
  type WaitForTasksRequest,
} from '@taskmaster/proto';
import { systemTiming } from '../transport/timing.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { isTaskMasterError, type TaskMasterError } from '../values/errors.ts';
import { FakeCluster } from './fake-cluster.ts';
import { FakeEngine } from './fake-engine/fake-engine.ts';
import { FakeSchedules } from './fake-engine/fake-schedules.ts';
import { FakeSettings } from './fake-engine/fake-settings.ts';
import { wireError } from './wire-error.ts';

type StreamCallHandle = ServerDuplexStream<StreamRequest, StreamResponse>;

/** A gRPC server over a `FakeEngine`. Tests can inspect it and inject faults. */
export class FakeServer implements AsyncDisposable {
  readonly engine = new FakeEngine(systemTiming);
  readonly cluster = new FakeCluster();
  readonly settings = new FakeSettings();
  readonly schedules = new FakeSchedules(systemTiming);
  /** Number of calls in each message of a stream, in order. */
  readonly messages: number[] = [];
  /** Streams opened so far. */
  streams = 0;
  /** Unary calls by name. */
  readonly unaryCalls: string[] = [];
  /** Refuses every call with this error. Undefined: no call. */
  refusal: TaskMasterError | undefined;
  /** Refuses calls of a queue with the returned error. */
  refusalOf: ((queue: string) => TaskMasterError | undefined) | undefined;
  /** Number of unary calls and streams with the header of a chosen holder. */
  routed = 0;
  /** The `authorization` of calls and streams that have one, in order. */
  readonly authorizations: string[] = [];
  /** Delays updates and leases until it resolves. */
  hold: Promise<void> = Promise.resolve();
  readonly #server = new Server({ 'grpc.max_receive_message_length': 8 * 1024 * 1024 });
  readonly #open = new Set<StreamCallHandle>();
  #port = 0;

  static async start(port = 0): Promise<FakeServer> {
    const fake = new FakeServer();
    await fake.#listen(port);
    return fake;
  }

  get endpoint(): string {
    return `127.0.0.1:${this.#port}`;
  }

  get port(): number {
    return this.#port;
  }

  /** Ends all streams without an error, as a node that shuts down does. */
  endStreams(): void {
    for (const call of this.#open) call.end();
  }

  /** Closes all connections at once, as a crash does. */
  kill(): void {
    this.#server.forceShutdown();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill();
  }

  #listen(port: number): Promise<void> {
    const unary =
      <Request, Reply>(name: string, act: (request: Request, signal: AbortSignal) => Reply | Promise<Reply>) =>
      (call: ServerUnaryCall<Request, Reply>, callback: sendUnaryData<Reply>): void => {
        this.unaryCalls.push(name);
        this.#heed(call);
        const given = new AbortController();
        call.on('cancelled', () => given.abort());
        void this.#guarded(call.request, () => act(call.request, given.signal)).then(
          (reply) => callback(null, reply),
          (error: TaskMasterError) =>
            callback({ code: error.code, details: error.message, metadata: detailsOf(error) }),
        );
      };
    const { engine, cluster, settings, schedules } = this;
    this.#server.addService(TaskMasterServiceService, {
      updateTasks: unary('updateTasks', async (request: Parameters<FakeEngine['update']>[0]) => {
        await this.hold;
        return engine.update(request);
      }),
      leaseTasks: unary('leaseTasks', async (request: Parameters<FakeEngine['lease']>[0], signal) => {
        await this.hold;
        return engine.lease(request, signal);
      }),
      waitForTasks: unary('waitForTasks', async (request: WaitForTasksRequest, signal) => {
        await this.hold;
        return engine.ends.wait(request, signal);
      }),
      batchUpdateTasks: unary('batchUpdateTasks', () => ({ results: [] })),
      batchLeaseTasks: unary('batchLeaseTasks', () => ({ results: [] })),
      listQueues: unary('listQueues', () => ({
        queues: engine.stats({ queues: [], filter: undefined }).queues,
        nextPageToken: '',
        unreachable: cluster.silent,
      })),
      getQueueStats: unary('getQueueStats', (request: Parameters<FakeEngine['stats']>[0]) => ({
        ...engine.stats(request),
        unreachable: request.queues.length > 0 ? [] : cluster.silent,
      })),
      peekTasks: unary('peekTasks', (request: Parameters<FakeEngine['peek']>[0]) => engine.peek(request)),
      getTasks: unary('getTasks', (request: Parameters<FakeEngine['get']>[0]) => engine.get(request)),
      deleteQueue: unary('deleteQueue', ({ queue }: { queue: string }) => ({
        deletedTasks: engine.deleteQueue(queue),
      })),
      resetLeases: unary('resetLeases', ({ queue }: { queue: string }) => ({ resetTasks: engine.resetLeases(queue) })),
      putQueueSettings: unary('putQueueSettings', (request: Parameters<FakeSettings['put']>[0]) =>
        settings.put(request),
      ),
      deleteQueueSettings: unary('deleteQueueSettings', ({ queues }: { queues: string }) => ({
        deleted: settings.delete(queues),
      })),
      listQueueSettings: unary('listQueueSettings', ({ queue }: { queue: string }) => settings.list(queue)),
      putSchedule: unary('putSchedule', (request: Parameters<FakeSchedules['put']>[0]) => schedules.put(request)),
      listSchedules: unary('listSchedules', (request: Parameters<FakeSchedules['list']>[0]) => ({
        ...schedules.list(request),
        unreachable: cluster.silent,
      })),
      deleteSchedule: unary('deleteSchedule', ({ schedule }: { schedule: string }) => ({
        deleted: schedules.delete(schedule),
      })),
      pauseSchedule: unary('pauseSchedule', ({ schedule, paused }: { schedule: string; paused: boolean }) => ({
        schedule: schedules.pause(schedule, paused),
      })),
      triggerSchedule: unary('triggerSchedule', ({ schedule }: { schedule: string }) => schedules.trigger(schedule)),
      subscribe: unary('subscribe', (request: SubscribeRequest) => engine.topics.subscribe(request)),
      unsubscribe: unary('unsubscribe', (request: UnsubscribeRequest) => engine.unsubscribe(request)),
      listSubscriptions: unary('listSubscriptions', (request: ListSubscriptionsRequest) => engine.topics.list(request)),
      stream: (call: StreamCallHandle) => this.#serveStream(call),
    });
    this.#server.addService(ClusterServiceService, {
      listMembers: unary('listMembers', () => cluster.listMembers()),
      listPartitions: unary('listPartitions', () => cluster.listPartitions()),
      drainMember: unary('drainMember', ({ name }: { name: string }) => cluster.drainMember(name)),
      removeMember: unary('removeMember', (request: Parameters<FakeCluster['removeMember']>[0]) =>
        cluster.removeMember(request),
      ),
    });
    this.#server.addService(BackupServiceService, {
      backupPartition: (call: ServerWritableStream<BackupPartitionRequest, BackupPartitionResponse>) => {
        this.unaryCalls.push('backupPartition');
        this.#heed(call);
        void this.#guarded(call.request, () => engine.backup(call.request)).then(
          (parts) => {
            for (const part of parts) call.write(part);
            call.end();
          },
          (error: TaskMasterError) =>
            call.emit('error', { code: error.code, details: error.message, metadata: detailsOf(error) }),
        );
      },
    });
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, bound) => {
        this.#port = bound;
        if (error === null) resolve();
        else reject(error);
      });
    });
  }

  #serveStream(call: StreamCallHandle): void {
    this.streams++;
    this.#heed(call);
    this.#open.add(call);
    const waiting = new Map<number, AbortController>();
    const answer = (result: StreamResult): void => {
      waiting.delete(result.id);
      if (!call.destroyed) call.write({ results: [result] });
    };
    call.on('data', ({ calls }: StreamRequest) => {
      this.messages.push(calls.length);
      for (const { id, call: asked } of calls) {
        if (asked?.$case === 'cancel') {
          waiting.get(id)?.abort();
          continue;
        }
        const given = new AbortController();
        waiting.set(id, given);
        void this.#guarded(asked?.value, async (): Promise<StreamResult['result']> => {
          await this.hold;
          if (asked?.$case === 'update') return { $case: 'update', value: this.engine.update(asked.value) };
          if (asked?.$case === 'lease') {
            return { $case: 'lease', value: await this.engine.lease(asked.value, given.signal) };
          }
          if (asked?.$case === 'wait') {
            return { $case: 'wait', value: await this.engine.ends.wait(asked.value, given.signal) };
          }
          return undefined;
        }).then(
          (result) => answer({ id, result }),
          (error: TaskMasterError) => answer({ id, result: { $case: 'error', value: wireError(error) } }),
        );
      }
    });
    const gone = (): void => {
      this.#open.delete(call);
      for (const given of waiting.values()) given.abort();
    };
    call.on('end', () => call.end());
    call.on('close', gone);
    call.on('cancelled', gone);
    call.on('error', gone);
  }

  #heed({ metadata }: { readonly metadata: Metadata }): void {
    if (metadata.get('taskmaster-routed')[0] === '1') this.routed++;
    this.authorizations.push(...metadata.get('authorization').map(String));
  }

  async #guarded<Reply>(request: unknown, act: () => Reply | Promise<Reply>): Promise<Reply> {
    const { refusalOf } = this;
    const refusal = this.refusal ?? (refusalOf && queuesIn(request).map(refusalOf).find(Boolean));
    if (refusal !== undefined) throw refusal;
    try {
      return await act();
    } catch (thrown) {
      throw isTaskMasterError(thrown) ? thrown : asTaskMasterError(thrown);
    }
  }
}

/** The queues of a request of any kind. */
function queuesIn(request: unknown): readonly string[] {
  if (typeof request !== 'object' || request === null) return [];
  return Object.entries(request).flatMap(([name, value]) => {
    if (name === 'queue' && typeof value === 'string') return [value];
    if (!Array.isArray(value)) return [];
    return value.flatMap((item: unknown) => (name === 'queues' && typeof item === 'string' ? [item] : queuesIn(item)));
  });
}

/** An error as a node sends it: google.rpc.Status in the trailer. */
function detailsOf(error: TaskMasterError): Metadata {
  const metadata = new Metadata();
  const { reason, retryDelayMs, items } = wireError(error);
  const details = [
    {
      typeUrl: 'type.googleapis.com/google.rpc.ErrorInfo',
      value: ErrorInfo.encode({ reason, domain: ERROR_DOMAIN, metadata: { ...error.metadata } }).finish(),
    },
  ];
  if (retryDelayMs > 0) {
    const retryDelay = { seconds: Math.floor(retryDelayMs / 1000), nanos: (retryDelayMs % 1000) * 1e6 };
    details.push({
      typeUrl: 'type.googleapis.com/google.rpc.RetryInfo',
      value: RetryInfo.encode({ retryDelay }).finish(),
    });
  }
  if (items.length > 0) {
    details.push({
      typeUrl: 'type.googleapis.com/taskmaster.v1.UpdateRefused',
      value: UpdateRefused.encode({ items }).finish(),
    });
  }
  const encoded = Status.encode({ code: error.code, message: error.message, details }).finish();
  metadata.set('grpc-status-details-bin', Buffer.from(encoded));
  return metadata;
}
