import type { Http2Session, ServerOptions } from 'node:http2';
import type { Socket } from 'node:net';
import { promisify } from 'node:util';
import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServerInterceptingCall,
  type ServerInterceptor,
} from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import { methodKeys, methods, TaskMasterServiceService } from '@taskmaster/proto';
import type { Access } from '../access/access.ts';
import { auditCall } from '../calls/audited-calls.ts';
import type { CallObserver } from '../calls/call-observer.ts';
import type { IdentitySeal } from '../calls/identity-seal.ts';
import { Origins } from '../calls/origins.ts';
import type { RawService, UnaryHandler } from '../calls/raw-service.ts';
import { RevocableCalls } from '../calls/revocable-calls.ts';
import { WaitingCalls } from '../calls/waiting-calls.ts';
import { refusalOf } from '../calls/wire-errors.ts';
import { type Audit, noAudit } from '../ports/audit.ts';
import { rawMethod } from '../requests/codec.ts';
import type { Tls } from '../tls/tls.ts';
import { createAccessService } from './access-service.ts';
import { Connections } from './connections/connections.ts';
import { type CountConnection, countOpen } from './count-connection.ts';
import { HealthService } from './health.ts';
import { ReceiveWindows } from './receiving/receive-windows.ts';
import { countReceived } from './receiving/received-call.ts';
import { RECEIVE_BYTES, refuseWithReason } from './receiving/received-messages.ts';
import { ReceivingBytes, type ReceivingConnection } from './receiving/receiving-bytes.ts';
import { addReflection, isReflection } from './reflection.ts';
import {
  DEFAULT_STREAM_LIMITS,
  RequestStream,
  type RequestStreamDeps,
  type RequestStreamLimits,
} from './request-stream.ts';
import { EndlessCalls } from './server-streams/endless-calls.ts';
import { StreamingCalls, type StreamingService } from './server-streams/streaming-service.ts';
import { createUnaryService, type UnaryService } from './unary-service.ts';
import { UnreadReplies } from './unread-replies.ts';

const TASK_SERVICE = TaskMasterServiceService.updateTasks.path.split('/')[1] ?? '';

/** Default of `readTimeoutMs`. A client may have to store what it has read, for example at a slow store on another machine. */
const READ_TIMEOUT_MS = 5 * 60_000;

/** Connections that are kept for members. */
const FOR_MEMBERS = 32;

/** A message of the largest size, and the memory of its chunks. */
const COUNTED_RECEIVE_BYTES = RECEIVE_BYTES + 1024 * 1024;

const entryOf = <T>(all: Readonly<Record<string, T>>, name: string): readonly (readonly [string, T])[] => {
  const { [name]: found } = all;
  return found === undefined ? [] : [[name, found]];
};

const NO_BYTES = new Uint8Array(0);

/** The name of a method in its path. */
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

const DRAINING = new Refusal('SHUTTING_DOWN', 'the server is shutting down');

export interface GrpcServerOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** How often an idle connection is pinged, in ms. */
  readonly keepaliveTimeMs: number;
  /** A connection is closed if a ping is not answered for this long, in ms. */
  readonly keepaliveTimeoutMs: number;
  /** Approximate maximum age of a connection, in ms, so that clients spread over the servers again. 0: no limit. */
  readonly maxConnectionAgeMs: number;
  /** How long the calls of a connection of that age may still take, in ms. */
  readonly maxConnectionAgeGraceMs: number;
  /** Limit of the concurrent calls of one connection. Half of them may wait for tasks or news. A `Stream` call counts as one. */
  readonly maxConcurrentCallsPerConnection: number;
  /** Limit of the open connections. */
  readonly maxConnections: number;
  /** Limit of the open connections from one address. */
  readonly maxConnectionsPerAddress: number;
  /** Maximum size of unread replies of all connections, in bytes. A single connection may have a quarter of it. */
  readonly maxUnreadReplyBytes: number;
  /** Maximum memory of the queues that waiting calls name, in bytes. A single connection may have half of it. */
  readonly maxWaitingBytes: number;
  /** Maximum size of requests that are being received, in bytes. A single connection may have half of it. */
  readonly maxReceivingBytes: number;
  /** A request must be complete this long after its first byte, in ms. */
  readonly receiveTimeoutMs: number;
  readonly reflection: boolean;
  /** True: reflection needs a credential, if rules of access are configured. */
  readonly isReflectionGuarded?: boolean;
  readonly streamLimits?: RequestStreamLimits;
  /** If a client reads nothing of a streamed answer for this long, the call is refused, in ms. Default: five minutes. */
  readonly readTimeoutMs?: number;
}

