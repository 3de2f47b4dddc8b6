import type { Error as WireError } from '@taskmaster/proto';
import type { CallSignal } from '@taskmaster/server/domain';

/** Methods of one request and one answer. */
export type UnaryMethod =
  | 'UpdateTasks'
  | 'LeaseTasks'
  | 'BatchUpdateTasks'
  | 'BatchLeaseTasks'
  | 'ListQueues'
  | 'GetQueueStats'
  | 'PeekTasks'
  | 'GetTasks'
  | 'DeleteQueue'
  | 'ResetLeases'
  | ClusterMethod;

/** Methods of the ClusterService. */
export type ClusterMethod = (typeof clusterMethods)[number];

export const clusterMethods = ['ListMembers', 'ListPartitions', 'DrainMember', 'RemoveMember'] as const;

export interface UpstreamCallOptions {
  /** Gives a lease up: it rejects with `LostError`. Of other calls nothing is changed, where they are under way. */
  readonly signal?: CallSignal | undefined;
  /** From now, in ms. */
  readonly timeoutMs?: number | undefined;
  /** Whoever asks, `host:port`: what the node shows of a worker. */
  readonly peer: string;
}

/** The two directions of a `Stream` call to a node. Messages are encoded. */
export interface UpstreamPipe {
  /** False: wait for `onDrain` before the next message. */
  write(message: Uint8Array): boolean;
  /** Whether messages are to be held back at the node; some that were on their way may still come. */
  hold(held: boolean): void;
  /** Nothing more is written, and everything is answered: the node ends the stream. Nothing is heard of it any more. */
  end(): void;
  /** Ends the stream at once, and with it what the node still does; nothing is heard of it any more. */
  abort(): void;
}

export interface UpstreamListener {
  onMessage(message: Uint8Array): void;
  onDrain(): void;
  /** Called once, when the stream is over and this side did not close it. */
  onEnd(error: RefusedError | LostError): void;
}

/** How calls reach nodes: channels in a real process, a simulated network in a simulation. Never retries. */
export interface Upstream {
  /** Whether the address is this process's own: its calls need no stream. */
  isLocal?(address: string): boolean;
  /** Rejects with `RefusedError` or `LostError`. */
  unary(address: string, method: UnaryMethod, request: Uint8Array, options: UpstreamCallOptions): Promise<Uint8Array>;
  /** Opens a stream; does not wait for it. */
  stream(address: string, options: { readonly peer: string }, listener: UpstreamListener): UpstreamPipe;
}

/** The node answered: no, and why. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly error: WireError;

  constructor(error: WireError) {
    super(error.message);
    this.error = error;
  }
}

/** No answer came. */
export class LostError extends Error {
  override readonly name = 'LostError';
  readonly kind: LossKind;
  /** Whether the node may have carried the call out. */
  readonly maybeApplied: boolean;

  constructor(message: string, kind: LossKind, maybeApplied: boolean, cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
    this.maybeApplied = maybeApplied;
  }
}

/** There is no connection, or it broke; the caller's time is over; the caller gave up; the answer cannot be understood. */
export type LossKind = 'connection' | 'deadline' | 'cancelled' | 'broken';
