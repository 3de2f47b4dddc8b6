import {
  type Client,
  type ClientDuplexStream,
  connectivityState,
  Metadata,
  type ServiceError,
  type StatusObject,
  status,
} from '@grpc/grpc-js';
import {
  byMethodName,
  connectionProblem,
  methodKeys,
  methods,
  TaskMasterServiceService,
  wireErrorOf,
} from '@taskmaster/proto';
import { IDENTITY_HEADER, IdentitySeal, type Receiver, ROUTED_HEADER } from '@taskmaster/server/calls';
import { type Channel, ChannelPool, type ChannelSecurity, plainChannels } from '@taskmaster/server/grpc';
import {
  type BackupUpstream,
  isWaiting,
  LostError,
  RefusedError,
  type RoutedPeer,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamListener,
  type UpstreamPipe,
} from './upstream.ts';

/** Header with the timeout of a call: at most eight digits and a unit. */
const TIMEOUT_HEADER = 'grpc-timeout';
const MOST_TIMEOUT_MS = 99_999_999;
/** Timeout for opening a connection, in ms. */
const CONNECT_MS = 1_000;

const asIs = (bytes: Buffer): Buffer => bytes;
const paths = byMethodName(methodKeys, (key) => methods[key].path);

/** What belongs to a channel. */
interface OfChannel {
  /** The node at the other end, if it has sent a challenge over this connection. */
  receiver: Receiver | undefined;
}

interface NodePoolOptions {
  readonly security?: ChannelSecurity | undefined;
  readonly seal?: IdentitySeal | undefined;
}

/** Calls to nodes over gRPC. */
export class NodePool implements Upstream, BackupUpstream, Disposable {
  readonly #seal: IdentitySeal;
  readonly #channels: ChannelPool<OfChannel>;
  #closed = false;

  /** `security`: default plain text. `seal`: seals the callers that nodes are told. Default: nothing proves them. */
  constructor({ security = plainChannels, seal = new IdentitySeal([]) }: NodePoolOptions = {}) {
    this.#seal = seal;
    this.#channels = new ChannelPool(security, () => ({ receiver: undefined }));
  }

  async unary(
    address: string,
    method: UnaryMethod,
    request: Uint8Array,
    options: UpstreamCallOptions,
  ): Promise<Uint8Array> {
    const began = performance.now();
    try {
      return await this.#unary(address, method, request, options);
    } catch (thrown) {
      if (!isSkewed(thrown)) throw thrown;
      // The node has changed nothing, and its challenge is known now.
      const { timeoutMs } = options;
      const leftMs = timeoutMs === undefined ? undefined : Math.max(0, timeoutMs - (performance.now() - began));
      return await this.#unary(address, method, request, { ...options, timeoutMs: leftMs });
    }
  }

