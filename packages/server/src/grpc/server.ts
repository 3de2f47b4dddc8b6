import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { Server, ServerCredentials, type ServerInterceptingCall, type ServerInterceptor } from '@grpc/grpc-js';
import { TaskMasterServiceService } from '@taskmaster/proto';
import { Refusal } from '../domain/refusal.ts';
import type { Log } from '../ports/log.ts';
import type { CallObserver } from '../service/call-observer.ts';
import { rawMethod } from '../service/parse/codec.ts';
import type { RawService } from '../service/raw-service.ts';
import { EndlessCalls } from './endless-calls.ts';
import { HealthService } from './health/health.ts';
import { ReceiveWindows } from './receive-windows.ts';
import { RECEIVE_BYTES, refuseWithReason } from './received-messages.ts';
import { createReflection } from './reflection.ts';
import {
  DEFAULT_STREAM_LIMITS,
  RequestStream,
  type RequestStreamDeps,
  type RequestStreamLimits,
} from './request-stream.ts';
import { raiseResetLimit } from './reset-limit.ts';
import { createUnaryService, type UnaryService } from './unary-service.ts';
import { UnreadReplies } from './unread-replies.ts';
import { WaitingCalls } from './waiting-calls.ts';

const TASK_SERVICE = TaskMasterServiceService.updateTasks.path.split('/')[1] ?? '';

const DRAINING = new Refusal('SHUTTING_DOWN', 'the server is shutting down');

export interface GrpcServerOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** Idle connections are pinged this often, in ms. */
  readonly keepaliveTimeMs: number;
  /** A connection that leaves a ping unanswered for so long is closed, in ms. */
  readonly keepaliveTimeoutMs: number;
  /** Connections end after about so long, so that clients spread anew, in ms; 0: never. */
  readonly maxConnectionAgeMs: number;
  /** What such a connection has in flight may still take so long, in ms. */
  readonly maxConnectionAgeGraceMs: number;
  /** Calls at once on one connection, half of which may wait for tasks; a `Stream` call counts as one. */
  readonly maxCallsPerConnection: number;
  /** Replies kept for peers that do not read, over all connections, in bytes; a single one may have a quarter. */
  readonly maxUnreadReplyBytes: number;
  readonly reflection: boolean;
  readonly streamLimits?: RequestStreamLimits;
}

export interface GrpcServerDeps {
  readonly service: RawService;
  /** Served beside it. */
  readonly others?: readonly UnaryService[];
  /** What grpc.health.v1 says. */
  readonly isServing: () => boolean;
  readonly observer: CallObserver;
  readonly log: Log;
}

