import type { CallSignal } from '@taskmaster/engine/domain';
import {
  byMethodName,
  type CallPipe,
  type CallPipeListener,
  type ClusterMethodKey,
  type MethodName,
  methods,
  type StreamCase,
  type TaskMethodKey,
  taskMethodKeys,
  type Error as WireError,
} from '@taskmaster/proto';
import type { CallerAccess } from '@taskmaster/server/access';

/** The name of a method with one request and one answer. */
export type UnaryMethod = MethodName<TaskMethodKey | ClusterMethodKey>;

/** As what calls of a method go over a stream. Undefined: they do not. */
export const streamedAs: { readonly [M in UnaryMethod]?: StreamCase | undefined } = byMethodName(
  taskMethodKeys,
  (key) => methods[key].streamed,
);

/** Whether calls of this method wait at the node until they are answered or cancelled. */
export const isWaiting = (method: UnaryMethod): boolean => (streamedAs[method] ?? 'update') !== 'update';

/** The caller for whom a router calls nodes. */
export interface RoutedPeer {
  /** `host:port`. The node shows it as the address of the worker. Empty: calls of several callers. */
  readonly address: string;
  /** Name of the principal, as the node gets it. */
  readonly principal: string;
  /** Span of the caller. Undefined: it says none, or calls of several callers. */
  readonly traceparent?: string | undefined;
}

export interface UpstreamCallOptions {
  /** Cancels a lease or a wait, which rejects with `LostError`. A call of another kind that has begun continues. */
  readonly signal?: CallSignal | undefined;
  /** From now, in ms. A service of this process knows it and ends the call itself. */
  readonly timeoutMs?: number | undefined;
  readonly peer: RoutedPeer;
  /** The rights of the caller, which a service of this process checks again on the message that it applies. */
  readonly access: CallerAccess;
}

/** The two directions of a `Stream` call to a node. Messages are encoded. */
export interface UpstreamPipe extends CallPipe {
  /** Starts or stops holding messages back at the node. Messages on their way may still arrive. */
  hold(held: boolean): void;
}

export type UpstreamListener = CallPipeListener<RefusedError | LostError>;

/** Calls of a router for backups. Never retries. */
export interface BackupUpstream {
  /** Streams the messages of `BackupPartition`. `return` cancels the call. Rejects with `RefusedError` or `LostError`. */
  backupPartition(address: string, request: Uint8Array, options: UpstreamCallOptions): AsyncIterable<Uint8Array>;
}

/** Calls of a router to nodes: over gRPC channels, or over a simulated network. Never retries. */
export interface Upstream {
  /** True if calls to this address gain nothing from a stream. */
  isLocal?(address: string): boolean;
  /** Rejects with `RefusedError` or `LostError`. */
  unary(address: string, method: UnaryMethod, request: Uint8Array, options: UpstreamCallOptions): Promise<Uint8Array>;
  /** Opens a stream. Does not wait for the connection. */
  stream(address: string, options: { readonly peer: RoutedPeer }, listener: UpstreamListener): UpstreamPipe;
}

/** The node refused the call. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly error: WireError;

  constructor(error: WireError) {
    super(error.message);
    this.error = error;
  }
}

/** The call got no answer that can be used. */
export class LostError extends Error {
  override readonly name = 'LostError';
  readonly kind: LossKind;
  /** True if the node may have carried the call out. */
  readonly maybeApplied: boolean;

  constructor(message: string, kind: LossKind, maybeApplied: boolean, cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
    this.maybeApplied = maybeApplied;
  }
}

/**
 * `connection`: there is no connection, or it broke. `deadline`: no answer came in time. `cancelled`: the caller cancelled.
 * `broken`: the answer cannot be read.
 */
export type LossKind = 'connection' | 'deadline' | 'cancelled' | 'broken';
