import type { CallSignal } from '@taskmaster/node/grpc';
import {
  CallField,
  encodeStreamEntries,
  limits,
  ResultField,
  type StreamEntry,
  Error as WireErrorType,
} from '@taskmaster/proto';
import { readStream } from './raw-codec.ts';
import type { Sender, SendFailure, SendOptions } from './sender.ts';
import { Lost, Refused, type UnaryMethod, type Upstream, type UpstreamPipe } from './upstream.ts';

/** Calls are joined into messages of about this size. */
const MESSAGE_BYTES = 64 * 1024;
/** What an entry takes beside the call in it, at most. */
const ENTRY_BYTES = 32;
/** How long a lease that was given up waits to hear whether it was granted first, in ms. */
const GIVE_UP_MS = 1_000;

const NOTHING = new Uint8Array(0);

export interface StreamSenderDeps {
  readonly upstream: Upstream;
  readonly peer: string;
  /** Calls back after so many ms; returns what ends the timer. */
  readonly after: (ms: number, callback: () => void) => () => void;
  /** Calls back at the end of this turn of the event loop. */
  readonly soon: (callback: () => void) => void;
}

interface Call {
  readonly method: 'UpdateTasks' | 'LeaseTasks';
  readonly bytes: Uint8Array;
  readonly resolve: (reply: Uint8Array) => void;
  readonly reject: (failure: SendFailure) => void;
  /** 0: not sent. */
  id: number;
  /** Ends its timer and its listener. */
  settled: (() => void) | undefined;
}

/**
 * The calls of one caller over one stream to each node. What is asked in one turn of the event loop travels in one message;
 * a stream that breaks takes only its own calls along.
 */
export class StreamSender implements Sender {
  readonly #deps: StreamSenderDeps;
  readonly #links = new Map<string, Link>();
  #held = false;
  #closed = false;

  constructor(deps: StreamSenderDeps) {
    this.#deps = deps;
  }

  send(address: string, method: UnaryMethod, request: Uint8Array, options: SendOptions): Promise<Uint8Array> {
    const { upstream, peer } = this.#deps;
    const streamed = method === 'UpdateTasks' || method === 'LeaseTasks';
    // One that fills a message by itself would not fit with the entry around it.
    if (!streamed || request.length + ENTRY_BYTES > limits.requestBytes || upstream.isLocal?.(address)) {
      return upstream.unary(address, method, request, { ...options, peer });
    }
    if (this.#closed) return Promise.reject(new Lost('the caller is gone', 'cancelled', false));
    try {
      return this.#linkTo(address).send(method, request, options);
    } catch (thrown) {
      return Promise.reject(thrown);
    }
  }

  /** Whether answers are to be held back at the nodes. */
  hold(held: boolean): void {
    if (this.#held === held) return;
    this.#held = held;
    for (const link of this.#links.values()) link.hold(held);
  }

  /**
   * Nothing more is sent. Streams end once what was sent is answered: a lease that was given up may have been granted
   * before, and only its answer tells what there is to give back.
   */
  end(): void {
    this.hold(false);
    this.#closed = true;
    for (const link of this.#links.values()) link.end();
  }

  #linkTo(address: string): Link {
    let link = this.#links.get(address);
    if (link === undefined) {
      link = new Link(address, this.#deps, () => this.#links.delete(address));
      if (this.#held) link.hold(true);
      this.#links.set(address, link);
    }
    return link;
  }
}

/**
 * One stream to one node.
 *  L1  A call is in `#queue` until it is sent, then in `#sent` under its id until it is settled.
 *  L2  When the stream ends every call of it is settled, and the link is done: the next call makes a new one.
 */
class Link {
  readonly #deps: StreamSenderDeps;
  readonly #sent = new Map<number, Call>();
  readonly #pipe: UpstreamPipe;
  readonly #onEnd: () => void;
  #queue: Call[] = [];
  #cancels: number[] = [];
  #lastId = 0;
  #flushing = false;
  #blocked = false;
  #ending = false;
  #over = false;

  constructor(address: string, deps: StreamSenderDeps, onEnd: () => void) {
    this.#deps = deps;
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

  send(method: Call['method'], bytes: Uint8Array, { signal, timeoutMs }: SendOptions): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(new Lost('the call was given up', 'cancelled', false));
        return;
      }
      const call: Call = { method, bytes, resolve, reject, id: 0, settled: undefined };
      this.#watch(call, signal, timeoutMs);
      this.#queue.push(call);
      this.#flushSoon();
    });
  }

  hold(held: boolean): void {
    this.#pipe.hold(held);
  }

  end(): void {
    this.#ending = true;
    this.#endWhenDone();
  }

  #endWhenDone(): void {
    if (!this.#ending || this.#over || this.#sent.size + this.#queue.length > 0) return;
    this.#pipe.close();
    this.#over = true;
    this.#onEnd();
  }

  #watch(call: Call, signal: CallSignal | undefined, timeoutMs: number | undefined): void {
    if (signal === undefined && timeoutMs === undefined) return;
    let cancelTimer: (() => void) | undefined;
    const over = (kind: 'deadline' | 'cancelled') => (): void => {
      if (call.method !== 'LeaseTasks' || call.id === 0) {
        this.#giveUp(call, kind);
        return;
      }
      // The node answers it: CANCELLED, or with the tasks that it was granted before.
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
    if (sent) this.#sent.delete(call.id);
    else this.#queue = this.#queue.filter((other) => other !== call);
    call.settled?.();
    this.#endWhenDone();
    call.reject(new Lost(kind === 'deadline' ? 'no answer came in time' : 'the call was given up', kind, sent));
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
      this.#blocked = !this.#pipe.write(encodeStreamEntries(entries));
    }
  }

  #nextEntries(): StreamEntry[] {
    const entries: StreamEntry[] = [];
    let bytes = 0;
    let taken = 0;
    for (const call of this.#queue) {
      bytes += call.bytes.length + ENTRY_BYTES;
      if (taken > 0 && (bytes > MESSAGE_BYTES || taken >= limits.streamCalls)) break;
      taken++;
      call.id = ++this.#lastId;
      this.#sent.set(call.id, call);
      const field = call.method === 'UpdateTasks' ? CallField.update : CallField.lease;
      entries.push({ id: call.id, field, bytes: call.bytes });
    }
    this.#queue = taken === this.#queue.length ? [] : this.#queue.slice(taken);
    for (const id of this.#cancels.splice(0, Math.max(0, limits.streamCalls - taken))) {
      entries.push({ id, field: CallField.cancel, bytes: NOTHING });
    }
    return entries;
  }

