import { limits } from '../limits.ts';
import { DeadlineWheel, type WheelTiming } from './deadline-wheel.ts';

/** The two directions of one `Stream` call. Messages are encoded. */
export interface CallPipe {
  /** Returns false if the next message should wait for `onDrain`. */
  write(message: Buffer): boolean;
  /** Ends the call when all its calls are answered. The listener is not called any more. */
  end(): void;
  /** Resets the call, which cancels its calls at the node. The listener is not called any more. */
  abort(): void;
}

export interface CallPipeListener<E> {
  onMessage(message: Uint8Array): void;
  onDrain(): void;
  /** Called once when the call ends, unless this side ended it. */
  onEnd(error: E): void;
}

/** A call in a message. `request`: undefined to cancel the call with this id. */
export interface SentCall<Request> {
  readonly id: number;
  readonly request: Request | undefined;
}

/** What a node answers to one call. */
interface Answer {
  readonly id: number;
}

/** Translates messages: a client has requests as objects, a proxy as bytes. */
export interface CallCodec<Request, Result extends Answer> {
  /** Throws if a request cannot be encoded. */
  encode(calls: readonly SentCall<Request>[]): Buffer;
  /** Throws if the message is damaged. */
  decode(message: Uint8Array): readonly Result[];
}

export interface CallStreamParts<Request, Result extends Answer, E, Pipe extends CallPipe = CallPipe> {
  /** Opens the stream without waiting for the connection. The listener is called in a later turn. */
  readonly open: (listener: CallPipeListener<E>) => Pipe;
  readonly codec: CallCodec<Request, Result>;
  readonly timing: WheelTiming;
  /** Calls back at the end of this turn of the event loop. */
  readonly soon: (callback: () => void) => void;
  /** Calls are joined into messages of about this size, in bytes. */
  readonly messageBytes: number;
  /** Largest number of counted calls that are sent and not settled. Others wait in their order. Default: no limit. */
  readonly mostInFlight?: number;
  /** Called with the answer to a call whose caller no longer waits: the tasks of a lease should be released. */
  readonly onLateAnswer: (result: Result) => void;
  /** Called once, when the stream is over and all its calls are settled. */
  readonly onOver: (end: StreamEnd<E>) => void;
}

/** How a stream ended: by the other side, by an answer that cannot be read, or by this side. */
export type StreamEnd<E> =
  | { readonly kind: 'ended'; readonly error: E }
  | { readonly kind: 'damaged'; readonly cause: unknown }
  | { readonly kind: 'closed' };

type GivenUp = 'deadline' | 'cancelled';

/** What became of a call. `sent`: the node may have carried it out. */
export type CallOutcome<Result, E> =
  /** `givenUp`: set if the caller had given up before the answer came. */
  | { readonly kind: 'answered'; readonly result: Result; readonly givenUp: GivenUp | undefined }
  | { readonly kind: 'unencodable'; readonly cause: unknown }
  | { readonly kind: 'givenUp'; readonly why: GivenUp; readonly sent: boolean }
  | { readonly kind: 'lost'; readonly end: StreamEnd<E>; readonly sent: boolean };

