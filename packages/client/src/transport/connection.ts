import { type ChannelCredentials, type ChannelOptions, Metadata, status } from '@grpc/grpc-js';
import { isReason, TaskMasterServiceClient } from '@taskmaster/proto';
import { isOfGroup, NOT_HOLDER, type TaskMasterError } from '../values/errors.ts';
import { backoffBound } from '../values/retry.ts';
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
  /** The endpoint is a node that was chosen for what it holds: it answers itself or says NOT_HOLDER. */
  readonly isRouted: boolean;
  /** Called when the endpoint was found up, and when it was lost. */
  readonly onChange: (connection: Connection, error: TaskMasterError | undefined) => void;
  /** Called when the endpoint said that it does not hold a group, with what it said of who does. */
  readonly onDenied: (connection: Connection, metadata: Readonly<Record<string, string>>) => void;
}

type ConnectionState =
  /** Trying to reach the endpoint; gets no calls. */
  | { readonly kind: 'connecting'; readonly failures: number }
  /** Gets calls; while it rests only when there is no other. */
  | { readonly kind: 'live'; readonly restsUntil: number }
  | { readonly kind: 'closed' };

/** One probe of an endpoint that does not answer takes at most so long, in ms. */
const PROBE_MS = 5_000;
const PROBE_INITIAL_MS = 50;
const PROBE_MAX_MS = 2_000;
const DIAGNOSE_MS = 100;
/** How long a node that is starting or stopping is left alone when it does not say, in ms. */
const REST_MS = 1_000;
/** How long calls wait for a new connection, in ms, where they could also go elsewhere. */
const OPENING_MS = 500;
/** Has a node with a router in front of it answer by itself. */
const ROUTED_HEADER = 'taskmaster-routed';

/** One endpoint: a channel to it, the stream over that channel, and whether it is up. */
export class Connection {
  readonly endpoint: string;
  readonly client: TaskMasterServiceClient;
  readonly stream: RequestStream;
  /** Sent with every call. */
  readonly metadata = new Metadata();
  readonly #parts: ConnectionParts;
  #state: ConnectionState = { kind: 'connecting', failures: 0 };
  #cancelTimer: CancelTimer | undefined;
  readonly #unaryCalls = new Set<() => void>();
  #opening: Promise<void> | undefined;
  #opened: () => void;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    this.endpoint = parts.endpoint;
    if (parts.isRouted) this.metadata.set(ROUTED_HEADER, '1');
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
    };
    this.#probe();
  }

  get isLive(): boolean {
    return this.#state.kind === 'live';
  }

  /** Up, but it has said that it is starting or stopping. */
  isResting(now: number): boolean {
    return this.#state.kind === 'live' && this.#state.restsUntil > now;
  }

  /** While nobody knows yet whether the endpoint is up, for a short time: resolves when that is over. */
  get opening(): Promise<void> | undefined {
    return this.#opening;
  }

  /** No call is under way. */
  get isIdle(): boolean {
    return this.#unaryCalls.size === 0 && this.stream.isIdle;
  }

  /** A unary call begins; `cancel` ends it when this connection is closed. Returns what is to be called when it has ended. */
  began(cancel: () => void): () => void {
    this.#unaryCalls.add(cancel);
    return () => void this.#unaryCalls.delete(cancel);
  }

  /** A call over this connection failed. */
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

  /** Why the endpoint cannot be reached, if gRPC knows: refused, no such host, certificates that do not fit, ... */
  diagnose(): Promise<TaskMasterError | undefined> {
    return new Promise((resolve) => {
      // A call on a channel that has failed to connect fails at once, and tells why; nothing else of gRPC does.
      const request = { filter: undefined, limit: 1, pageToken: '' };
      this.client.listQueues(request, new Metadata(), { deadline: Date.now() + DIAGNOSE_MS }, (failure) => {
        resolve(failure?.code === status.UNAVAILABLE ? errorFromService(failure) : undefined);
      });
    });
  }

  close(): void {
    this.#state = { kind: 'closed' };
    this.#cancelTimer?.();
    this.#opened();
    this.stream.close();
    for (const cancel of [...this.#unaryCalls]) cancel();
    this.client.close();
  }

  #probe(): void {
    this.client.waitForReady(Date.now() + PROBE_MS, (error) => {
      if (this.#state.kind !== 'connecting') return;
      if (error === undefined) {
        this.#state = { kind: 'live', restsUntil: 0 };
        this.#opened();
        this.#parts.onChange(this, undefined);
      } else {
        this.#probeAgain();
      }
    });
  }

  #probeAgain(): void {
    if (this.#state.kind !== 'connecting') return;
    const failures = this.#state.failures + 1;
    this.#state = { kind: 'connecting', failures };
    const { timing, random } = this.#parts;
    const delayMs = backoffBound(failures, PROBE_INITIAL_MS, PROBE_MAX_MS) * random();
    this.#cancelTimer = timing.after(delayMs, () => this.#probe(), true);
  }
}

/** gRPC's own UNAVAILABLE, not a node's: there is no connection. */
function isConnectionLoss(error: TaskMasterError): boolean {
  return error.code === status.UNAVAILABLE && !isReason(error.reason);
}
