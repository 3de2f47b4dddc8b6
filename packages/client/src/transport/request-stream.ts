import { status } from '@grpc/grpc-js';
import {
  CallField,
  type CallOutcome,
  type CallPipe,
  type CallPipeListener,
  CallStream,
  encodeToBuffer,
  LeaseTasksRequest,
  LeaseTasksResponse,
  ResultField,
  type StreamEnd,
  UpdateTasksRequest,
  UpdateTasksResponse,
  Error as WireError,
} from '@taskmaster/proto';
import {
  CancelledError,
  cancelled,
  DeadlineExceededError,
  InvalidRequestError,
  makeError,
  NOT_HOLDER,
  type TaskMasterError,
  withMaybeApplied,
} from '../values/errors.ts';
import type { Timing } from './timing.ts';
import type { TransportCallOptions } from './transport.ts';
import { asTaskMasterError, brokenReply, errorFromWire } from './wire-errors.ts';

export interface RequestStreamParts {
  /** Opens the stream without waiting for it. Throws if the credential cannot be read. */
  readonly open: (listener: CallPipeListener<TaskMasterError>) => CallPipe;
  readonly timing: Timing;
  /** Largest number of unanswered calls, without waiting leases. */
  readonly maxCallsInFlight: number;
  /**
   * Called when the stream broke, after its calls are rejected, and when an answer says that the node is unavailable or does not
   * hold the group.
   */
  readonly onFailure: (error: TaskMasterError) => void;
}

/** Large enough to make the cost of a message per call small, and far below the limits of nodes. */
const MESSAGE_BYTES = 256 * 1024;

type Encodable<T> = Parameters<typeof encodeToBuffer<T>>[0];

/** The two kinds of calls: their fields, and their messages. */
interface Method<Request, Reply> {
  readonly field: typeof CallField.update | typeof CallField.lease;
  readonly result: number;
  readonly request: Encodable<Request>;
  readonly reply: { decode(bytes: Uint8Array): Reply };
}

const UPDATE: Method<UpdateTasksRequest, UpdateTasksResponse> = {
  field: CallField.update,
  result: ResultField.update,
  request: UpdateTasksRequest,
  reply: UpdateTasksResponse,
};
const LEASE: Method<LeaseTasksRequest, LeaseTasksResponse> = {
  field: CallField.lease,
  result: ResultField.lease,
  request: LeaseTasksRequest,
  reply: LeaseTasksResponse,
};

/** Updates and leases to one endpoint, over one `Stream` call at a time. */
export class RequestStream {
  readonly #parts: RequestStreamParts;
  #stream: CallStream<TaskMasterError> | undefined;
  #closed = false;

  constructor(parts: RequestStreamParts) {
    this.#parts = parts;
  }

  /** No call is unsent or unanswered. */
  get isIdle(): boolean {
    return this.#stream?.isIdle ?? true;
  }

  /** Sends an update. It must fit into a message: see `assertUpdateFits`. */
  update(request: UpdateTasksRequest, options: TransportCallOptions): Promise<UpdateTasksResponse> {
    return this.#call(UPDATE, request, true, options);
  }

  /**
   * Sends a lease request. After an abort it settles when it is known whether it was served: see `TransportCallOptions.signal`.
   */
  lease(request: LeaseTasksRequest, { signal, timeoutMs }: TransportCallOptions): Promise<LeaseTasksResponse> {
    const { waitMs } = request;
    const dueMs = timeoutMs === undefined ? undefined : timeoutMs + waitMs;
    return this.#call(LEASE, request, waitMs === 0, { signal, timeoutMs: dueMs });
  }

  /** Rejects unanswered calls with `CancelledError`. */
  close(): void {
    this.#closed = true;
    this.#stream?.close();
  }

