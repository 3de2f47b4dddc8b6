import { type CallOptions, type ChannelOptions, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import {
  type Dequeue,
  type Enqueue,
  EnqueueMode,
  ErrorInfo,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  type QueueStats,
  Status,
  TaskMasterServiceClient,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
} from '@taskmaster/proto';

const NO_BYTES = new Uint8Array(0);

export const anEnqueue = (change: Partial<Enqueue> = {}): Enqueue => ({
  queue: 'jobs',
  pid: NO_BYTES,
  data: NO_BYTES,
  mode: EnqueueMode.ENQUEUE_MODE_UNSPECIFIED,
  delayMs: 0,
  runAtUnixMs: 0,
  retry: undefined,
  headers: {},
  key: '',
  timeLimitMs: 0,
  limitKey: '',
  topic: '',
  ...change,
});

export const aDequeue = (change: Partial<Dequeue> = {}): Dequeue => ({
  queue: 'jobs',
  pid: NO_BYTES,
  leaseToken: 0,
  requeue: false,
  ...change,
});

export const anUpdate = (change: Partial<UpdateTasksRequest> = {}): UpdateTasksRequest => ({
  enqueue: [],
  dequeue: [],
  renew: [],
  release: [],
  requestId: NO_BYTES,
  parts: [],
  ...change,
});

export const aLease = (change: Partial<LeaseTasksRequest> = {}): LeaseTasksRequest => ({
  queues: ['jobs'],
  maxTasks: 1,
  leaseDurationMs: 30_000,
  maxPid: NO_BYTES,
  waitMs: 0,
  workerLabel: '',
  maxBytes: 0,
  anyOrder: false,
  patterns: [],
  maxMoreQueues: 0,
  ...change,
});

type Call<Reply> = (done: (error: ServiceError | null, reply: Reply) => void) => { cancel(): void };

/**
 * The generated client: one attempt for each call, with the errors of gRPC. For tests of the protocol; other tests use the
 * client library.
 */
export class WireClient implements Disposable {
  readonly raw: TaskMasterServiceClient;

  constructor(endpoint: string, options: ChannelOptions = {}) {
    this.raw = new TaskMasterServiceClient(endpoint, credentials.createInsecure(), {
      // Its own connection, not one that clients of this process share.
      'grpc.use_local_subchannel_pool': 1,
      // Requests that exceed the limits must reach the node.
      'grpc.max_send_message_length': -1,
      ...options,
    });
  }

  update(change: Partial<UpdateTasksRequest>, options: Partial<CallOptions> = {}): Promise<UpdateTasksResponse> {
    return reply((done) => this.raw.updateTasks(anUpdate(change), new Metadata(), options, done));
  }

  lease(
    change: Partial<LeaseTasksRequest>,
    { signal, ...options }: Partial<CallOptions> & { readonly signal?: AbortSignal } = {},
  ): Promise<LeaseTasksResponse> {
    return reply((done) => this.raw.leaseTasks(aLease(change), new Metadata(), options, done), signal);
  }

  async stats(queue: string): Promise<QueueStats> {
    const { queues } = await reply<{ queues: QueueStats[] }>((done) =>
      this.raw.getQueueStats({ queues: [queue], filter: undefined }, done),
    );
    const [stats] = queues;
    if (stats === undefined) throw new Error(`no statistics of ${queue}`);
    return stats;
  }

  [Symbol.dispose](): void {
    this.raw.close();
  }
}

function reply<Reply>(call: Call<Reply>, signal?: AbortSignal): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const { cancel } = bound(call((error, value) => (error === null ? resolve(value) : reject(error))));
    signal?.addEventListener('abort', cancel, { once: true });
  });
}

const bound = (call: { cancel(): void }) => ({ cancel: () => call.cancel() });

/** The parts of a refusal that programs use. */
export interface RefusedError {
  /** gRPC status code. */
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The refusal of a call. Throws if the call succeeded, or if the error does not come from the node. */
export async function refusalOf(call: Promise<unknown>): Promise<RefusedError> {
  const error = await call.then(
    () => undefined,
    (thrown: ServiceError) => thrown,
  );
  if (error === undefined) throw new Error('the call was not refused');
  const [encoded] = error.metadata?.get('grpc-status-details-bin') ?? [];
  if (!(encoded instanceof Uint8Array)) throw new Error('the call failed without details', { cause: error });
  const info = Status.decode(encoded).details.find(({ typeUrl }) => typeUrl.endsWith('google.rpc.ErrorInfo'));
  const { reason, metadata } = ErrorInfo.decode(info?.value ?? NO_BYTES);
  return { code: error.code, reason, message: error.details, metadata };
}