  async #unary(
    address: string,
    method: UnaryMethod,
    request: Uint8Array,
    options: UpstreamCallOptions,
  ): Promise<Uint8Array> {
    const channel = this.#take(address);
    try {
      await this.#connect(channel, address, options);
      if (options.signal?.aborted) throw new LostError('the call was cancelled', 'cancelled', false);
    } catch (thrown) {
      this.#channels.release(channel);
      throw thrown;
    }
    const metadata = this.#metadataFor(options.peer, channel);
    const over = (failure?: RefusedError | LostError): void => {
      this.#channels.release(channel);
      if (failure !== undefined) this.#learn(channel, failure);
    };
    return call(channel.client, method, request, options, metadata, over);
  }

  stream(address: string, { peer }: { readonly peer: RoutedPeer }, listener: UpstreamListener): UpstreamPipe {
    const channel = this.#take(address);
    return new GrpcPipe(
      channel.client,
      this.#connect(channel, address, {}),
      () => this.#metadataFor(peer, channel),
      listener,
      (failure) => {
        this.#channels.release(channel);
        if (failure !== undefined) this.#learn(channel, failure);
      },
    );
  }

  /** Backups have their own connections: they are large, and cancelling one resets a call. */
  async *backupPartition(
    address: string,
    request: Uint8Array,
    options: UpstreamCallOptions,
  ): AsyncGenerator<Uint8Array, undefined> {
    const channel = this.#take(address, 'backups');
    try {
      await this.#connect(channel, address, options);
      if (options.signal?.aborted) throw new LostError('the call was cancelled', 'cancelled', false);
      yield* backup(channel.client, request, options, this.#metadataFor(options.peer, channel));
    } catch (thrown) {
      this.#learn(channel, thrown);
      throw thrown;
    } finally {
      this.#channels.release(channel);
    }
  }

  /** Resolves with true if the node at an address can be reached. Opens a connection if there is none. */
  async isReachable(address: string): Promise<boolean> {
    const channel = this.#take(address);
    return connected(channel.client, address, {})
      .then(
        () => true,
        () => false,
      )
      .finally(() => this.#channels.release(channel));
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    this.#channels[Symbol.dispose]();
  }

  #take(address: string, use?: string): Channel<OfChannel> {
    if (this.#closed) throw new LostError('the proxy is closed', 'cancelled', false);
    return this.#channels.take(address, use);
  }

  /** Resolves when there is a connection. Rejects with `LostError`; nothing was sent then. */
  async #connect({ client, own }: Channel<OfChannel>, address: string, options: Partial<UpstreamCallOptions>) {
    if (isConnected(client)) return;
    // Another process may answer now.
    own.receiver = undefined;
    await connected(client, address, options);
  }

  #metadataFor({ address, principal, traceparent }: RoutedPeer, { own: { receiver } }: Channel<OfChannel>): Metadata {
    const metadata = new Metadata();
    metadata.set(ROUTED_HEADER, '1');
    if (traceparent !== undefined) metadata.set('traceparent', traceparent);
    if (address === '' && principal === '') return metadata;
    metadata.set(IDENTITY_HEADER, this.#seal.write({ address, principal }, receiver));
    return metadata;
  }

  /** Takes over the challenge of a node that finds the header of a call out of time. */
  #learn({ own }: Channel<OfChannel>, failure: unknown): void {
    if (!(failure instanceof RefusedError)) return;
    const { reason, metadata } = failure.error;
    // An earlier release does not know headers for a run. It may run at this address now.
    if (reason === 'UNAUTHENTICATED') own.receiver = undefined;
    if (reason === 'CLOCK_SKEW') own.receiver = this.#seal.receiverOf(metadata.challenge ?? '');
  }
}

const isSkewed = (thrown: unknown): boolean => thrown instanceof RefusedError && thrown.error.reason === 'CLOCK_SKEW';

function isConnected(client: Client): boolean {
  return client.getChannel().getConnectivityState(true) === connectivityState.READY;
}

/** Resolves when there is a connection. Rejects with `LostError`; nothing was sent then. */
function connected(
  client: Client,
  address: string,
  { signal, timeoutMs }: Partial<UpstreamCallOptions>,
): Promise<void> {
  const channel = client.getChannel();
  const deadline = Date.now() + Math.min(CONNECT_MS, timeoutMs ?? CONNECT_MS);
  return new Promise((resolve, reject) => {
    const look = (late?: Error): void => {
      const state = channel.getConnectivityState(true);
      if (state === connectivityState.READY) resolve();
      else if (signal?.aborted) reject(new LostError('the call was cancelled', 'cancelled', false));
      else if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN || late) {
        reject(new LostError(`no connection to ${address}`, 'connection', false));
      } else channel.watchConnectivityState(state, deadline, look);
    };
    look();
  });
}

/**
 * Makes one call. A call whose caller no longer waits is not reset: a server closes a connection with many resets, and calls of
 * other callers use it. The node knows the deadline and ends the call itself. Only leases are reset, because they wait for long
 * and take tasks. A lease comes this way only if it is too large for a stream. `over` is called when the call has ended.
 */
function call(
  client: Client,
  method: UnaryMethod,
  request: Uint8Array,
  { signal, timeoutMs }: UpstreamCallOptions,
  metadata: Metadata,
  over: (failure?: RefusedError | LostError) => void,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    // The deadline option of grpc-js would reset the call.
    if (timeoutMs !== undefined) metadata.set(TIMEOUT_HEADER, `${Math.min(Math.ceil(timeoutMs), MOST_TIMEOUT_MS)}m`);
    const onEnd = (error: ServiceError | null, reply?: Buffer): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      const failure = error === null ? undefined : failureOf(error, signal?.aborted === true);
      over(failure);
      if (failure === undefined) resolve(reply ?? Buffer.alloc(0));
      else reject(failure);
    };
    const made = client.makeUnaryRequest(paths[method], asIs, asIs, asBuffer(request), metadata, onEnd);
    const onAbort = (): void => {
      // grpc-js tells the node only if it is not cancelled in the turn in which it was made.
      if (isWaiting(method)) setImmediate(() => made.cancel());
    };
    const onLate = (): void => {
      onAbort();
      reject(new LostError('no answer came in time', 'deadline', true));
    };
    const timer = timeoutMs === undefined ? undefined : setTimeout(onLate, Math.min(timeoutMs, MOST_TIMEOUT_MS));
    signal?.addEventListener('abort', onAbort);
  });
}