  #call<Request, Reply>(
    method: Method<Request, Reply>,
    request: Request,
    counted: boolean,
    { signal, timeoutMs }: TransportCallOptions,
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.#closed) throw closedError(false);
      if (signal?.aborted) throw cancelled(signal);
      const bytes = encoded(method.request, request);
      this.#stream ??= this.#open();
      this.#stream.send({ field: method.field, bytes, counted, signal, timeoutMs }, (outcome) => {
        try {
          resolve(this.#replyOf(method, outcome, signal));
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  #open(): CallStream<TaskMasterError> {
    const { open, timing, maxCallsInFlight } = this.#parts;
    return new CallStream({
      open,
      timing,
      soon: setImmediate,
      messageBytes: MESSAGE_BYTES,
      mostInFlight: maxCallsInFlight,
      onOver: (end) => {
        this.#stream = undefined;
        if (end.kind !== 'closed') this.#parts.onFailure(lossOf(end));
      },
    });
  }

  #replyOf<Request, Reply>(
    method: Method<Request, Reply>,
    outcome: CallOutcome<TaskMasterError>,
    signal: AbortSignal | undefined,
  ): Reply {
    if (outcome.kind === 'lost') {
      if (outcome.end.kind === 'closed') throw closedError(outcome.sent);
      throw withMaybeApplied(lossOf(outcome.end), outcome.sent);
    }
    if (outcome.kind === 'givenUp') {
      const { why, sent } = outcome;
      throw withMaybeApplied(givenUpError(why, signal), sent && (why === 'deadline' || method === UPDATE));
    }
    const { field, bytes, givenUp } = outcome;
    if (field === method.result) {
      const reply = decoded(method.reply, bytes);
      // A lease that was given up may have been served before: then the caller releases its tasks.
      if (givenUp === undefined || hasTasks(reply)) return reply;
      throw withMaybeApplied(givenUpError(givenUp, signal), false);
    }
    if (field !== ResultField.error) throw brokenReply('answered a call with the result of another kind');
    const error = errorFromWire(decoded(WireError, bytes));
    if (error.code === status.UNAVAILABLE || error.reason === NOT_HOLDER) this.#parts.onFailure(error);
    throw givenUp === undefined ? error : withMaybeApplied(givenUpError(givenUp, signal), error.maybeApplied);
  }
}

/** Encodes alone, so that a request which cannot be encoded, such as one with a fraction as a number, fails alone. */
function encoded<Request>(type: Encodable<Request>, request: Request): Buffer {
  try {
    return encodeToBuffer(type, request);
  } catch (cause) {
    const { message } = asTaskMasterError(cause);
    throw new InvalidRequestError(`the request cannot be encoded: ${message}`, { reason: 'INVALID_ARGUMENT', cause });
  }
}

function decoded<Reply>(type: { decode(bytes: Uint8Array): Reply }, bytes: Uint8Array): Reply {
  try {
    return type.decode(bytes);
  } catch (cause) {
    throw brokenReply('sent an answer that cannot be read', cause);
  }
}

/** Only leases are answered after they were given up. */
const hasTasks = (reply: unknown): boolean => (reply as LeaseTasksResponse).tasks.length > 0;

function givenUpError(why: 'deadline' | 'cancelled', signal: AbortSignal | undefined): TaskMasterError {
  if (why === 'cancelled') return cancelled(signal);
  return new DeadlineExceededError('no answer came in time', { reason: 'DEADLINE_EXCEEDED' });
}

const closedError = (maybeApplied: boolean): CancelledError =>
  new CancelledError('the client is closed', { reason: 'CANCELLED', maybeApplied });

/** Status codes of connections that broke by accident. */
const accidentalCodes: ReadonlySet<number> = new Set([
  status.CANCELLED,
  status.UNKNOWN,
  status.INTERNAL,
  status.ABORTED,
]);

/** The error of the sent calls of a broken stream. They may be repeated if the stream broke by accident. */
function lossOf(end: Exclude<StreamEnd<TaskMasterError>, { readonly kind: 'closed' }>): TaskMasterError {
  const error = end.kind === 'ended' ? end.error : brokenReply('sent an answer that cannot be read', end.cause);
  const accidental = !error.retryable && accidentalCodes.has(error.code);
  return makeError(`the stream broke: ${error.message}`, {
    reason: accidental ? 'UNAVAILABLE' : error.reason,
    code: accidental ? status.UNAVAILABLE : error.code,
    metadata: error.metadata,
    retryDelayMs: error.retryDelayMs,
    retryable: accidental || error.retryable,
    // The end of a stream does not say whether a sent call was applied.
    maybeApplied: true,
    cause: error,
  });
}
