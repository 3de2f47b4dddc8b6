import { type ChannelCredentials, type ChannelOptions, connectivityState, Metadata, status } from '@grpc/grpc-js';
import { isReason, TaskMasterServiceClient } from '@taskmaster/proto';
import { isOfGroup, makeError, NOT_HOLDER, type TaskMasterError } from '../values/errors.ts';
import { backoffBound } from '../values/retry.ts';
import { messageOf } from '../values/thrown.ts';
import type { Bearer } from './credentials/bearer.ts';
import { openStreamPipe } from './grpc-stream-pipe.ts';
import { RequestStream } from './request-stream.ts';
import type { CancelTimer, Timing } from './timing.ts';
import { errorFromService } from './wire-errors.ts';

export interface ConnectionParts {
  readonly endpoint: string;
  readonly credentials: ChannelCredentials;
  readonly channelOptions: ChannelOptions;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly maxCallsInFlight: number;
  /** Undefined: calls have no token. */
  readonly bearer: Bearer | undefined;
  /** The endpoint is a node that was chosen as a holder. It answers itself or refuses with NOT_HOLDER. */
  readonly isRouted: boolean;
  /**
   * Asks the program at the other end whether it may get calls. Never rejects. False: it may not, or it does not answer.
   * Undefined: every program may.
   */
  readonly mayServe?: ((connection: Connection) => Promise<boolean>) | undefined;
  /** Called when there is no connection. */
  readonly onUnreachable?: (() => void) | undefined;
  /** Called when the connection is up, and with an error when it is lost. */
  readonly onChange: (connection: Connection, error: TaskMasterError | undefined) => void;
  /** Called with the metadata when the endpoint has refused with NOT_HOLDER. */
  readonly onDenied: (connection: Connection, metadata: Readonly<Record<string, string>>) => void;
}

type ConnectionState =
  /** Connects to the endpoint. It gets no calls. */
  | { readonly kind: 'connecting'; readonly failures: number }
  /** Gets calls. Before `restsUntil` only if no other connection is up. */
  | { readonly kind: 'live'; readonly restsUntil: number }
  | { readonly kind: 'closed' };

/** Timeout of one attempt to connect, in ms. */
const PROBE_MS = 5_000;
const PROBE_INITIAL_MS = 50;
const PROBE_MAX_MS = 2_000;
const DIAGNOSE_MS = 100;
/** Rest of a starting or stopping node that gives no retry delay, in ms. */
const REST_MS = 1_000;
/** How long calls wait for a new connection if other connections are up, in ms. */
const OPENING_MS = 500;
/** Tells a node to answer itself, without its router. */
const ROUTED_HEADER = 'taskmaster-routed';

