import { status } from '@grpc/grpc-js';
import {
  encodeToBuffer,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  limits,
  type StreamCall,
  StreamRequest,
  type StreamResponse,
  type StreamResult,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
} from '@taskmaster/proto';
import {
  cancelled,
  DeadlineExceededError,
  InvalidRequestError,
  NOT_HOLDER,
  type TaskMasterError,
  withMaybeApplied,
} from '../values/errors.ts';
import { DeadlineWheel } from './deadline-wheel.ts';
import { leaseSizeBound } from './request-size.ts';
import { closedError, newCall, type StreamedCall, streamLoss, unsentLoss } from './streamed-call.ts';
import type { Timing } from './timing.ts';
import type { TransportCallOptions } from './transport.ts';
import { brokenReply, errorFromWire } from './wire-errors.ts';

/** The two directions of one gRPC stream. Listeners are set before anything is written. */
export interface StreamPipe {
  /** False: wait for `onDrain` before the next message. */
  write(message: Buffer): boolean;
  /** Ends the stream. The listener is not called any more. */
  close(): void;
}

export interface StreamListener {
  onMessage(message: StreamResponse): void;
  onDrain(): void;
  /** Called once, when the stream ends without `close`. */
  onEnd(error: TaskMasterError): void;
}

export interface RequestStreamParts {
  /** Opens the stream without waiting for it. */
  readonly open: (listener: StreamListener) => StreamPipe;
  readonly timing: Timing;
  /** Largest number of unanswered calls, without waiting leases. */
  readonly maxCallsInFlight: number;
  /**
   * Called when the stream broke, after its calls are rejected, and when an answer says that the node is unavailable or does not
   * hold the group.
   */
  readonly onFailure: (error: TaskMasterError) => void;
}

/**
 * Calls are joined into messages of about this size. It is large enough to make the cost of a message per call small, and far
 * below the limits of nodes.
 */
const MESSAGE_BYTES = 256 * 1024;
/** How long a cancelled lease waits for the answer that says whether it was served before, in ms. */
const CANCEL_MS = 1_000;

/**
 * Updates and leases over one stream. Calls of one turn of the event loop go out in as few messages as possible. Answers come in
 * any order.
 *  S1  A call is in `#queue` until it is sent, then in `#sent` under its id until it is answered, cancelled or lost.
 *  S2  A call settles once. From then on it is not in the wheel.
 *  S3  At most `maxCallsInFlight` counted calls are unanswered. Other calls wait in `#queue` in their order.
 */
export class RequestStream {
  readonly #parts: RequestStreamParts;
  readonly #sent = new Map<number, StreamedCall>();
  readonly #wheel: DeadlineWheel<StreamedCall>;
  #queue: StreamedCall[] = [];
  #queueHead = 0;
  #cancels: number[] = [];
  #pipe: StreamPipe | undefined;
  #blocked = false;
  #flushing = false;
  #inFlight = 0;
  #lastId = 0;
  #closed = false;

  constructor(parts: RequestStreamParts) {
    this.#parts = parts;
    this.#wheel = new DeadlineWheel(parts.timing, (call) => this.#overdue(call));
  }

  /** Number of unanswered calls. */
  get unanswered(): number {
    return this.#sent.size;
  }

  /** No call is unsent or unanswered. */
  get isIdle(): boolean {
    return this.#sent.size === 0 && this.#queueHead === this.#queue.length;
  }

  /** Sends an update. It must fit into a message: see `assertUpdateFits`. */
  update(
    request: UpdateTasksRequest,
    sizeBound: number,
    { signal, timeoutMs }: TransportCallOptions,
  ): Promise<UpdateTasksResponse> {
    return new Promise((resolve, reject) => {
      const call = { ...newCall(sizeBound, true, signal, reject), $case: 'update' as const, value: request, resolve };
      this.#submit(call, timeoutMs);
    });
  }