/** What the stream needs of an `AbortSignal`. */
interface Signal {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

export interface StreamedRequest<Request> {
  readonly request: Request;
  /** True: it may wait at the node, and a message cancels it. */
  readonly waits: boolean;
  /** Upper bound of the size of the encoded request, in bytes. */
  readonly size: number;
  /** Counts for `mostInFlight`. Default true. */
  readonly counted?: boolean;
  readonly signal?: Signal | undefined;
  /** From now. Default: no deadline. */
  readonly timeoutMs?: number | undefined;
}

interface Call<Request, Result, E> extends Pick<StreamedRequest<Request>, 'request' | 'waits' | 'size' | 'signal'> {
  readonly counted: boolean;
  readonly settle: (outcome: CallOutcome<Result, E>) => void;
  /** 0: not sent yet. */
  id: number;
  settled: boolean;
  givenUp: GivenUp | undefined;
  dueSlot: number;
  onAbort: (() => void) | undefined;
}

/** Size of an entry without the call in it, in bytes: an upper bound. */
export const ENTRY_BYTES = 32;
/** Calls that are sent before the others move to a new map. */
const LEAST_BEFORE_MOVE = 32;
/** How long a call that waits stays after it was given up, in ms: a lease may have been granted before. */
const GIVE_UP_MS = 1_000;
/**
 * Limits for the unanswered calls of one stream and their bytes. They are half of what a node accepts before it stops reading,
 * because the node must still read later messages, such as the cancellation of a lease.
 */
const MOST_CALLS = 8_192;
const MOST_BYTES = 4 * 1024 * 1024;

/**
 * The caller's side of one `Stream` call to a node: many concurrent updates, leases and waits, answered in any order. Calls of
 * one turn of the event loop share messages.
 *
 *  S1  A call is in `#queue` until it is sent, then in `#sent` under its id until it is answered. A call that waits stays there
 *      after it was given up: only the answer to a lease tells which tasks to release.
 *  S2  A call settles once. From then on it is not in the wheel.
 *  S3  When the stream ends, all its calls are settled and it is over. The next call needs another stream.
 *  S4  The stream is not reset while the node keeps the protocol. Servers close a connection on which streams are reset too
 *      often, and the connection carries other calls.
 */
export class CallStream<Request, Result extends Answer, E, Pipe extends CallPipe = CallPipe> {
  readonly pipe: Pipe;
  readonly #parts: CallStreamParts<Request, Result, E, Pipe>;
  readonly #wheel: DeadlineWheel<Call<Request, Result, E>>;
  /**
   * V8 links the tables of a `Map` whose entries come and go. Once one is in the old generation, all later ones keep the calls
   * that were in them until V8 collects the whole heap. So the calls move to a new map before theirs is full. Bench rows B4 and
   * B6: 25 and 14 % of the client's CPU time.
   */
  #sent = new Map<number, Call<Request, Result, E>>();
  #sentSinceMove = 0;
  #queue: Call<Request, Result, E>[] = [];
  /** Calls of `#queue` before this one are sent or settled. */
  #head = 0;
  #cancels: number[] = [];
  /** Number and bytes of the calls that are unsent or unanswered. */
  #calls = 0;
  #bytes = 0;
  /** Number of counted calls that are sent and not settled. */
  #inFlight = 0;
  #lastId = 0;
  #flushing = false;
  #blocked = false;
  #ending = false;
  #over = false;

  constructor(parts: CallStreamParts<Request, Result, E, Pipe>) {
    this.#parts = parts;
    this.#wheel = new DeadlineWheel(parts.timing, (call) => this.#giveUp(call, 'deadline'));
    this.pipe = parts.open({
      onMessage: (message) => this.#receive(message),
      onDrain: () => {
        this.#blocked = false;
        this.#flush();
      },
      onEnd: (error) => this.#end({ kind: 'ended', error }),
    });
  }

  /** No call is unsent or unanswered. */
  get isIdle(): boolean {
    return this.#calls === 0;
  }

  /** False: a node would soon stop reading this stream. */
  get hasRoom(): boolean {
    return this.#calls < MOST_CALLS && this.#bytes < MOST_BYTES;
  }

  /** `settle` is called once. It may be called at once, but not after the stream is over. */
  send(streamed: StreamedRequest<Request>, settle: (outcome: CallOutcome<Result, E>) => void): void {
    const { request, waits, size, counted = true, signal, timeoutMs } = streamed;
    if (signal?.aborted) {
      settle({ kind: 'givenUp', why: 'cancelled', sent: false });
      return;
    }
    const call: Call<Request, Result, E> = {
      request,
      waits,
      size,
      counted,
      signal,
      settle,
      id: 0,
      settled: false,
      givenUp: undefined,
      dueSlot: 0,
      onAbort: undefined,
    };
    if (timeoutMs !== undefined) call.dueSlot = this.#wheel.add(call, this.#parts.timing.now() + timeoutMs);
    if (signal !== undefined) {
      call.onAbort = () => {
        if (call.givenUp === undefined) this.#giveUp(call, 'cancelled');
      };
      signal.addEventListener('abort', call.onAbort);
    }
    this.#calls++;
    this.#bytes += size;
    this.#queue.push(call);
    this.#flushSoon();
  }

  /** Ends the stream when all calls are answered. */
  end(): void {
    this.#ending = true;
    this.#endWhenDone();
  }

