import {
  CallField,
  encodeStreamEntries,
  limits,
  ResultField,
  type StreamEntry,
  Error as WireErrorType,
} from '@taskmaster/proto';
import type { CallSignal } from '@taskmaster/server/domain';
import { readStream } from './raw-codec.ts';
import type { SendFailure, SendOptions } from './sender.ts';
import { LostError, RefusedError, type RoutedPeer, type Upstream, type UpstreamPipe } from './upstream.ts';

/** Size limit for joining calls into one message, in bytes. */
const MESSAGE_BYTES = 64 * 1024;
/** Maximum size of an entry without the call in it, in bytes. */
export const ENTRY_BYTES = 32;
/** How long a cancelled lease waits for its answer, in ms: it may have been granted before. */
const GIVE_UP_MS = 1_000;
/**
 * Limits for the unanswered calls of one stream and their bytes. They are half of what a node accepts before it stops reading,
 * because the node must still read later messages, such as the cancellation of a lease.
 */
const MOST_CALLS = 8_192;
const MOST_BYTES = 4 * 1024 * 1024;

const NOTHING = new Uint8Array(0);

export interface StreamLinkDeps {
  readonly upstream: Upstream;
  readonly peer: RoutedPeer;
  /** Calls back after `ms`. Returns a function that cancels the timer. */
  readonly after: (ms: number, callback: () => void) => () => void;
  /** Calls back at the end of this turn of the event loop. */
  readonly soon: (callback: () => void) => void;
  /** Called with the answer to a lease whose caller no longer waits. */
  readonly giveBack: (reply: Uint8Array) => void;
}

export type StreamedMethod = 'UpdateTasks' | 'LeaseTasks';

interface Call {
  readonly method: StreamedMethod;
  readonly bytes: Uint8Array;
  readonly resolve: (reply: Uint8Array) => void;
  readonly reject: (failure: SendFailure) => void;
  /** 0: not sent yet. */
  id: number;
  /** True if the caller no longer waits. */
  isOver: boolean;
  /** Removes the timer and the listener of the call. */
  settled: (() => void) | undefined;
}

/**
 * One stream to one node.
 *  L1  A call is in `#queue` until it is sent, then in `#sent` under its id until it is answered. A cancelled lease stays there:
 *      only its answer tells which tasks to release.
 *  L2  When the stream ends, all its calls are settled and the link is over. The next call opens a new link.
 *  L3  The stream is not reset while the node keeps the protocol. Servers close a connection on which streams are reset too
 *      often, and the connection carries calls of other callers.
 */
export class StreamLink {
  readonly #deps: StreamLinkDeps;
  readonly #sent = new Map<number, Call>();
  readonly #pipe: UpstreamPipe;
  readonly #onEnd: (link: StreamLink) => void;
  #queue: Call[] = [];
  #cancels: number[] = [];
  /** Number and bytes of the calls that are unsent or unanswered. */
  #calls = 0;
  #bytes = 0;
  #lastId = 0;
  #flushing = false;
  #blocked = false;
  #ending: boolean;
  #over = false;