/** The gRPC face of a node or a proxy. */
export class GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #deps: GrpcServerDeps;
  readonly #health: HealthService;
  readonly #unread: UnreadReplies;
  readonly #endless = new EndlessCalls();
  readonly #server: Server;
  #windows: ReceiveWindows | undefined;
  readonly #sockets = new Map<string, Socket>();
  /** Resolves when the last connection of a draining server closes. */
  readonly #allClosed = Promise.withResolvers<void>();
  /** With the timers that end them. */
  readonly #streams = new Map<RequestStream, NodeJS.Timeout | undefined>();
  readonly #listener = createServer({ noDelay: true }, (socket) => this.#accept(socket));
  #inject: ((socket: Socket) => void) | undefined;
  #draining = false;
  #stopped: Promise<void> | undefined;

  constructor(options: GrpcServerOptions, deps: GrpcServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#health = new HealthService(deps.isServing);
    this.#unread = new UnreadReplies({
      totalBytes: options.maxUnreadReplyBytes,
      connectionBytes: Math.ceil(options.maxUnreadReplyBytes / 4),
      cut: (connection, bytes) => this.#cut(connection, bytes),
    });
    this.#server = this.#createServer();
  }

  /** Connections open now. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** Bytes of replies that peers have not read yet. */
  get unreadReplyBytes(): number {
    return this.#unread.totalBytes;
  }

  /** Resolves with the port once calls are served; rejects when it cannot be had. */
  async start(): Promise<number> {
    const { host, port } = this.#options;
    const { injectConnection } = this.#server.createConnectionInjector(ServerCredentials.createInsecure());
    this.#inject = injectConnection;
    this.#listener.listen({ host, port });
    await once(this.#listener, 'listening');
    this.#windows = new ReceiveWindows(TaskMasterServiceService.stream.path);
    this.#health.look();
    return (this.#listener.address() as AddressInfo).port;
  }

  /** To be called when the node becomes ready: whoever is told so may ask grpc.health.v1 next. */
  becameReady(): void {
    this.#health.look();
  }

  /** Says NOT_SERVING, ends what only watches, and takes no more connections; calls on existing ones go on. */
  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    this.#health.drain();
    this.#endless.end(DRAINING);
    this.#listener.close();
    for (const stream of this.#streams.keys()) stream.stop(DRAINING);
  }

  /** Lets what is in flight finish for at most so long, then closes every connection. */
  stop(graceMs: number): Promise<void> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  async #stop(graceMs: number): Promise<void> {
    this.drain();
    // Tells every client with a GOAWAY. grpc-js does not wait for connections that were handed to it, so we do.
    await promisify(this.#server.tryShutdown.bind(this.#server))();
    const force = setTimeout(() => {
      for (const socket of this.#sockets.values()) socket.destroy();
    }, graceMs);
    if (this.#sockets.size > 0) await this.#allClosed.promise;
    clearTimeout(force);
    this.#health[Symbol.dispose]();
    this.#windows?.[Symbol.dispose]();
  }

  #createServer(): Server {
    const options = this.#options;
    const server = new Server({
      'grpc.max_receive_message_length': RECEIVE_BYTES,
      'grpc.max_concurrent_streams': options.maxCallsPerConnection,
      'grpc.keepalive_time_ms': options.keepaliveTimeMs,
      'grpc.keepalive_timeout_ms': options.keepaliveTimeoutMs,
      ...(options.maxConnectionAgeMs > 0 && {
        'grpc.max_connection_age_ms': options.maxConnectionAgeMs,
        'grpc.max_connection_age_grace_ms': options.maxConnectionAgeGraceMs,
      }),
      // Its counters cost two clock readings a message and nobody looks at them: the node has metrics of its own.
      'grpc.enable_channelz': 0,
      interceptors: [this.#intercept()],
    });
    raiseResetLimit(server);
    const waiting = new WaitingCalls(Math.ceil(options.maxCallsPerConnection / 2));
    const deps = { ...this.#deps, unread: this.#unread, waiting };
    const { unary } = this.#deps.service;
    const { definition, implementation } = createUnaryService({ name: TASK_SERVICE, unary }, deps);
    const stream = rawMethod(TaskMasterServiceService.stream.path, true);
    server.addService(
      { ...definition, Stream: stream },
      { ...implementation, Stream: () => {} }, // Never called: the interceptor takes these calls over.
    );
    for (const other of this.#deps.others ?? []) {
      const service = createUnaryService(other, deps);
      server.addService(service.definition, service.implementation);
    }
    this.#health.addTo(server);
    if (options.reflection) createReflection().addToServer(server);
    return server;
  }

  /** Hands calls of `Stream` to a `RequestStream`, which serves them below grpc-js's own streams. */
  #intercept(): ServerInterceptor {
    const { path } = TaskMasterServiceService.stream;
    const deps: RequestStreamDeps = {
      ...this.#deps,
      unread: this.#unread,
      limits: this.#options.streamLimits ?? DEFAULT_STREAM_LIMITS,
      onOpen: (stream) => this.#opened(stream),
      onClose: (stream) => {
        clearTimeout(this.#streams.get(stream));
        this.#streams.delete(stream);
      },
    };
    // The declared type wants a class with private fields, but whatever has the methods of a call will do.
    return (method, call) => {
      refuseWithReason(call);
      if (method.path === path) return new RequestStream(call, deps);
      return method.responseStream ? this.#endless.add(call) : (call as ServerInterceptingCall);
    };
  }

  #opened(stream: RequestStream): void {
    const { maxConnectionAgeMs } = this.#options;
    const aged = new Refusal('SHUTTING_DOWN', 'the stream has reached its greatest age: open another one');
    // grpc-js tells the client that a connection has aged, but a stream has to end by itself.
    const timer = maxConnectionAgeMs > 0 ? setTimeout(() => stream.stop(aged), maxConnectionAgeMs).unref() : undefined;
    this.#streams.set(stream, timer);
    if (this.#draining) stream.stop(DRAINING);
  }

  #accept(socket: Socket): void {
    // As grpc-js names the peer of a call.
    const connection = `${socket.remoteAddress}:${socket.remotePort}`;
    this.#sockets.set(connection, socket);
    socket.once('close', () => {
      this.#sockets.delete(connection);
      if (this.#draining && this.#sockets.size === 0) this.#allClosed.resolve();
    });
    socket.on('error', (err) => this.#deps.log.debug({ err, connection }, 'connection broke'));
    this.#inject?.(socket);
  }

  #cut(connection: string, bytes: number): void {
    this.#deps.log.warn({ connection, bytes }, 'connection closed: its peer does not read its replies');
    this.#sockets.get(connection)?.destroy();
  }
}
