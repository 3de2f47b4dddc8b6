import { ServerInterceptingCall } from '@grpc/grpc-js';
import { Refusal } from '../domain/refusal.ts';
import type { Log } from '../ports/log.ts';
import type { CallObserver } from '../service/call-observer.ts';
import type { Caller } from '../service/caller.ts';
import type { RawService, StreamOperation, StreamReply, StreamSession } from '../service/raw-service.ts';
import { originOf } from '../service/routing-headers.ts';
import { refusalOf, toCallStatus, toWireError } from '../service/wire-errors.ts';
import type { NextCall } from './received-messages.ts';
import { encodeAnswers, type StreamAnswer, toMessages } from './stream-results.ts';
import type { UnreadReplies } from './unread-replies.ts';
import { tooManyWait } from './waiting-calls.ts';

export interface RequestStreamLimits {
  /** Most calls of one stream being served, waiting for tasks, or answered and not yet sent; more stay unread. */
  readonly callsInFlight: number;
  /** Most bytes of what is kept for calls that are being served; more stay unread. */
  readonly requestBytes: number;
  /** Unread bytes of answers from which on no further call is served. */
  readonly unreadBytes: number;
}

/**
 * Calls in flight: a client may have 10,000 waiting leases on one stream and still be heard. Bytes: twice the largest
 * message each, so that one is always on its way while another is worked on.
 */
export const DEFAULT_STREAM_LIMITS: RequestStreamLimits = {
  callsInFlight: 16_384,
  requestBytes: 8 * 1024 * 1024,
  unreadBytes: 8 * 1024 * 1024,
};

/** Of the calls in flight, leases that wait may be so many: other calls, and those that give a lease up, are still read. */
const WAITING_PART = 3 / 4;

export interface RequestStreamDeps {
  readonly service: RawService;
  readonly log: Log;
  readonly observer: CallObserver;
  readonly unread: UnreadReplies;
  readonly limits: RequestStreamLimits;
  readonly onOpen: (stream: RequestStream) => void;
  /** Called once for every stream that opened, however it ended. */
  readonly onClose: (stream: RequestStream) => void;
}

/**
 * What is in memory until calls are answered: a message until the last of its updates is, and each lease by itself, for it
 * may wait for long and must not count for the updates that came with it.
 */
interface Kept {
  readonly bytes: number;
  unanswered: number;
}

/** What becomes of a call: it is served, or was refused as it was read. Both have their turn (S1). */
type Work =
  | Extract<StreamOperation, { readonly kind: 'update' | 'lease' }>
  | { readonly kind: 'refused'; readonly refusal: Refusal };

interface StreamedCall {
  readonly id: number;
  readonly work: Work;
  readonly kept: Kept;
  readonly began: number;
}

/**
 * One `Stream` call: many updates and leases at once, answered in any order.
 *
 *  S1  A message is read only while calls in flight, their bytes and the unread answers are below their bounds and every
 *      call read before has been started. HTTP/2 flow control holds back the rest at the client. Calls that are refused
 *      unserved count as all others: they are the cheapest to send.
 *  S2  The answers that became ready in one turn of the event loop travel together.
 *  S3  Once the stream is closed nothing is leased for it: waiting leases are given up, late ones given back.
 *
 * It drives the call below grpc-js's Duplex, which would read 16 messages ahead and not tell when answers were read.
 */
export class RequestStream extends ServerInterceptingCall {
  readonly #call: NextCall;
  readonly #deps: RequestStreamDeps;
  readonly #connection: string;
  #address = '';
  #session: StreamSession | undefined;
  readonly #leases = new Map<number, StreamLease>();
  readonly #places: Places;
  /** Of updates, which are not given up. */
  readonly #caller: Caller;
  /** Read but not started; those before `#next` are. */
  #parked: StreamedCall[] = [];
  #next = 0;
  #inFlight = 0;
  #requestBytes = 0;
  #ready: StreamAnswer[] = [];
  #unreadBytes = 0;
  #reading = false;
  #halfClosed = false;
  #stopping: Refusal | undefined;
  /** Its status was sent; what was written before may still be unread. */
  #ended = false;