/** The connection to one endpoint: its channel, its stream, and whether it is up. */
export class Connection {
  readonly endpoint: string;
  readonly client: TaskMasterServiceClient;
  readonly stream: RequestStream;
  readonly #parts: ConnectionParts;
  readonly #metadata = new Metadata();
  #state: ConnectionState = { kind: 'connecting', failures: 0 };
  #cancelTimer: CancelTimer | undefined;
  readonly #unaryCalls = new Set<() => void>();
  #opening: Promise<void> | undefined;
  #opened: () => void;
  readonly #tried = Promise.withResolvers<void>();

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    this.endpoint = parts.endpoint;
    if (parts.isRouted) this.#metadata.set(ROUTED_HEADER, '1');
    this.client = new TaskMasterServiceClient(parts.endpoint, parts.credentials, parts.channelOptions);
    this.stream = new RequestStream({
      open: (listener) => openStreamPipe(this.client, this.metadata, listener),
      timing: parts.timing,
      maxCallsInFlight: parts.maxCallsInFlight,
      onFailure: (error) => this.failed(error),
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancelOpening = parts.timing.after(OPENING_MS, () => this.#opened());
    this.#opening = promise;
    this.#opened = () => {
      cancelOpening();
      this.#opening = undefined;
      resolve();
      this.#tried.resolve();
    };
    this.#probe();
  }

  /** Sent with every call. @throws UnauthenticatedError if the token cannot be read. */
  get metadata(): Metadata {
    const { bearer } = this.#parts;
    if (bearer === undefined) return this.#metadata;
    try {
      this.#metadata.set('authorization', bearer.headerFor(this.endpoint));
    } catch (cause) {
      throw makeError(`the token cannot be read: ${messageOf(cause)}`, { reason: 'UNAUTHENTICATED', cause });
    }
    return this.#metadata;
  }

  get isLive(): boolean {
    return this.#state.kind === 'live';
  }

  /** Whether the node has said that it is starting or stopping. */
  isResting(now: number): boolean {
    return this.#state.kind === 'live' && this.#state.restsUntil > now;
  }

  /** Resolves when the first attempt to connect has succeeded, or after a short time. Undefined: it is over. */
  get opening(): Promise<void> | undefined {
    return this.#opening;
  }

  /** Resolves when the first attempt to connect is over, or after a short time. */
  get tried(): Promise<void> {
    return this.#tried.promise;
  }

  /** No call is in flight. */
  get isIdle(): boolean {
    return this.#unaryCalls.size === 0 && this.stream.isIdle;
  }

  /** Call it at the start of a unary call. `close` calls `cancel`. Call the returned function when the call has ended. */
  began(cancel: () => void): () => void {
    this.#unaryCalls.add(cancel);
    return () => void this.#unaryCalls.delete(cancel);
  }

  /** Call it with the error of a failed call. */
  failed(error: TaskMasterError): void {
    if (error.reason === NOT_HOLDER) {
      this.#parts.onDenied(this, error.metadata);
      return;
    }
    if (isOfGroup(error)) return;
    if (this.#state.kind !== 'live' || error.code !== status.UNAVAILABLE) return;
    if (isConnectionLoss(error)) {
      this.#state = { kind: 'connecting', failures: 0 };
      this.#parts.onChange(this, error);
      this.#probe();
    } else {
      const { timing } = this.#parts;
      this.#state = { kind: 'live', restsUntil: timing.now() + (error.retryDelayMs ?? REST_MS) };
    }
  }

  /** Why the endpoint cannot be reached, if gRPC knows: refused, unknown host, wrong certificate, ... */
  diagnose(): Promise<TaskMasterError | undefined> {
    return new Promise((resolve) => {
      // Only the error of a call says why gRPC cannot connect.
      const request = { filter: undefined, limit: 1, pageToken: '' };
      this.client.listQueues(request, new Metadata(), { deadline: Date.now() + DIAGNOSE_MS }, (failure) => {
        resolve(failure?.code === status.UNAVAILABLE ? errorFromService(failure) : undefined);
      });
    });
  }

  /** Asks again whether the program may get calls. It gets none until it may. */
  doubt(): void {
    if (this.#state.kind !== 'live') return;
    this.#state = { kind: 'connecting', failures: 0 };
    this.#probeAgain();
  }

  close(): void {
    this.#state = { kind: 'closed' };
    this.#cancelTimer?.();
    this.#opened();
    this.stream.close();
    for (const cancel of [...this.#unaryCalls]) cancel();
    this.client.close();
  }

  /** Not with `waitForReady` of gRPC: that wakes a channel that is closed meanwhile, and keeps the process running. */
  #probe(): void {
    const channel = this.client.getChannel();
    const deadline = Date.now() + PROBE_MS;
    const look = (): void => {
      if (this.#state.kind !== 'connecting') return;
      const state = channel.getConnectivityState(true);
      if (state === connectivityState.READY) {
        const { mayServe } = this.#parts;
        if (mayServe === undefined) this.#cameUp();
        else void mayServe(this).then((may) => (may ? this.#cameUp() : this.#probeAgain()));
      } else {
        if (state === connectivityState.TRANSIENT_FAILURE) {
          this.#parts.onUnreachable?.();
          this.#tried.resolve();
        }
        channel.watchConnectivityState(state, deadline, (error) => (error === undefined ? look() : this.#probeAgain()));
      }
    };
    setImmediate(look);
  }

  #cameUp(): void {
    if (this.#state.kind !== 'connecting') return;
    this.#state = { kind: 'live', restsUntil: 0 };
    this.#opened();
    this.#parts.onChange(this, undefined);
  }

  #probeAgain(): void {
    if (this.#state.kind !== 'connecting') return;
    this.#tried.resolve();
    const failures = this.#state.failures + 1;
    this.#state = { kind: 'connecting', failures };
    const { timing, random } = this.#parts;
    const delayMs = backoffBound(failures, PROBE_INITIAL_MS, PROBE_MAX_MS) * random();
    this.#cancelTimer = timing.after(delayMs, () => this.#probe(), true);
  }
}

/** UNAVAILABLE of gRPC and not of a node: there is no connection. */
function isConnectionLoss(error: TaskMasterError): boolean {
  return error.code === status.UNAVAILABLE && !isReason(error.reason);
}
