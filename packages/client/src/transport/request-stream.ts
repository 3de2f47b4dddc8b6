import { type Metadata, type StatusObject, status } from '@grpc/grpc-js';
import {
  type CallCodec,
  type CallOutcome,
  type CallPipe,
  type CallPipeListener,
  CallStream,
  encodeToBuffer,
  type LeasedTask,
  type LeaseTasksResponse,
  REFUND,
  type ReadEventsResponse,
  type StreamEnd,
  StreamRequest,
  StreamResponse,
  type StreamResult,
  type TaskMasterServiceClient,
  TaskMasterServiceService,
  type UpdateTasksResponse,
  type WaitForTasksResponse,
} from '@taskmaster/proto';
import {
  CancelledError,
  cancelled,
  DeadlineExceededError,
  makeError,
  NOT_HOLDER,
  type TaskMasterError,
  UnavailableError,
  withMaybeApplied,
} from '../values/errors.ts';
import { type StreamedRequest, updateSizeBound } from './request-size.ts';
import type { Timing } from './timing.ts';
import type { TransportCallOptions } from './transport.ts';
import { brokenReply, errorFromService, errorFromWire, unencodable } from './wire-errors.ts';

export interface RequestStreamParts {
  /** Opens the stream without waiting for it. Throws if the credential cannot be read. */
  readonly open: (listener: CallPipeListener<TaskMasterError>) => CallPipe;
  readonly timing: Timing;
  /** Largest number of unanswered calls, without those that wait. */
  readonly maxCallsInFlight: number;
  /** Called when a call is sent that does not wait. */
  readonly onSent: (timeoutMs: number | undefined) => void;
  /**
   * Called when the stream broke, after its calls are rejected, and when an answer says that the node is unavailable or does not
   * hold the group.
   */
  readonly onFailure: (error: TaskMasterError) => void;
}

/** Large enough to make the cost of a message per call small (bench rows B3, B5 and B6), and far below the limits of nodes. */
const MESSAGE_BYTES = 256 * 1024;
/** Timeout of the release of a task, in ms. */
const GIVE_BACK_MS = 10_000;

interface Replies {
  readonly update: UpdateTasksResponse;
  readonly lease: LeaseTasksResponse;
  readonly wait: WaitForTasksResponse;
  readonly events: ReadEventsResponse;
}
type ReplyTo<Request extends StreamedRequest> = Replies[Request['$case']];
type Outcome = CallOutcome<StreamResult, TaskMasterError>;

const CANCEL = { $case: 'cancel' as const, value: {} };

const codec: CallCodec<StreamedRequest, StreamResult> = {
  encode: (calls) =>
    encodeToBuffer(StreamRequest, { calls: calls.map(({ id, request }) => ({ id, call: request ?? CANCEL })) }),
  decode: (message) => StreamResponse.decode(message).results,
};

/** Updates, leases and waits to one endpoint, over one `Stream` call at a time. */
export class RequestStream {
  readonly #parts: RequestStreamParts;
  #stream: CallStream<StreamedRequest, StreamResult, TaskMasterError> | undefined;
  #closed = false;

  constructor(parts: RequestStreamParts) {
    this.#parts = parts;
  }

  /** No call is unsent or unanswered. */
  get isIdle(): boolean {
    return this.#stream?.isIdle ?? true;
  }

  /**
   * Sends a call. Its waiting time is added to the timeout. After an abort, a wait ends at the node, and a lease settles when it
   * is known whether it was served: see `TransportCallOptions.signal`.
   * @param size of the request, as `streamedSize` says.
   */
  call<Request extends StreamedRequest>(
    request: Request,
    size: number,
    { signal, timeoutMs }: TransportCallOptions,
  ): Promise<ReplyTo<Request>> {
    return new Promise((resolve, reject) => {
      if (this.#closed) throw closedError(false);
      if (signal?.aborted) throw cancelled(signal);
      this.#stream ??= this.#open();
      const waits = request.$case !== 'update';
      const waitMs = waits ? request.value.waitMs : 0;
      const counted = waitMs === 0;
      const dueMs = timeoutMs === undefined ? undefined : timeoutMs + waitMs;
      if (counted) this.#parts.onSent(dueMs);
      this.#stream.send({ request, waits, size, counted, signal, timeoutMs: dueMs }, (outcome) => {
        const reply = replyOf(request, outcome);
        if (reply !== undefined) resolve(reply);
        else reject(this.#errorOf(outcome, waits, signal));
      });
    });
  }

  /** Rejects unanswered calls with `CancelledError`. */
  close(): void {
    this.#closed = true;
    this.#stream?.close();
  }