  constructor(call: NextCall, deps: RequestStreamDeps) {
    super(call);
    this.#call = call;
    this.#deps = deps;
    this.#connection = call.getPeer();
    this.#places = { most: Math.ceil(deps.limits.callsInFlight * WAITING_PART), taken: 0 };
    const stream = this;
    this.#caller = {
      get address() {
        return stream.#address;
      },
      get gone() {
        return stream.#ended;
      },
      signal: undefined,
    };
  }

  override start(_listener: Parameters<ServerInterceptingCall['start']>[0]): void {
    this.#call.start({
      onReceiveMetadata: (metadata) => {
        const origin = originOf(metadata, this.#connection);
        this.#address = origin.address;
        this.#session = this.#deps.service.openStream(origin);
        this.#deps.onOpen(this);
        this.#pump();
      },
      onReceiveMessage: (message: Buffer) => this.#receive(message),
      onReceiveHalfClose: () => {
        this.#halfClosed = true;
        this.#pump();
      },
      onCancel: () => this.#onClosed(),
    });
  }

  /** Ends waiting leases with no tasks, finishes what is in flight, then ends the stream with this status. */
  stop(reason: Refusal): void {
    if (this.#stopping !== undefined) return;
    this.#stopping = reason;
    for (const lease of this.#leases.values()) lease.endWaiting();
    this.#pump();
  }

  #receive(message: Buffer): void {
    this.#reading = false;
    if (this.#ended || this.#session === undefined) return;
    let calls: readonly StreamOperation[];
    try {
      calls = this.#session.read(message);
    } catch (thrown) {
      // Which calls it would have made is not known, so none can be answered on its own.
      this.#end(refusalOf(thrown, this.#deps.log));
      return;
    }
    const began = performance.now();
    const updates: Kept = { bytes: message.length, unanswered: 0 };
    for (const call of calls) {
      if (call.kind === 'cancel') {
        this.#leases.get(call.id)?.cancel();
      } else {
        const kept = call.kind === 'lease' ? { bytes: call.bytes, unanswered: 0 } : updates;
        if (kept.unanswered++ === 0) this.#requestBytes += kept.bytes;
        this.#parked.push({ id: call.id, work: this.#workOf(call), kept, began });
      }
    }
    this.#pump();
  }

  #workOf(operation: Exclude<StreamOperation, { readonly kind: 'cancel' }>): Work {
    const { id } = operation;
    if (operation.kind === 'none') {
      return { kind: 'refused', refusal: new Refusal('MALFORMED_REQUEST', `call ${id} names no operation`) };
    }
    if (operation.kind === 'lease') {
      if (this.#leases.has(id)) {
        const problem = `call ${id}: an unanswered lease has the same id`;
        return { kind: 'refused', refusal: new Refusal('INVALID_ARGUMENT', problem) };
      }
      this.#leases.set(id, new StreamLease(this.#address, this.#places));
    }
    return operation;
  }

  /** Starts what may start, then reads on if that was all (S1). */
  #pump(): void {
    if (this.#ended) return;
    for (let call = this.#parked[this.#next]; call !== undefined && this.#mayServe(); call = this.#parked[this.#next]) {
      this.#next++;
      this.#serve(call);
    }
    if (this.#next < this.#parked.length) return;
    this.#parked = [];
    this.#next = 0;

    const idle = this.#inFlight === 0 && this.#ready.length === 0;
    if (this.#stopping !== undefined) {
      if (idle) this.#end(this.#stopping);
    } else if (this.#halfClosed) {
      if (idle) this.#end(undefined);
    } else if (!this.#reading && this.#mayServe() && this.#requestBytes < this.#deps.limits.requestBytes) {
      this.#reading = true;
      this.#call.startRead();
    }
  }

  #mayServe(): boolean {
    return this.#inFlight + this.#ready.length < this.#deps.limits.callsInFlight && !this.#isUnread;
  }

  /** The client has so many unread answers that it gets no more to do. */
  get #isUnread(): boolean {
    return this.#unreadBytes >= this.#deps.limits.unreadBytes;
  }

  #serve(call: StreamedCall): void {
    this.#inFlight++;
    const { work } = call;
    if (work.kind === 'refused') {
      this.#refuse(call, work.refusal);
      return;
    }
    if (work.kind === 'update') {
      work.run(this.#caller).then(
        (reply) => this.#answer(call, reply, undefined),
        (thrown: unknown) => this.#refuse(call, thrown),
      );
      return;
    }
    const lease = this.#leases.get(call.id) ?? new StreamLease(this.#address, this.#places);
    if (this.#stopping !== undefined) lease.endWaiting();
    if (lease.gone) {
      this.#refuse(call, new Refusal('CANCELLED', 'the lease was given up before it was tried'));
      return;
    }
    work.run(lease).then(
      (reply) => this.#answer(call, reply, undefined),
      (thrown: unknown) => {
        if (lease.endedWaiting(thrown)) this.#answer(call, { $case: 'lease', value: { tasks: [] } }, undefined);
        else this.#refuse(call, thrown);
      },
    );
  }

  #refuse(call: StreamedCall, thrown: unknown): void {
    const refusal = refusalOf(thrown, this.#deps.log);
    this.#answer(call, { $case: 'error', value: toWireError(refusal) }, refusal);
  }

  #answer(call: StreamedCall, reply: StreamReply, refusal: Refusal | undefined): void {
    this.#inFlight--;
    const { work, kept, began, id } = call;
    if (--kept.unanswered === 0) this.#requestBytes -= kept.bytes;
    // One that was refused as it was read has the id of another lease, or no method.
    if (work.kind === 'lease') {
      this.#leases.get(id)?.ended();
      this.#leases.delete(id);
    }
    if (work.kind !== 'refused') {
      const method = work.kind === 'lease' ? 'LeaseTasks' : 'UpdateTasks';
      this.#deps.observer.callEnded(method, refusal?.reason, performance.now() - began);
    }
    this.#sendSoon({ id, reply });
  }

  #sendSoon(answer: StreamAnswer): void {
    if (this.#ended) return;
    this.#ready.push(answer);
    // By then everything else that this turn makes ready has joined (S2).
    if (this.#ready.length === 1) setImmediate(() => this.#flush());
  }

  #flush(): void {
    if (this.#ended) return;
    const ready = this.#ready;
    this.#ready = [];
    try {
      for (const answers of toMessages(ready)) this.#send(encodeAnswers(answers));
    } catch (thrown) {
      this.#end(refusalOf(thrown, this.#deps.log));
      return;
    }
    this.#pump();
  }

  #send(message: Buffer): void {
    const bytes = message.length;
    this.#unreadBytes += bytes;
    this.#deps.unread.add(this.#connection, bytes);
    this.#session?.hold(this.#isUnread);
    this.#call.sendMessage(message, () => {
      this.#unreadBytes -= bytes;
      this.#deps.unread.remove(this.#connection, bytes);
      this.#session?.hold(this.#isUnread);
      this.#pump();
    });
  }

  #end(refusal: Refusal | undefined): void {
    this.#giveUp();
    this.#call.sendStatus(refusal === undefined ? { code: 0, details: 'OK' } : toCallStatus(refusal));
  }

  /** grpc-js says so once, when the client is gone or has read the status. */
  #onClosed(): void {
    this.#giveUp();
    this.#deps.unread.remove(this.#connection, this.#unreadBytes);
    this.#unreadBytes = 0;
    this.#session?.close();
    this.#deps.onClose(this);
  }

  #giveUp(): void {
    this.#ended = true;
    for (const lease of this.#leases.values()) lease.cancel();
    this.#parked = [];
    this.#ready = [];
  }
}