  /**
   * Sends a lease request. After an abort it settles when it is known whether it was served: see `TransportCallOptions.signal`.
   */
  lease(request: LeaseTasksRequest, { signal, timeoutMs }: TransportCallOptions): Promise<LeaseTasksResponse> {
    const { waitMs } = request;
    return new Promise((resolve, reject) => {
      const common = newCall(leaseSizeBound(request), waitMs === 0, signal, reject);
      this.#submit(
        { ...common, $case: 'lease' as const, value: request, resolve },
        timeoutMs === undefined ? undefined : timeoutMs + waitMs,
      );
    });
  }

  /** Rejects unanswered calls with `CancelledError`. */
  close(): void {
    this.#closed = true;
    this.#pipe?.close();
    this.#pipe = undefined;
    const waiting = this.#takeAll();
    for (const call of waiting) this.#reject(call, closedError(call));
    this.#wheel.clear();
  }

  #submit(call: StreamedCall, timeoutMs: number | undefined): void {
    const { signal } = call;
    if (this.#closed || signal?.aborted) {
      call.reject(this.#closed ? closedError(call) : cancelled(signal));
      return;
    }
    if (timeoutMs !== undefined) call.dueSlot = this.#wheel.add(call, this.#parts.timing.now() + timeoutMs);
    if (signal !== undefined) {
      call.onAbort = () => {
        const mayBeApplied = call.$case === 'update' && call.id !== 0;
        this.#giveUp(call, withMaybeApplied(cancelled(signal), mayBeApplied));
      };
      signal.addEventListener('abort', call.onAbort, { once: true });
    }
    this.#queue.push(call);
    this.#flushSoon();
  }

  /** Sends at the end of the turn, so that all calls of the turn go out together. */
  #flushSoon(): void {
    if (this.#flushing || this.#blocked) return;
    this.#flushing = true;
    setImmediate(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (!this.#blocked && !this.#closed) {
      const batch = this.#nextBatch();
      const cancels = this.#cancels.splice(0, limits.streamCalls - batch.length);
      if (batch.length === 0 && cancels.length === 0) return;
      const calls: StreamCall[] = batch.map((call) => ({ id: call.id, call }));
      for (const id of cancels) calls.push({ id, call: { $case: 'cancel', value: {} } });
      const message = this.#encode(batch, calls);
      if (message === undefined) continue;
      this.#pipe ??= this.#open();
      this.#blocked = !this.#pipe.write(message);
    }
  }

  /** Takes calls for one message off the queue, as many as may be in flight, and gives them ids. */
  #nextBatch(): StreamedCall[] {
    const batch: StreamedCall[] = [];
    const { maxCallsInFlight } = this.#parts;
    let bytes = 0;
    while (this.#queueHead < this.#queue.length) {
      const call = this.#queue[this.#queueHead];
      if (call === undefined) break;
      if (!call.settled) {
        if (call.counted && this.#inFlight >= maxCallsInFlight) break;
        if (bytes > 0 && bytes + call.sizeBound > MESSAGE_BYTES) break;
        bytes += call.sizeBound;
        call.id = ++this.#lastId;
        this.#sent.set(call.id, call);
        if (call.counted) this.#inFlight++;
        batch.push(call);
      }
      this.#queueHead++;
    }
    if (this.#queueHead === this.#queue.length) {
      this.#queue = [];
      this.#queueHead = 0;
    } else if (this.#queueHead > 1024 && this.#queueHead * 2 > this.#queue.length) {
      // Frees sent calls if the queue is never empty.
      this.#queue = this.#queue.slice(this.#queueHead);
      this.#queueHead = 0;
    }
    return batch;
  }

  /** Encodes a message. Rejects calls that cannot be encoded, such as one with a fraction as a number, and keeps the others. */
  #encode(batch: readonly StreamedCall[], calls: StreamCall[]): Buffer | undefined {
    try {
      return encodeToBuffer(StreamRequest, { calls });
    } catch (cause) {
      if (batch.length <= 1 && calls.length === batch.length) {
        for (const call of batch) this.#refuseUnencodable(call, cause);
        return undefined;
      }
    }
    const encodable = calls.filter((call, at) => {
      try {
        encodeToBuffer(StreamRequest, { calls: [call] });
        return true;
      } catch (cause) {
        const refused = batch[at];
        if (refused !== undefined) this.#refuseUnencodable(refused, cause);
        return false;
      }
    });
    return encodable.length === 0 ? undefined : encodeToBuffer(StreamRequest, { calls: encodable });
  }

  #refuseUnencodable(call: StreamedCall, cause: unknown): void {
    this.#forgetSent(call);
    const why = cause instanceof Error ? cause.message : String(cause);
    this.#reject(
      call,
      new InvalidRequestError(`the request cannot be encoded: ${why}`, { reason: 'INVALID_ARGUMENT', cause }),
    );
  }

  #open(): StreamPipe {
    const pipe: StreamPipe = this.#parts.open({
      onMessage: (message) => {
        if (this.#pipe === pipe) for (const result of message.results) this.#answer(result);
      },
      onDrain: () => {
        if (this.#pipe !== pipe) return;
        this.#blocked = false;
        this.#flush();
      },
      onEnd: (error) => {
        if (this.#pipe === pipe) this.#break(error);
      },
    });
    return pipe;
  }

  #answer({ id, result }: StreamResult): void {
    const call = this.#sent.get(id);
    // The call was cancelled.
    if (call === undefined) return;
    this.#forgetSent(call);
    if (this.#queueHead < this.#queue.length) this.#flushSoon();
    if (result?.$case === 'error') {
      const error = errorFromWire(result.value);
      if (error.code === status.UNAVAILABLE || error.reason === NOT_HOLDER) this.#parts.onFailure(error);
      this.#reject(call, call.givenUp === undefined ? error : withMaybeApplied(call.givenUp, error.maybeApplied));
    } else if (call.$case === 'update' && result?.$case === 'update') {
      this.#settle(call);
      call.resolve(result.value);
    } else if (call.$case === 'lease' && result?.$case === 'lease') {
      // The lease was served before its cancellation: the caller releases the tasks.
      if (call.givenUp !== undefined && result.value.tasks.length === 0) {
        this.#reject(call, withMaybeApplied(call.givenUp, false));
      } else {
        this.#settle(call);
        call.resolve(result.value);
      }
    } else {
      this.#reject(call, brokenReply('answered a call with the result of another kind'));
    }
  }

  #overdue(call: StreamedCall): void {
    this.#giveUp(
      call,
      new DeadlineExceededError('no answer came in time', {
        reason: 'DEADLINE_EXCEEDED',
        maybeApplied: call.id !== 0,
      }),
    );
  }

  #giveUp(call: StreamedCall, error: TaskMasterError): void {
    if (call.settled) return;
    if (call.$case === 'lease' && call.id !== 0 && call.givenUp === undefined) {
      call.givenUp = error;
      this.#wheel.remove(call, call.dueSlot);
      call.dueSlot = this.#wheel.add(call, this.#parts.timing.now() + CANCEL_MS);
      this.#cancels.push(call.id);
      this.#flushSoon();
      return;
    }
    if (call.id !== 0) this.#forgetSent(call);
    this.#reject(call, call.givenUp ?? error);
  }

  #break(error: TaskMasterError): void {
    this.#pipe = undefined;
    this.#blocked = false;
    this.#cancels = [];
    const loss = streamLoss(error);
    // Unsent calls are rejected too: their callers repeat them, perhaps over another endpoint.
    for (const call of this.#takeAll()) {
      this.#reject(call, call.givenUp ?? (call.id === 0 ? unsentLoss(loss) : loss));
    }
    this.#parts.onFailure(loss);
  }

  #takeAll(): StreamedCall[] {
    const calls = [...this.#sent.values(), ...this.#queue.slice(this.#queueHead)];
    this.#sent.clear();
    this.#queue = [];
    this.#queueHead = 0;
    this.#inFlight = 0;
    return calls;
  }

  #forgetSent(call: StreamedCall): void {
    if (this.#sent.delete(call.id) && call.counted) this.#inFlight--;
  }

  #settle(call: StreamedCall): void {
    call.settled = true;
    this.#wheel.remove(call, call.dueSlot);
    if (call.onAbort !== undefined) call.signal?.removeEventListener('abort', call.onAbort);
  }

  #reject(call: StreamedCall, error: TaskMasterError): void {
    if (call.settled) return;
    this.#settle(call);
    call.reject(error);
  }
}