  /** Resets the stream. Its calls are lost. */
  close(): void {
    if (this.#over) return;
    this.pipe.abort();
    this.#end({ kind: 'closed' });
  }

  #endWhenDone(): void {
    if (!this.#ending || this.#over || this.#calls > 0) return;
    this.pipe.end();
    this.#end({ kind: 'closed' });
  }

  #flushSoon(): void {
    if (this.#flushing || this.#blocked || this.#over) return;
    this.#flushing = true;
    this.#parts.soon(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (!this.#blocked && !this.#over) {
      const calls = this.#nextCalls();
      if (calls.length === 0) return;
      for (const message of this.#encode(calls)) this.#blocked = !this.pipe.write(message);
    }
  }

  /** Takes calls for one message off the queue, as many as may be in flight, and gives them ids. */
  #nextCalls(): SentCall<Request>[] {
    const calls: SentCall<Request>[] = [];
    const { messageBytes, mostInFlight = Number.POSITIVE_INFINITY } = this.#parts;
    let bytes = 0;
    for (; this.#head < this.#queue.length; this.#head++) {
      const call = this.#queue[this.#head];
      if (call === undefined || call.settled) continue;
      if (call.counted && this.#inFlight >= mostInFlight) break;
      bytes += call.size + ENTRY_BYTES;
      if (calls.length > 0 && (bytes > messageBytes || calls.length >= limits.streamCalls)) break;
      call.id = ++this.#lastId;
      if (++this.#sentSinceMove > Math.max(LEAST_BEFORE_MOVE, this.#sent.size)) {
        this.#sent = new Map(this.#sent);
        this.#sentSinceMove = 0;
      }
      this.#sent.set(call.id, call);
      if (call.counted) this.#inFlight++;
      calls.push(call);
    }
    // Also frees sent calls if the queue is never empty.
    if (this.#head === this.#queue.length || (this.#head > 1024 && this.#head * 2 > this.#queue.length)) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
    for (const id of this.#cancels.splice(0, limits.streamCalls - calls.length)) calls.push({ id, request: undefined });
    return calls;
  }

  /** One message. If a call cannot be encoded, such as one with a fraction as a number, it fails, and the others go alone. */
  #encode(calls: readonly SentCall<Request>[]): Buffer[] {
    try {
      return [this.#parts.codec.encode(calls)];
    } catch (cause) {
      if (calls.length > 1) return calls.flatMap((call) => this.#encode([call]));
      const failed = this.#sent.get(calls[0]?.id ?? 0);
      if (failed === undefined) throw cause;
      this.#forget(failed);
      this.#settle(failed, { kind: 'unencodable', cause });
      return [];
    }
  }

  #receive(message: Uint8Array): void {
    let results: readonly Result[];
    try {
      results = this.#parts.codec.decode(message);
    } catch (cause) {
      this.pipe.abort();
      this.#end({ kind: 'damaged', cause });
      return;
    }
    for (const result of results) {
      const call = this.#sent.get(result.id);
      // An update that was given up.
      if (call === undefined) continue;
      this.#forget(call);
      if (!call.settled) this.#settle(call, { kind: 'answered', result, givenUp: call.givenUp });
      else this.#parts.onLateAnswer(result);
    }
    this.#endWhenDone();
  }

  #giveUp(call: Call<Request, Result, E>, why: GivenUp): void {
    // Another call that was due in the same turn has ended the stream.
    if (call.settled) return;
    const sent = call.id !== 0;
    if (sent && call.waits && call.givenUp === undefined) {
      // The node answers with CANCELLED, or with the tasks that were leased before.
      call.givenUp = why;
      this.#wheel.remove(call, call.dueSlot);
      call.dueSlot = this.#wheel.add(call, this.#parts.timing.now() + GIVE_UP_MS);
      this.#cancels.push(call.id);
      this.#flushSoon();
      return;
    }
    this.#settle(call, { kind: 'givenUp', why: call.givenUp ?? why, sent });
    if (!sent || !call.waits) this.#forget(call);
    this.#endWhenDone();
  }

  #forget(call: Call<Request, Result, E>): void {
    this.#sent.delete(call.id);
    this.#calls--;
    this.#bytes -= call.size;
  }

  #settle(call: Call<Request, Result, E>, outcome: CallOutcome<Result, E>): void {
    call.settled = true;
    if (call.id !== 0 && call.counted) this.#inFlight--;
    this.#wheel.remove(call, call.dueSlot);
    if (call.onAbort !== undefined) call.signal?.removeEventListener('abort', call.onAbort);
    call.settle(outcome);
    // Its place is free.
    if (this.#head < this.#queue.length) this.#flushSoon();
  }

  #end(end: StreamEnd<E>): void {
    if (this.#over) return;
    this.#over = true;
    const calls = [...this.#sent.values(), ...this.#queue.slice(this.#head)];
    this.#sent.clear();
    this.#queue = [];
    this.#calls = 0;
    this.#wheel.clear();
    for (const call of calls) if (!call.settled) this.#settle(call, { kind: 'lost', end, sent: call.id !== 0 });
    this.#parts.onOver(end);
  }
}