/** How many leases of one stream may wait for tasks, and do. */
interface Places {
  readonly most: number;
  taken: number;
}

/** The caller of one lease on a stream. */
class StreamLease implements Caller {
  readonly address: string;
  readonly #places: Places;
  #waits = false;
  #gone = false;
  #waitsNoLonger = false;
  #abort: AbortController | undefined;

  constructor(address: string, places: Places) {
    this.address = address;
    this.#places = places;
  }

  beginWaiting(): void {
    const { most, taken } = this.#places;
    if (taken >= most) throw tooManyWait(most, 'stream');
    this.#places.taken++;
    this.#waits = true;
  }

  /** It has its answer. */
  ended(): void {
    if (this.#waits) this.#places.taken--;
  }

  get gone(): boolean {
    return this.#gone;
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#gone || this.#waitsNoLonger) this.#abort.abort();
    return this.#abort.signal;
  }

  /** The client wants no answer any more. */
  cancel(): void {
    this.#gone = true;
    this.#abort?.abort();
  }

  /** The client is to have its answer now. */
  endWaiting(): void {
    this.#waitsNoLonger = true;
    this.#abort?.abort();
  }

  /** Whether it failed only because `endWaiting` cut its waiting short. */
  endedWaiting(thrown: unknown): boolean {
    return this.#waitsNoLonger && !this.#gone && thrown instanceof Refusal && thrown.reason === 'CANCELLED';
  }
}