  /** `isExtra`: the link ends when all its calls are answered. */
  constructor(address: string, deps: StreamLinkDeps, isExtra: boolean, onEnd: (link: StreamLink) => void) {
    this.#deps = deps;
    this.#ending = isExtra;
    this.#onEnd = onEnd;
    this.#pipe = deps.upstream.stream(
      address,
      { peer: deps.peer },
      {
        onMessage: (message) => this.#receive(message),
        onDrain: () => {
          this.#blocked = false;
          this.#flushSoon();
        },
        onEnd: (failure) => this.#end(failure),
      },
    );
  }

  get hasRoom(): boolean {
    return this.#calls < MOST_CALLS && this.#bytes < MOST_BYTES;
  }

  send(method: StreamedMethod, bytes: Uint8Array, { signal, timeoutMs }: SendOptions): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(new LostError('the call was cancelled', 'cancelled', false));
        return;
      }
      const call: Call = { method, bytes, resolve, reject, id: 0, isOver: false, settled: undefined };
      this.#watch(call, signal, timeoutMs);
      this.#calls++;
      this.#bytes += bytes.length;
      this.#queue.push(call);
      this.#flushSoon();
    });
  }

  hold(held: boolean): void {
    this.#pipe.hold(held);
  }

  /** Ends the stream when all calls are answered. */
  end(): void {
    this.#ending = true;
    this.#endWhenDone();
  }

  #endWhenDone(): void {
    if (!this.#ending || this.#over || this.#calls > 0) return;
    this.#pipe.end();
    this.#over = true;
    this.#onEnd(this);
  }

  #watch(call: Call, signal: CallSignal | undefined, timeoutMs: number | undefined): void {
    if (signal === undefined && timeoutMs === undefined) return;
    let cancelTimer: (() => void) | undefined;
    let isGivenUp = false;
    const over = (kind: 'deadline' | 'cancelled') => (): void => {
      if (isGivenUp) return;
      isGivenUp = true;
      if (call.method !== 'LeaseTasks' || call.id === 0) {
        this.#giveUp(call, kind);
        return;
      }
      // The node answers the lease with CANCELLED, or with the tasks that were leased before.
      this.#cancels.push(call.id);
      this.#flushSoon();
      cancelTimer?.();
      cancelTimer = this.#deps.after(GIVE_UP_MS, () => this.#giveUp(call, kind));
    };
    if (timeoutMs !== undefined) cancelTimer = this.#deps.after(timeoutMs, over('deadline'));
    const onAbort = over('cancelled');
    signal?.addEventListener('abort', onAbort);
    call.settled = () => {
      cancelTimer?.();
      signal?.removeEventListener('abort', onAbort);
    };
  }

  #giveUp(call: Call, kind: 'deadline' | 'cancelled'): void {
    const sent = call.id !== 0;
    call.isOver = true;
    call.settled?.();
    if (!sent) this.#forget(call);
    else if (call.method === 'UpdateTasks') this.#answered(call);
    this.#endWhenDone();
    call.reject(new LostError(kind === 'deadline' ? 'no answer came in time' : 'the call was cancelled', kind, sent));
  }

  #answered(call: Call): void {
    this.#sent.delete(call.id);
    this.#forget(call);
  }

  #forget({ bytes }: Call): void {
    this.#calls--;
    this.#bytes -= bytes.length;
  }

  #flushSoon(): void {
    if (this.#flushing || this.#blocked || this.#over) return;
    this.#flushing = true;
    this.#deps.soon(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (!this.#blocked && !this.#over && this.#queue.length + this.#cancels.length > 0) {
      const entries = this.#nextEntries();
      if (entries.length > 0) this.#blocked = !this.#pipe.write(encodeStreamEntries(entries));
    }
  }

  #nextEntries(): StreamEntry[] {
    const entries: StreamEntry[] = [];
    let bytes = 0;
    let taken = 0;
    for (const call of this.#queue) {
      if (!call.isOver) {
        bytes += call.bytes.length + ENTRY_BYTES;
        if (entries.length > 0 && (bytes > MESSAGE_BYTES || entries.length >= limits.streamCalls)) break;
        call.id = ++this.#lastId;
        this.#sent.set(call.id, call);
        const field = call.method === 'UpdateTasks' ? CallField.update : CallField.lease;
        entries.push({ id: call.id, field, bytes: call.bytes });
      }
      taken++;
    }
    this.#queue = taken === this.#queue.length ? [] : this.#queue.slice(taken);
    for (const id of this.#cancels.splice(0, Math.max(0, limits.streamCalls - entries.length))) {
      entries.push({ id, field: CallField.cancel, bytes: NOTHING });
    }
    return entries;
  }

  #receive(message: Uint8Array): void {
    let results: StreamEntry[];
    try {
      results = readStream(message);
    } catch (cause) {
      this.#pipe.abort();
      this.#end(new LostError('the node sent a damaged answer', 'broken', true, cause));
      return;
    }
    for (const result of results) {
      const call = this.#sent.get(result.id);
      if (call === undefined) continue; // A cancelled update.
      this.#answered(call);
      this.#settle(call, result);
    }
    this.#endWhenDone();
  }

  #settle(call: Call, { field, bytes }: StreamEntry): void {
    const expected = call.method === 'UpdateTasks' ? ResultField.update : ResultField.lease;
    if (call.isOver) {
      if (field === ResultField.lease) this.#deps.giveBack(bytes);
      return;
    }
    call.settled?.();
    if (field === expected) call.resolve(bytes);
    else if (field === ResultField.error) call.reject(refusedFrom(bytes));
    else call.reject(new LostError('the node answered with a result of another kind', 'broken', true));
  }

  #end(failure: SendFailure): void {
    if (this.#over) return;
    this.#over = true;
    this.#onEnd(this);
    const sent = [...this.#sent.values()];
    const unsent = this.#queue;
    this.#sent.clear();
    this.#queue = [];
    const loss = lossOf(failure);
    for (const call of sent) lose(call, loss);
    for (const call of unsent) lose(call, new LostError(loss.message, loss.kind, false));
  }
}

function lose(call: Call, loss: LostError): void {
  if (call.isOver) return;
  call.settled?.();
  call.reject(loss);
}

function refusedFrom(bytes: Uint8Array): SendFailure {
  try {
    return new RefusedError(WireErrorType.decode(bytes));
  } catch (cause) {
    return new LostError('the node sent a damaged refusal', 'broken', true, cause);
  }
}

/** The failure of the calls that were sent on a stream that ended. */
function lossOf(failure: SendFailure): LostError {
  if (failure instanceof LostError) return failure;
  // A node that stops answers every call that it has read before it ends the stream. It has not read the unanswered calls.
  const unread = failure.error.reason === 'SHUTTING_DOWN';
  return new LostError(`the node ended the stream: ${failure.message}`, 'connection', !unread, failure);
}