  #receive(message: Uint8Array): void {
    let results: StreamEntry[];
    try {
      results = readStream(message);
    } catch (cause) {
      this.#pipe.close();
      this.#end(new Lost('the node sent a damaged answer', 'broken', true, cause));
      return;
    }
    for (const { id, field, bytes } of results) {
      const call = this.#sent.get(id);
      if (call === undefined) continue; // Given up.
      this.#sent.delete(id);
      call.settled?.();
      const expected = call.method === 'UpdateTasks' ? ResultField.update : ResultField.lease;
      if (field === expected) call.resolve(bytes);
      else if (field === ResultField.error) call.reject(refusedFrom(bytes));
      else call.reject(new Lost('the node answered with a result of another kind', 'broken', true));
    }
    this.#endWhenDone();
  }

  #end(failure: SendFailure): void {
    if (this.#over) return;
    this.#over = true;
    this.#onEnd();
    const sent = [...this.#sent.values()];
    const unsent = this.#queue;
    this.#sent.clear();
    this.#queue = [];
    const loss = lossOf(failure);
    for (const call of sent) {
      call.settled?.();
      call.reject(loss);
    }
    for (const call of unsent) {
      call.settled?.();
      call.reject(new Lost(loss.message, loss.kind, false));
    }
  }
}

function refusedFrom(bytes: Uint8Array): SendFailure {
  try {
    return new Refused(WireErrorType.decode(bytes));
  } catch (cause) {
    return new Lost('the node sent a damaged refusal', 'broken', true, cause);
  }
}

/** What the end of a stream means for the calls that were sent on it. */
function lossOf(failure: SendFailure): Lost {
  if (failure instanceof Lost) return failure;
  // A node that stops answers every call it has read before it ends the stream: these it never read.
  const unread = failure.error.reason === 'SHUTTING_DOWN';
  return new Lost(`the node ended the stream: ${failure.message}`, 'connection', !unread, failure);
}
