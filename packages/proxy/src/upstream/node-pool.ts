import {
  type ChannelCredentials,
  Client,
  type ClientDuplexStream,
  connectivityState,
  credentials,
  Metadata,
  type ServiceError,
  type StatusObject,
  status,
} from '@grpc/grpc-js';
import { TaskMasterServiceService, wireErrorOf } from '@taskmaster/proto';
import { CLUSTER_SERVICE, channelOptions } from '@taskmaster/server/grpc';
import { PEER_HEADER, ROUTED_HEADER } from '@taskmaster/server/service';
import {
  clusterMethods,
  LostError,
  RefusedError,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamListener,
  type UpstreamPipe,
} from './upstream.ts';

/** How a server is told how long a call may take: at most eight digits and a unit. */
const TIMEOUT_HEADER = 'grpc-timeout';
const MOST_TIMEOUT_MS = 99_999_999;
/** How long a connection may take to come up before a call over it counts as impossible, in ms. */
const CONNECT_MS = 1_000;
/** A channel that nobody used for so long is closed, in ms: nodes come and go. */
const IDLE_MS = 10 * 60 * 1000;

const asIs = (bytes: Buffer): Buffer => bytes;
const { path: anyPath } = TaskMasterServiceService.updateTasks;
const SERVICE_PATH = anyPath.slice(0, anyPath.lastIndexOf('/') + 1);
const ofCluster: ReadonlySet<string> = new Set(clusterMethods);
const pathOf = (method: UnaryMethod): string =>
  ofCluster.has(method) ? `/${CLUSTER_SERVICE}/${method}` : `${SERVICE_PATH}${method}`;

/**
 * Calls at once over one connection, a stream counting as one: what servers commonly allow. HTTP/2 keeps those beyond it
 * waiting, without a word, until others end, and streams do not end.
 */
const CALLS_PER_CHANNEL = 100;

interface Channel {
  readonly client: Client;
  calls: number;
  usedAt: number;
}

/** gRPC channels to nodes: one for each address, opened when the first call goes there, and more as they fill. */
export class NodePool implements Upstream, Disposable {
  readonly #credentials: ChannelCredentials;
  readonly #channels = new Map<string, Channel[]>();
  readonly #sweeper: NodeJS.Timeout;
  #closed = false;

  constructor(channelCredentials: ChannelCredentials = credentials.createInsecure()) {
    this.#credentials = channelCredentials;
    this.#sweeper = setInterval(() => this.#sweep(), IDLE_MS).unref();
  }

  async unary(
    address: string,
    method: UnaryMethod,
    request: Uint8Array,
    options: UpstreamCallOptions,
  ): Promise<Uint8Array> {
    const channel = this.#take(address);
    try {
      if (!isConnected(channel.client)) await connected(channel.client, address, options);
      if (options.signal?.aborted) throw new LostError('the call was given up', 'cancelled', false);
    } catch (thrown) {
      release(channel);
      throw thrown;
    }
    return call(channel.client, method, request, options, () => release(channel));
  }

  stream(address: string, { peer }: { readonly peer: string }, listener: UpstreamListener): UpstreamPipe {
    const channel = this.#take(address);
    return new GrpcPipe(channel.client, address, peer, listener, () => release(channel));
  }

  /** Whether the node at an address can be reached; connects to it if need be. */
  async isReachable(address: string): Promise<boolean> {
    const channel = this.#take(address);
    return connected(channel.client, address, {})
      .then(
        () => true,
        () => false,
      )
      .finally(() => release(channel));
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    clearInterval(this.#sweeper);
    for (const { client } of [...this.#channels.values()].flat()) client.close();
    this.#channels.clear();
  }

  /** A channel with room for one more call, which is to be released when the call is over. */
  #take(address: string): Channel {
    if (this.#closed) throw new LostError('the proxy is closed', 'cancelled', false);
    const channels = this.#channels.get(address) ?? [];
    this.#channels.set(address, channels);
    let channel = channels.find(({ calls }) => calls < CALLS_PER_CHANNEL);
    if (channel === undefined) {
      channel = { client: new Client(address, this.#credentials, channelOptions), calls: 0, usedAt: 0 };
      channels.push(channel);
    }
    channel.calls++;
    return channel;
  }

  #sweep(): void {
    for (const [address, channels] of this.#channels) {
      const isUsed = ({ calls, usedAt }: Channel): boolean => calls > 0 || performance.now() - usedAt < IDLE_MS;
      for (const channel of channels) if (!isUsed(channel)) channel.client.close();
      const used = channels.filter(isUsed);
      if (used.length > 0) this.#channels.set(address, used);
      else this.#channels.delete(address);
    }
  }
}

function release(channel: Channel): void {
  channel.calls--;
  channel.usedAt = performance.now();
}

function isConnected(client: Client): boolean {
  return client.getChannel().getConnectivityState(true) === connectivityState.READY;
}

/** Resolves once there is a connection; rejects with `LostError`: nothing was sent. */
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
      else if (signal?.aborted) reject(new LostError('the call was given up', 'cancelled', false));
      else if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN || late) {
        reject(new LostError(`no connection to ${address}`, 'connection', false));
      } else channel.watchConnectivityState(state, deadline, look);
    };
    look();
  });
}