async function* backup(
  client: Client,
  request: Uint8Array,
  { signal }: UpstreamCallOptions,
  metadata: Metadata,
): AsyncGenerator<Uint8Array, undefined> {
  const { path } = methods.backupPartition;
  const made = client.makeServerStreamRequest(path, asIs, asIs, asBuffer(request), metadata);
  // grpc-js tells the node only if it is not cancelled in the turn in which it was made.
  const onAbort = (): void => void setImmediate(() => made.cancel());
  signal?.addEventListener('abort', onAbort);
  try {
    yield* made;
  } catch (error) {
    throw failureOf(error as ServiceError, signal?.aborted === true);
  } finally {
    signal?.removeEventListener('abort', onAbort);
    // This has no effect on a call that is over.
    made.cancel();
  }
}

/** A stream that opens when there is a connection. So it is known which calls were not sent. */
class GrpcPipe implements UpstreamPipe {
  readonly #listener: UpstreamListener;
  readonly #release: (failure?: RefusedError | LostError) => void;
  #call: ClientDuplexStream<Buffer, Buffer> | undefined;
  #waiting: Buffer[] = [];
  #held = false;
  #over = false;

  constructor(
    client: Client,
    connecting: Promise<void>,
    metadata: () => Metadata,
    listener: UpstreamListener,
    release: (failure?: RefusedError | LostError) => void,
  ) {
    this.#listener = listener;
    this.#release = release;
    connecting.then(
      () => this.#open(client, metadata()),
      (failure: unknown) =>
        this.#end(failure instanceof LostError ? failure : new LostError(String(failure), 'connection', false)),
    );
  }

  write(message: Buffer): boolean {
    if (this.#over) return true;
    if (this.#call !== undefined) return this.#call.write(message);
    this.#waiting.push(message);
    return false;
  }

  hold(held: boolean): void {
    this.#held = held;
    if (held) this.#call?.pause();
    else this.#call?.resume();
  }

  end(): void {
    this.#close((call) => call.end());
  }

  abort(): void {
    this.#close((call) => call.cancel());
  }

  #close(by: (call: ClientDuplexStream<Buffer, Buffer>) => void): void {
    if (this.#over) return;
    this.#over = true;
    if (this.#call === undefined) this.#release();
    else by(this.#call);
  }

  #open(client: Client, metadata: Metadata): void {
    if (this.#over) return;
    const made = client.makeBidiStreamRequest(TaskMasterServiceService.stream.path, asIs, asIs, metadata);
    this.#call = made;
    made.on('data', (message: Buffer) => {
      if (!this.#over) this.#listener.onMessage(message);
    });
    made.on('drain', () => this.#listener.onDrain());
    // It is handled below.
    made.on('error', () => {});
    made.on('status', (ended: StatusObject) => {
      // The status comes exactly once, at every end of the stream.
      const failure =
        ended.code === status.OK
          ? new LostError('the node ended the stream', 'connection', true)
          : failureOf(ended, false);
      this.#release(failure);
      this.#end(failure);
    });
    if (this.#held) made.pause();
    let mayGoOn = true;
    for (const message of this.#waiting) mayGoOn = made.write(message);
    this.#waiting = [];
    if (mayGoOn) this.#listener.onDrain();
  }

  #end(failure: RefusedError | LostError): void {
    if (this.#over) return;
    this.#over = true;
    if (this.#call === undefined) this.#release();
    this.#listener.onEnd(failure);
  }
}

/** Translates the status of a failed call. */
function failureOf(error: StatusObject & { readonly message?: string }, gaveUp: boolean): RefusedError | LostError {
  const refusal = wireErrorOf(error);
  if (refusal !== undefined) return new RefusedError(refusal);
  if (gaveUp) return new LostError('the call was cancelled', 'cancelled', true, error);
  const problem = connectionProblem(error.details) || error.message || 'the connection broke';
  switch (error.code) {
    case status.DEADLINE_EXCEEDED:
      return new LostError('no answer came in time', 'deadline', true, error);
    case status.UNIMPLEMENTED:
      return new LostError(problem, 'broken', false, error);
    case status.RESOURCE_EXHAUSTED:
      // A node says with a reason that a request is too long. Without one, the answer is too long for this program.
      return new LostError(problem, 'broken', true, error);
    default:
      return new LostError(problem, 'connection', true, error);
  }
}

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