  #open(): CallStream<StreamedRequest, StreamResult, TaskMasterError> {
    const { open, timing, maxCallsInFlight } = this.#parts;
    return new CallStream({
      open,
      codec,
      timing,
      soon: setImmediate,
      messageBytes: MESSAGE_BYTES,
      mostInFlight: maxCallsInFlight,
      onLateAnswer: ({ result }) => {
        if (result?.$case === 'lease') this.#giveBack(result.value.tasks);
      },
      onOver: (end) => {
        this.#stream = undefined;
        if (end.kind !== 'closed') this.#parts.onFailure(lossOf(end));
      },
    });
  }

  /** Releases the tasks of a late answer. If a release fails, the task is available when its lease ends. */
  #giveBack(tasks: readonly LeasedTask[]): void {
    for (const { queue, pid, leaseToken } of tasks) {
      const release = [{ queue, pid, leaseToken, ...REFUND }];
      const request = { enqueue: [], dequeue: [], renew: [], release, requestId: new Uint8Array(0), parts: [] };
      const call = { $case: 'update' as const, value: request };
      this.call(call, updateSizeBound(request), { timeoutMs: GIVE_BACK_MS }).catch(() => {});
    }
  }

  #errorOf(outcome: Outcome, waits: boolean, signal: AbortSignal | undefined): TaskMasterError {
    switch (outcome.kind) {
      case 'unencodable':
        return unencodable(outcome.cause);
      case 'lost':
        if (outcome.end.kind === 'closed') return closedError(outcome.sent);
        return withMaybeApplied(lossOf(outcome.end), outcome.sent);
      case 'givenUp': {
        const { why, sent } = outcome;
        return withMaybeApplied(givenUpError(why, signal), sent && (why === 'deadline' || !waits));
      }
      case 'answered': {
        const { result, givenUp } = outcome;
        if (result.result?.$case === 'error') {
          const error = errorFromWire(result.result.value);
          if (error.code === status.UNAVAILABLE || error.reason === NOT_HOLDER) this.#parts.onFailure(error);
          return givenUp === undefined ? error : withMaybeApplied(givenUpError(givenUp, signal), error.maybeApplied);
        }
        // A lease without tasks, or a wait.
        if (givenUp !== undefined) return withMaybeApplied(givenUpError(givenUp, signal), false);
        return brokenReply('answered a call with the result of another kind');
      }
    }
  }
}

/** Undefined: the call has failed. A lease that was given up may have been served before: then the caller releases its tasks. */
function replyOf<Request extends StreamedRequest>(request: Request, outcome: Outcome): ReplyTo<Request> | undefined {
  if (outcome.kind !== 'answered') return undefined;
  const { result } = outcome.result;
  if (result?.$case !== request.$case) return undefined;
  if (outcome.givenUp !== undefined && !isLeaseWithTasks(result) && result.$case !== 'update') return undefined;
  return result.value as ReplyTo<Request>;
}

const isLeaseWithTasks = (result: NonNullable<StreamResult['result']>): boolean =>
  result.$case === 'lease' && result.value.tasks.length > 0;

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

/** A stream that can be given up as if the network had broken it. */
interface BreakablePipe extends CallPipe {
  /** The listener is told, and the calls of the stream have failed. */
  break(): void;
}

/** Opens the bidirectional stream of a channel. Messages are encoded. `onHeard` is called before the listener gets a message. */
export function openStreamPipe(
  client: TaskMasterServiceClient,
  metadata: Metadata,
  listener: CallPipeListener<TaskMasterError>,
  onHeard: () => void,
): BreakablePipe {
  const call = client.makeBidiStreamRequest(
    TaskMasterServiceService.stream.path,
    (message: Buffer) => message,
    (bytes: Buffer) => bytes,
    metadata,
  );
  let over = false;
  const end = (error: TaskMasterError): void => {
    if (over) return;
    over = true;
    listener.onEnd(error);
  };
  call.on('data', (message: Buffer) => {
    onHeard();
    listener.onMessage(message);
  });
  call.on('drain', () => listener.onDrain());
  call.on('error', (error: Error & StatusObject) => end(errorFromService(error)));
  call.on('status', (ended: StatusObject) => {
    // A node that shuts down ends its streams without an error. Unanswered calls may have been applied.
    if (ended.code === status.OK) end(new UnavailableError('the node ended the stream', { reason: 'SHUTTING_DOWN' }));
  });
  return {
    write: (message) => call.write(message),
    end() {
      over = true;
      call.end();
    },
    break: () => call.cancel(),
    abort() {
      over = true;
      call.end();
      call.cancel();
    },
  };
}