/**
 * A call is not reset when nobody waits for its answer any more: a server closes a connection with many resets, and others'
 * calls travel over it. The node is told the deadline, and ends the call by itself. Only leases, which wait for long and
 * take tasks, are; they come this way where they are too large for a stream. `over` is called when the call has ended.
 */
function call(
  client: Client,
  method: UnaryMethod,
  request: Uint8Array,
  { signal, timeoutMs, peer }: UpstreamCallOptions,
  over: () => void,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const metadata = metadataFor(peer);
    // An option of gRPC for this would have it reset the call.
    if (timeoutMs !== undefined) metadata.set(TIMEOUT_HEADER, `${Math.min(Math.ceil(timeoutMs), MOST_TIMEOUT_MS)}m`);
    const onEnd = (error: ServiceError | null, reply?: Buffer): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      over();
      if (error !== null) reject(failureOf(error, signal?.aborted === true));
      else resolve(reply ?? Buffer.alloc(0));
    };
    const made = client.makeUnaryRequest(pathOf(method), asIs, asIs, asBuffer(request), metadata, onEnd);
    const onAbort = (): void => {
      // grpc-js tells the node of it only if that is not in the turn in which the call was made.
      if (method === 'LeaseTasks') setImmediate(() => made.cancel());
    };
    const onLate = (): void => {
      onAbort();
      reject(new LostError('no answer came in time', 'deadline', true));
    };
    const timer = timeoutMs === undefined ? undefined : setTimeout(onLate, Math.min(timeoutMs, MOST_TIMEOUT_MS));
    signal?.addEventListener('abort', onAbort);
  });
}

/** A stream that is opened once there is a connection, so that calls that could not be sent are known as such. */
class GrpcPipe implements UpstreamPipe {
  readonly #listener: UpstreamListener;
  readonly #release: () => void;
  #call: ClientDuplexStream<Buffer, Buffer> | undefined;
  #waiting: Uint8Array[] = [];
  #held = false;
  #over = false;

  constructor(client: Client, address: string, peer: string, listener: UpstreamListener, release: () => void) {
    this.#listener = listener;
    this.#release = release;
    connected(client, address, {}).then(
      () => this.#open(client, peer),
      (failure: unknown) =>
        this.#end(failure instanceof LostError ? failure : new LostError(String(failure), 'connection', false)),
    );
  }

  write(message: Uint8Array): boolean {
    if (this.#over) return true;
    if (this.#call !== undefined) return this.#call.write(asBuffer(message));
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

  #open(client: Client, peer: string): void {
    if (this.#over) return;
    const made = client.makeBidiStreamRequest(TaskMasterServiceService.stream.path, asIs, asIs, metadataFor(peer));
    this.#call = made;
    made.on('data', (message: Buffer) => {
      if (!this.#over) this.#listener.onMessage(message);
    });
    made.on('drain', () => this.#listener.onDrain());
    made.on('error', (error: Error & StatusObject) => this.#end(failureOf(error, false)));
    made.on('status', ({ code }: StatusObject) => {
      // However it ends, once.
      this.#release();
      if (code === status.OK) this.#end(new LostError('the node ended the stream', 'connection', true));
    });
    if (this.#held) made.pause();
    let mayGoOn = true;
    for (const message of this.#waiting) mayGoOn = made.write(asBuffer(message));
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

function metadataFor(peer: string): Metadata {
  const metadata = new Metadata();
  metadata.set(ROUTED_HEADER, '1');
  if (peer !== '') metadata.set(PEER_HEADER, peer);
  return metadata;
}

/** What the status of a failed call means. */
function failureOf(error: StatusObject & { readonly message?: string }, gaveUp: boolean): RefusedError | LostError {
  const refusal = wireErrorOf(error);
  if (refusal !== undefined) return new RefusedError(refusal);
  if (gaveUp) return new LostError('the call was given up', 'cancelled', true, error);
  const problem = error.details || error.message || 'the connection broke';
  switch (error.code) {
    case status.DEADLINE_EXCEEDED:
      return new LostError('no answer came in time', 'deadline', true, error);
    case status.UNIMPLEMENTED:
    case status.RESOURCE_EXHAUSTED:
      return new LostError(problem, 'broken', false, error);
    default:
      return new LostError(problem, 'connection', true, error);
  }
}

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
