import { type ChannelCredentials, type ChannelOptions, Metadata, status } from '@grpc/grpc-js';
import { isReason, TaskMasterServiceClient } from '@taskmaster/proto';
import type { TaskMasterError } from './errors.ts';
import { openStreamPipe } from './grpc-stream-pipe.ts';
import { RequestStream } from './request-stream.ts';
import { backoffBound } from './retry.ts';
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
  /** Called when the endpoint was found up, and when it was lost. */
  readonly onChange: (connection: Connection, error: TaskMasterError | undefined) => void;
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

/** One endpoint: a channel to it, the stream over that channel, and whether it is up. */
export class Connection {
  readonly endpoint: string;
  readonly client: TaskMasterServiceClient;
  readonly stream: RequestStream;
  readonly #parts: ConnectionParts;
  #state: ConnectionState = { kind: 'connecting', failures: 0 };
  #cancelTimer: CancelTimer | undefined;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    this.endpoint = parts.endpoint;
    this.client = new TaskMasterServiceClient(parts.endpoint, parts.credentials, parts.channelOptions);
    this.stream = new RequestStream({
      open: (listener) => openStreamPipe(this.client, listener),
      timing: parts.timing,
      maxCallsInFlight: parts.maxCallsInFlight,
      onFailure: (error) => this.failed(error),
    });
    this.#probe();
  }

  get isLive(): boolean {
    return this.#state.kind === 'live';
  }

  /** Up, but it has said that it is starting or stopping. */
  isResting(now: number): boolean {
    return this.#state.kind === 'live' && this.#state.restsUntil > now;
  }

  /** A call over this connection failed. */
  failed(error: TaskMasterError): void {
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
    this.stream.close();
    this.client.close();
  }

  #probe(): void {
    this.client.waitForReady(Date.now() + PROBE_MS, (error) => {
      if (this.#state.kind !== 'connecting') return;
      if (error === undefined) {
        this.#state = { kind: 'live', restsUntil: 0 };
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
