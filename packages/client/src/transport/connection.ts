import {
  type ChannelCredentials,
  type ChannelInterface,
  type ChannelOptions,
  connectivityState,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import {
  type CallPipe,
  type CallPipeListener,
  HealthService,
  isReason,
  TaskMasterServiceClient,
} from '@taskmaster/proto';
import { isOfGroup, makeError, NOT_HOLDER, type TaskMasterError, UnavailableError } from '../values/errors.ts';
import { backoffBound } from '../values/retry.ts';
import { messageOf } from '../values/thrown.ts';
import type { Bearer } from './channels/bearer.ts';
import { openStreamPipe, RequestStream } from './request-stream.ts';
import { SilenceWatch } from './silence-watch.ts';
import { type CancelTimer, type Timing, waitFor } from './timing.ts';
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
  /** Whether another endpoint can get the calls of this one. */
  readonly hasOther: (connection: Connection) => boolean;
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
/** How long a suspected connection has to answer before a new one is opened, in ms. */
const ASK_MS = 500;
/** How long both have to answer then, in ms. */
const CHECK_MS = 2_000;
const SAME_MOMENT_MS = 100;
/** Tells a node to answer itself, without its router. */
const ROUTED_HEADER = 'taskmaster-routed';

/** The connection to one endpoint: its channel, its stream, and whether it is up. */
export class Connection {
  readonly endpoint: string;
  readonly stream: RequestStream;
  readonly watch: SilenceWatch;
  readonly #parts: ConnectionParts;
  #client: TaskMasterServiceClient;
  /** A new connection that is to show whether the present one is dead. */
  #spare: TaskMasterServiceClient | undefined;
  #isChecking = false;
  /** The channel whose connection is watched: it is the one over which the program was last asked. */
  #watched: ChannelInterface | undefined;
  #breakStream: () => void = () => {};
  readonly #metadata = new Metadata();
  #state: ConnectionState = { kind: 'connecting', failures: 0 };
  #cancelTimer: CancelTimer | undefined;
  readonly #unaryCalls = new Set<(why: 'closed' | 'silent') => void>();
  #opening: Promise<void> | undefined;
  #opened: () => void;
  readonly #tried = Promise.withResolvers<void>();

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    this.endpoint = parts.endpoint;
    if (parts.isRouted) this.#metadata.set(ROUTED_HEADER, '1');
    this.#client = new TaskMasterServiceClient(parts.endpoint, parts.credentials, parts.channelOptions);
    this.stream = new RequestStream({
      open: (listener) => this.#openStream(listener),
      onSent: (timeoutMs) => this.watch.sent(timeoutMs),
      timing: parts.timing,
      maxCallsInFlight: parts.maxCallsInFlight,
      onFailure: (error) => this.failed(error),
    });
    this.watch = new SilenceWatch(parts.timing, () => void this.#checkSilence());
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

  /** The channel of the next call. */
  get client(): TaskMasterServiceClient {
    return this.#client;
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

  /**
   * Call it at the start of a unary call. `cancel` is called if the connection is closed, or given up because it is silent. Call
   * the returned function when the call has ended.
   */
  began(cancel: (why: 'closed' | 'silent') => void): () => void {
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
      this.#client.listQueues(request, new Metadata(), { deadline: Date.now() + DIAGNOSE_MS }, (failure) => {
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
    this.watch.stop();
    this.stream.close();
    for (const cancel of [...this.#unaryCalls]) cancel('closed');
    this.#client.close();
    this.#spare?.close();
  }

  #openStream(listener: CallPipeListener<TaskMasterError>): CallPipe {
    const pipe = openStreamPipe(this.#client, this.metadata, listener, () => this.watch.heard());
    this.#breakStream = pipe.break;
    return pipe;
  }

  /**
   * Nothing was heard for a part of the time that a call has. A network that drops packets says nothing, while new connections
   * may work. So the connection is asked, and if it stays silent, a new one is opened beside it and asked, too. If only the new
   * one answers, it takes the place of the old one: calls in flight have failed like those of a lost connection, and are repeated
   * where that is safe. If neither answers, they go to another endpoint, if there is one. Never rejects.
   */
  async #checkSilence(): Promise<void> {
    if (!this.isLive || this.#isChecking) return;
    this.#isChecking = true;
    const { endpoint, credentials, channelOptions, timing, hasOther } = this.#parts;
    let isAlive = false;
    const asked = isAnswered(this.#client, ASK_MS + CHECK_MS).then((answered) => {
      isAlive = answered;
    });
    await waitFor(timing, asked, ASK_MS);
    let isDead = false;
    if (!isAlive && this.isLive) {
      // Channels with the same options share their connections unless they say otherwise.
      const options = { ...channelOptions, 'grpc.use_local_subchannel_pool': 1 };
      const spare = new TaskMasterServiceClient(endpoint, credentials, options);
      this.#spare = spare;
      const isNewAlive = await isAnswered(spare, CHECK_MS);
      // Both may be answered at the same moment, after a pause of the node.
      await waitFor(timing, asked, SAME_MOMENT_MS);
      this.#spare = undefined;
      isDead = !isAlive && this.isLive && (isNewAlive || hasOther(this));
      if (isDead) this.#replaceBy(spare);
      else spare.close();
    }
    this.#isChecking = false;
    if (!isAlive && !isDead && this.isLive && !this.isIdle) this.watch.sent(undefined);
  }

  #replaceBy(spare: TaskMasterServiceClient): void {
    const old = this.#client;
    this.#client = spare;
    const error = new UnavailableError('no answer comes on the connection', { reason: 'UNAVAILABLE', retryable: true });
    this.failed(error);
    this.#breakStream();
    for (const cancel of [...this.#unaryCalls]) cancel('silent');
    old.close();
  }

  /** Not with `waitForReady` of gRPC: that wakes a channel that is closed meanwhile, and keeps the process running. */
  #probe(): void {
    const channel = this.#client.getChannel();
    const deadline = Date.now() + PROBE_MS;
    const look = (): void => {
      if (this.#state.kind !== 'connecting') return;
      const state = channel.getConnectivityState(true);
      if (state === connectivityState.READY) {
        const { mayServe } = this.#parts;
        if (mayServe === undefined) this.#cameUp();
        else void this.#ask(channel, mayServe);
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

  /**
   * Asks the program whether it may get calls. What it says counts for this connection only: gRPC connects again by itself, and
   * another program may answer there.
   */
  async #ask(channel: ChannelInterface, mayServe: NonNullable<ConnectionParts['mayServe']>): Promise<void> {
    if (this.#watched !== channel) {
      this.#watched = channel;
      channel.watchConnectivityState(connectivityState.READY, Number.POSITIVE_INFINITY, () => this.#ended(channel));
    }
    const may = await mayServe(this);
    if (may && this.#watched === channel) this.#cameUp();
    else this.#probeAgain();
  }

  #ended(channel: ChannelInterface): void {
    if (this.#watched !== channel) return;
    this.#watched = undefined;
    if (this.#state.kind !== 'live') return;
    this.failed(new UnavailableError('the connection has ended', { reason: 'UNAVAILABLE', retryable: true }));
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

const NO_BYTES = Buffer.alloc(0);

/** Codes with which gRPC ends a call that got no answer. */
const unanswered: ReadonlySet<number> = new Set([status.DEADLINE_EXCEEDED, status.UNAVAILABLE, status.CANCELLED]);

/** Whether the peer answers a small call in time, in any way: a refusal is an answer, too. */
function isAnswered(client: TaskMasterServiceClient, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      HealthService.check.path,
      (bytes: Buffer) => bytes,
      (bytes: Buffer) => bytes,
      NO_BYTES,
      new Metadata(),
      { deadline: Date.now() + timeoutMs },
      (failure: ServiceError | null) => resolve(failure === null || !unanswered.has(failure.code)),
    );
  });
}