export interface GrpcServerDeps {
  readonly service: RawService;
  /** Further services with unary methods. */
  readonly others?: readonly UnaryService[];
  /** Services with streamed answers. */
  readonly streaming?: readonly StreamingService[];
  /** The state that grpc.health.v1 reports. */
  readonly isServing: () => boolean;
  readonly observer: CallObserver;
  /** Undefined: the server speaks plain text. */
  readonly tls?: Tls | undefined;
  /** Whether members of the cluster have this address. They may open connections when others have reached the limit. */
  readonly isMember?: (address: string) => boolean;
  /** Default: none. */
  readonly audit?: Audit;
  readonly log: Log;
  /** The rules of access. Undefined: every caller may do everything. */
  readonly access?: Access | undefined;
  /** Reads the callers that other nodes and proxies name. Default: they prove nothing. */
  readonly identities?: IdentitySeal;
  /** The cluster of this program; see `WhoAmIResponse.cluster`. Default: unknown. */
  readonly cluster?: () => string;
}

/** The gRPC server of a node or a proxy. */
export class GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #deps: GrpcServerDeps;
  readonly #health: HealthService;
  readonly #unread: UnreadReplies;
  readonly #receiving: ReceivingBytes;
  readonly #waiting: WaitingCalls;
  #late: NodeJS.Timeout | undefined;
  readonly #endless: EndlessCalls;
  readonly #origins: Origins;
  readonly #revocable: RevocableCalls;
  readonly #streaming: StreamingCalls;
  /** The methods of the .proto with one reply, by name. Other ways in serve them, too. */
  readonly methods: Readonly<Record<string, UnaryHandler>>;
  /** Services with unary methods beside that of tasks. */
  readonly #others: readonly UnaryService[];
  readonly #server: Server;
  #windows: ReceiveWindows | undefined;
  readonly #connections: Connections;
  readonly #countConnection: CountConnection;
  /** Open streams, with the timers that end them. */
  readonly #streams = new Map<RequestStream, NodeJS.Timeout | undefined>();
  #inject: ((socket: Socket) => void) | undefined;
  #draining = false;
  #started: Promise<number> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: GrpcServerOptions, deps: GrpcServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#health = new HealthService(deps.isServing, deps.log);
    this.#unread = new UnreadReplies({
      totalBytes: options.maxUnreadReplyBytes,
      connectionBytes: Math.ceil(options.maxUnreadReplyBytes / 4),
      cut: (connection, bytes) => this.#cut(connection, bytes),
    });
    const totalBytes = Math.max(options.maxReceivingBytes, 2 * COUNTED_RECEIVE_BYTES);
    this.#receiving = new ReceivingBytes({
      totalBytes,
      connectionBytes: Math.ceil(totalBytes / 2),
      timeoutMs: options.receiveTimeoutMs,
    });
    const { host, port, maxConnections, maxConnectionsPerAddress } = options;
    this.#connections = new Connections(
      { host, port, most: maxConnections, mostPerAddress: maxConnectionsPerAddress, forMembers: FOR_MEMBERS },
      {
        log: deps.log,
        serve: (socket) => this.#inject?.(socket),
        isMember: deps.isMember ?? (() => false),
        tls: deps.tls,
        onClosed: (connection) => deps.access?.usages.disconnected(connection),
      },
    );
    this.#countConnection = countOpen(this.#connections);
    const { log, observer, access, identities: seal } = deps;
    this.#endless = new EndlessCalls((thrown) => refusalOf(thrown, log));
    this.#origins = new Origins({
      access,
      seal,
      certificateNames: (connection) => this.#connections.certificateNames(connection),
    });
    this.#revocable = new RevocableCalls(access);
    const { readTimeoutMs = READ_TIMEOUT_MS } = options;
    const { maxWaitingBytes } = options;
    this.#waiting = new WaitingCalls({
      totalBytes: maxWaitingBytes,
      connectionBytes: Math.ceil(maxWaitingBytes / 2),
      calls: Math.ceil(options.maxConcurrentCallsPerConnection / 2),
    });
    this.#streaming = new StreamingCalls({ ...this.#callDeps, log, observer, readTimeoutMs });
    this.#others = [createAccessService(deps.access, deps.cluster), ...(deps.others ?? [])];
    const all = Object.assign({}, deps.service.unary, ...this.#others.map(({ unary }) => unary));
    this.methods = Object.fromEntries(methodKeys.flatMap((key) => entryOf(all, methods[key].name)));
    this.#server = this.#createServer();
  }

  /** Number of open connections. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Number of connections that were refused because there were too many. */
  get refusedConnections(): number {
    return this.#connections.refused;
  }

  /** Number of TLS handshakes since the start. Undefined: the server speaks plain text. */
  get handshakes(): { readonly completed: number; readonly failed: number } | undefined {
    return this.#connections.handshakes;
  }

  /** The names in the certificate of the client of a connection, which is `host:port`. */
  certificateNames(connection: string): readonly string[] {
    return this.#connections.certificateNames(connection);
  }

  /** Size of the replies that peers have not read yet, in bytes. */
  get unreadReplyBytes(): number {
    return this.#unread.totalBytes;
  }

  /** Memory of the queues that waiting calls name, in bytes. */
  get waitingBytes(): number {
    return this.#waiting.bytes;
  }

  /** Size of the requests that are being received, in bytes. */
  get receivingBytes(): number {
    return this.#receiving.bytes;
  }

  /** Resolves with the port when calls are served. Rejects if the port cannot be used. */
  start(): Promise<number> {
    this.#started = this.#start();
    return this.#started;
  }

  async #start(): Promise<number> {
    const { injectConnection } = this.#server.createConnectionInjector(ServerCredentials.createInsecure());
    this.#inject = injectConnection;
    const port = await this.#connections.listen();
    this.#windows = new ReceiveWindows(TaskMasterServiceService.stream.path);
    this.#late = setInterval(() => this.#receiving.refuseLate(), this.#options.receiveTimeoutMs / 10).unref();
    this.#health.look();
    return port;
  }

  /** Call this before the node reports that it is ready, because a client may ask grpc.health.v1 next. */
  becameReady(): void {
    this.#health.look();
  }

  /** Reports NOT_SERVING, ends calls that only watch, and accepts no more connections. Calls of open connections continue. */
  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    this.#health.drain();
    this.#endless.end(DRAINING);
    this.#streaming.end(DRAINING);
    this.#connections.stopAccepting();
    for (const stream of this.#streams.keys()) stream.stop(DRAINING);
  }

  /** Finishes calls in flight for up to `graceMs`, then closes every connection. Waits for a start in progress. */
  stop(graceMs: number): Promise<void> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  async #stop(graceMs: number): Promise<void> {
    await this.#started?.catch(() => {});
    this.drain();
    // This sends a GOAWAY to every client. grpc-js does not wait for injected connections, so this code does.
    await promisify(this.#server.tryShutdown.bind(this.#server))();
    await this.#connections.closed(graceMs);
    this.#health[Symbol.dispose]();
    this.#revocable[Symbol.dispose]();
    this.#windows?.[Symbol.dispose]();
    clearInterval(this.#late);
  }

  #createServer(): Server {
    const options = this.#options;
    const server = new Server({
      'grpc.max_receive_message_length': RECEIVE_BYTES,
      'grpc.max_concurrent_streams': options.maxConcurrentCallsPerConnection,
      'grpc.keepalive_time_ms': options.keepaliveTimeMs,
      'grpc.keepalive_timeout_ms': options.keepaliveTimeoutMs,
      ...(options.maxConnectionAgeMs > 0 && {
        'grpc.max_connection_age_ms': options.maxConnectionAgeMs,
        'grpc.max_connection_age_grace_ms': options.maxConnectionAgeGraceMs,
      }),
      // The counters of channelz cost two clock readings for each message, and the node has its own metrics.
      'grpc.enable_channelz': 0,
      interceptors: [this.#intercept()],
    });
    raiseResetLimit(server);
    const deps = { ...this.#deps, ...this.#callDeps };
    const { unary } = this.#deps.service;
    const { definition, implementation } = createUnaryService({ name: TASK_SERVICE, unary }, deps);
    const stream = rawMethod(TaskMasterServiceService.stream.path, true);
    server.addService(
      { ...definition, Stream: stream },
      { ...implementation, Stream: () => {} }, // Never called: the interceptor serves these calls.
    );
    for (const other of this.#others) {
      const service = createUnaryService(other, deps);
      server.addService(service.definition, service.implementation);
    }
    for (const streaming of this.#deps.streaming ?? []) {
      const service = this.#streaming.serviceOf(streaming);
      server.addService(service.definition, service.implementation);
    }
    this.#health.addTo(server);
    if (options.reflection) addReflection(server);
    return server;
  }

  /** Passes calls of `Stream` to a `RequestStream`, which serves them below the streams of grpc-js. */
  #intercept(): ServerInterceptor {
    const { path } = TaskMasterServiceService.stream;
    const deps: RequestStreamDeps = {
      ...this.#deps,
      ...this.#callDeps,
      limits: this.#options.streamLimits ?? DEFAULT_STREAM_LIMITS,
      onOpen: (stream) => this.#opened(stream),
      onClose: (stream) => {
        clearTimeout(this.#streams.get(stream));
        this.#streams.delete(stream);
      },
    };
    const { observer } = this.#deps;
    const received = {
      receiving: this.#receiving,
      connections: new WeakMap<Http2Session, ReceivingConnection>(),
      observer,
    };
    // The declared type is a class with private fields, but any object with the methods of a call works.
    return (method, call) => {
      refuseWithReason(call);
      countReceived(call, nameOf(method.path), method.requestStream, received);
      if (method.path === path) return new RequestStream(call, deps);
      const isEndless = method.responseStream && !this.#streaming.serves(method.path);
      if (!isEndless) return call as ServerInterceptingCall;
      const isGuarded = this.#options.isReflectionGuarded === true && isReflection(method.path);
      return this.#endless.add(
        call,
        isGuarded ? (metadata) => this.#requireIdentity(method.path, metadata, call.getPeer()) : undefined,
      );
    };
  }

  async #requireIdentity(path: string, metadata: Metadata, peer: string): Promise<void> {
    const began = performance.now();
    const { access, address, forwarded } = await this.#origins.of(metadata, peer);
    try {
      access.requireIdentity();
    } catch (thrown) {
      const { log, observer, audit = noAudit } = this.#deps;
      const { reason } = refusalOf(thrown, log);
      const method = nameOf(path);
      observer.callEnded(method, reason, performance.now() - began);
      auditCall(audit, { method, request: NO_BYTES, address, forwarded, peer }, reason);
      throw thrown;
    }
  }

  get #callDeps() {
    const { audit = noAudit } = this.#deps;
    const calls = { unread: this.#unread, waiting: this.#waiting, countConnection: this.#countConnection };
    return { ...calls, audit, origins: this.#origins, revocable: this.#revocable };
  }

  #opened(stream: RequestStream): void {
    const { maxConnectionAgeMs } = this.#options;
    const aged = new Refusal('SHUTTING_DOWN', 'the stream has reached its maximum age: open another one');
    // grpc-js tells the client about the age of a connection, but a stream must end itself.
    const timer = maxConnectionAgeMs > 0 ? setTimeout(() => stream.stop(aged), maxConnectionAgeMs).unref() : undefined;
    this.#streams.set(stream, timer);
    if (this.#draining) stream.stop(DRAINING);
  }

  #cut(connection: string, bytes: number): void {
    this.#deps.log.warn({ connection, bytes }, 'connection closed: its peer does not read its replies');
    this.#connections.cut(connection);
  }
}

/**
 * Limits for cancelled calls of one connection. Cancelled calls cost the server more than the client. A connection beyond the
 * limit is closed with all its calls. The limits of Node.js, 1,000 at once and 33 each second, are too low for the workers of one
 * process or the clients behind one load balancer. With these limits, one connection can use a tenth of a processor.
 */
const RESETS_AT_ONCE = 10_000;
const RESETS_PER_SECOND = 1_000;

const limits: ServerOptions = {
  streamResetBurst: RESETS_AT_ONCE,
  streamResetRate: RESETS_PER_SECOND,
  // A cancelled call counts until the next turn of the event loop. Calls that replace it immediately may exceed the limit of
  // calls and are refused. After 100 of these in a row, Node.js would close the connection.
  maxSessionRejectedStreams: RESETS_AT_ONCE,
};

/** Raises the limits of a server. Call it before the first connection. grpc-js has no option for this. */
function raiseResetLimit(server: Server): void {
  const { commonServerOptions } = server as unknown as { readonly commonServerOptions?: ServerOptions };
  // If another release of grpc-js keeps its options elsewhere, the limits of Node.js apply, and a test fails.
  if (commonServerOptions !== undefined) Object.assign(commonServerOptions, limits);
}
