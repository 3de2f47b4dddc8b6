import { ServerInterceptingCall } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import { unlimitedAccess } from '../access/caller-access.ts';
import type { PrincipalUsage } from '../access/principal-usage.ts';
import { auditCall } from '../calls/audited-calls.ts';
import { type CallFields, callFields, updateFields } from '../calls/call-fields.ts';
import type { CallObserver } from '../calls/call-observer.ts';
import type { Caller } from '../calls/caller.ts';
import type { Origins } from '../calls/origins.ts';
import type { Origin, RawService, StreamOperation, StreamReply, StreamSession } from '../calls/raw-service.ts';
import type { RevocableCalls } from '../calls/revocable-calls.ts';
import type { WaitingCalls } from '../calls/waiting-calls.ts';
import { refusalOf, toCallStatus, toWireError } from '../calls/wire-errors.ts';
import type { Audit } from '../ports/audit.ts';
import type { CountConnection } from './count-connection.ts';
import type { NextCall } from './receiving/received-messages.ts';
import { encodeAnswers, type StreamAnswer, toMessages } from './stream-results.ts';
import { type Places, StreamWaiter } from './stream-waiter.ts';
import type { UnreadReplies } from './unread-replies.ts';

export interface RequestStreamLimits {
  /**
   * Maximum number of calls of one stream that are served, wait for tasks, or have an unsent answer. Further calls stay unread.
   */
  readonly callsInFlight: number;
  /** Maximum memory for the requests of these calls, in bytes. Further calls stay unread. */
  readonly requestBytes: number;
  /** If the client has this many unread bytes of answers, no further call is served. */
  readonly unreadBytes: number;
}

/**
 * The number of calls leaves room for other calls beside 10,000 waiting leases. The limits in bytes are twice the largest
 * message, so that one message is always on its way while another is processed.
 */
export const DEFAULT_STREAM_LIMITS: RequestStreamLimits = {
  callsInFlight: 16_384,
  requestBytes: 8 * 1024 * 1024,
  unreadBytes: 8 * 1024 * 1024,
};

const NO_BYTES = new Uint8Array(0);

/** The answers to calls whose waits are ended. */
const NOTHING = {
  LeaseTasks: { $case: 'lease', value: { tasks: [], moreQueues: [] } },
  WaitForTasks: { $case: 'wait', value: { ended: [] } },
  // The reader goes on where it was.
  ReadEvents: { $case: 'events', value: { events: [], position: '' } },
} satisfies Record<string, StreamReply>;

/** The share of the calls in flight that may be waiting. Other calls and cancellations are still read. */
const WAITING_PART = 3 / 4;

export interface RequestStreamDeps {
  readonly service: RawService;
  readonly log: Log;
  readonly observer: CallObserver;
  readonly audit: Audit;
  readonly unread: UnreadReplies;
  readonly origins: Origins;
  readonly revocable: RevocableCalls;
  readonly countConnection: CountConnection;
  readonly waiting: WaitingCalls;
  readonly limits: RequestStreamLimits;
  readonly onOpen: (stream: RequestStream) => void;
  /** Called once for every opened stream when it has ended. */
  readonly onClose: (stream: RequestStream) => void;
}

/**
 * Memory that is used until calls are answered. A message counts until its last update is answered. A lease or wait counts
 * alone, because it may take much longer than the updates of its message.
 */
interface Kept {
  readonly bytes: number;
  unanswered: number;
  /** Where the bytes count, too. Undefined: the principal has no quotas, or has reached one. */
  usage?: PrincipalUsage;
}

/** The work for a call: it is served, or it was refused when it was read. Both count alike (S1). */
type Work =
  | Extract<StreamOperation, { readonly kind: 'update' | 'waiting' }>
  | { readonly kind: 'refused'; readonly refusal: Refusal };

interface StreamedCall {
  readonly id: number;
  readonly work: Work;
  readonly kept: Kept;
  readonly began: number;
}

/**
 * Serves one `Stream` call: many concurrent updates, leases and waits, answered in any
 * order.
 *
 *  S1  A message is read only while the calls in flight, their bytes and the unread answers are below their limits, and every
 *      call read before has started. HTTP/2 flow control holds the rest back at the client. Calls that are refused when they are
 *      read count too, because they are the cheapest to send.
 *  S2  Answers that become ready in one turn of the event loop share messages.
 *  S3  After the stream has closed, no task stays leased for it: waiting leases are cancelled, and late ones are released.
 *
 * It works below the Duplex of grpc-js, which would read 16 messages ahead and does not report when answers are read.
 */
export class RequestStream extends ServerInterceptingCall {
  readonly #call: NextCall;
  readonly #deps: RequestStreamDeps;
  readonly #connection: string;
  readonly #began = performance.now();
  #origin: Origin = UNKNOWN;
  #session: StreamSession | undefined;
  readonly #waiting = new Map<number, StreamWaiter>();
  readonly #places: Places;
  /** The caller of all updates. Updates are not cancelled. */
  readonly #caller: Caller;
  /** Calls that were read. Those before `#next` have started. */
  #parked: StreamedCall[] = [];
  #next = 0;
  #inFlight = 0;
  #requestBytes = 0;
  #ready: StreamAnswer[] = [];
  #unreadBytes = 0;
  #reading = false;
  #halfClosed = false;
  #stopping: Refusal | undefined;
  /** True if the status was sent. Earlier messages may still be unread. */
  #ended = false;

  constructor(call: NextCall, deps: RequestStreamDeps) {
    super(call);
    this.#call = call;
    this.#deps = deps;
    this.#connection = call.getPeer();
    const { limits, waiting } = deps;
    const most = Math.ceil(limits.callsInFlight * WAITING_PART);
    this.#places = { most, taken: 0, waiting, connection: this.#connection };
    const stream = this;
    this.#caller = {
      get address() {
        return stream.#origin.address;
      },
      get access() {
        return stream.#origin.access;
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
        this.#deps.onOpen(this);
        const origin = this.#deps.origins.of(metadata, this.#connection);
        if (origin instanceof Promise) void origin.then((known) => this.#open(known));
        else this.#open(origin);
      },
      onReceiveMessage: (message: Buffer) => this.#receive(message),
      onReceiveHalfClose: () => {
        this.#halfClosed = true;
        this.#pump();
      },
      onCancel: () => this.#onClosed(),
    });
  }

  #open(origin: Origin): void {
    if (this.#ended) return;
    this.#origin = origin;
    try {
      origin.access.requireIdentity();
      this.#deps.countConnection(origin, this.#connection);
    } catch (thrown) {
      const refusal = refusalOf(thrown, this.#deps.log);
      this.#deps.observer.callEnded('Stream', refusal.reason, performance.now() - this.#began);
      this.#end(refusal);
      return;
    }
    if (!origin.access.isUnlimited) this.#deps.revocable.add(this, origin.access.expiresAt);
    this.#session = this.#deps.service.openStream(origin);
    this.#pump();
  }

  /** Ends the stream if its credential is not valid any more, and the calls that wait for what the caller has lost. */
  recheck(): void {
    try {
      this.#origin.access.requireIdentity();
    } catch (thrown) {
      this.stop(refusalOf(thrown, this.#deps.log));
    }
    for (const waiter of [...this.#waiting.values()]) waiter.recheck();
  }

  /** Ends waiting calls without tasks, finishes calls in flight, then ends the stream with this status. */
  stop(reason: Refusal): void {
    if (this.#stopping !== undefined) return;
    this.#stopping = reason;
    for (const waiter of this.#waiting.values()) waiter.endWaiting();
    this.#pump();
  }

  #receive(message: Buffer): void {
    this.#reading = false;
    if (this.#ended || this.#session === undefined) return;
    let calls: readonly StreamOperation[];
    try {
      calls = this.#session.read(message);
    } catch (thrown) {
      // The calls of the message are unknown, so they cannot be answered separately.
      this.#end(refusalOf(thrown, this.#deps.log));
      return;
    }
    const began = performance.now();
    const updates: Kept = { bytes: message.length, unanswered: 0 };
    for (const call of calls) {
      if (call.kind === 'cancel') {
        this.#waiting.get(call.id)?.cancel();
      } else {
        const kept = call.kind === 'waiting' ? { bytes: call.bytes, unanswered: 0 } : updates;
        if (kept.unanswered++ === 0) this.#requestBytes += kept.bytes;
        const refusal = this.#quotaRefusal(kept);
        const work: Work = refusal === undefined ? this.#workOf(call) : { kind: 'refused', refusal };
        this.#parked.push({ id: call.id, work, kept, began });
      }
    }
    this.#pump();
  }

  /** Counts a call for its principal. Returns a refusal if the principal has reached a quota. */
  #quotaRefusal(kept: Kept): Refusal | undefined {
    const { usage } = this.#origin.access;
    if (usage === undefined) return undefined;
    try {
      if (kept.usage === undefined) {
        usage.begin(kept.bytes);
        kept.usage = usage;
      } else {
        usage.request();
      }
      return undefined;
    } catch (thrown) {
      return refusalOf(thrown, this.#deps.log);
    }
  }

  #release(kept: Kept): void {
    if (--kept.unanswered > 0) return;
    this.#requestBytes -= kept.bytes;
    kept.usage?.end(kept.bytes);
  }

  #workOf(operation: Exclude<StreamOperation, { readonly kind: 'cancel' }>): Work {
    const { id } = operation;
    if (operation.kind === 'none') {
      return { kind: 'refused', refusal: new Refusal('MALFORMED_REQUEST', `call ${id} names no operation`) };
    }
    if (operation.kind === 'waiting') {
      if (this.#waiting.has(id)) {
        const problem = `call ${id}: an unanswered lease or wait has the same id`;
        return { kind: 'refused', refusal: new Refusal('INVALID_ARGUMENT', problem) };
      }
      this.#waiting.set(id, new StreamWaiter(this.#origin, this.#places));
    }
    return operation;
  }

  /** Starts calls within the limits. If all have started, reads the next message (S1). */
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
    } else if (
      this.#session !== undefined &&
      !this.#reading &&
      this.#mayServe() &&
      this.#requestBytes < this.#deps.limits.requestBytes
    ) {
      this.#reading = true;
      this.#call.startRead();
    }
  }

  #mayServe(): boolean {
    return this.#inFlight + this.#ready.length < this.#deps.limits.callsInFlight && !this.#isUnread;
  }

  /** True if the client has too many unread answers to be served further calls. */
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
    const waiter = this.#waiting.get(call.id) ?? new StreamWaiter(this.#origin, this.#places);
    if (this.#stopping !== undefined) waiter.endWaiting();
    if (waiter.gone) {
      this.#refuse(call, new Refusal('CANCELLED', 'the call was cancelled before it was tried'));
      return;
    }
    work.run(waiter).then(
      (reply) => this.#answer(call, reply, undefined),
      (thrown: unknown) => {
        if (waiter.revoked !== undefined) this.#refuse(call, waiter.revoked);
        else if (waiter.endedWaiting(thrown)) this.#answer(call, NOTHING[work.method], undefined);
        else this.#refuse(call, thrown);
      },
    );
  }

  #refuse(call: StreamedCall, thrown: unknown): void {
    const refusal = refusalOf(thrown, this.#deps.log, () => fieldsOf(call));
    this.#recordRefusal(call.work.kind === 'waiting' ? call.work.method : 'UpdateTasks', refusal);
    this.#answer(call, { $case: 'error', value: toWireError(refusal) }, refusal);
  }

  #recordRefusal(method: string, { reason }: Refusal): void {
    const { address, forwarded, access } = this.#origin;
    const { principal } = access;
    const ended = { method, request: NO_BYTES, address, forwarded, principal, peer: this.#connection };
    auditCall(this.#deps.audit, ended, reason);
  }

  #answer(call: StreamedCall, reply: StreamReply, refusal: Refusal | undefined): void {
    this.#inFlight--;
    const { work, kept, began, id } = call;
    this.#release(kept);
    // A call that was refused when it was read has the id of another lease, or no method.
    if (work.kind === 'waiting') {
      this.#waiting.get(id)?.ended();
      this.#waiting.delete(id);
    }
    if (work.kind !== 'refused') {
      const method = work.kind === 'waiting' ? work.method : 'UpdateTasks';
      this.#deps.observer.callEnded(method, refusal?.reason, performance.now() - began);
    }
    this.#sendSoon({ id, reply });
  }

  #sendSoon(answer: StreamAnswer): void {
    if (this.#ended) return;
    this.#ready.push(answer);
    // All answers of this turn are ready by then (S2).
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
    if (refusal !== undefined) this.#recordRefusal('Stream', refusal);
    this.#call.sendStatus(refusal === undefined ? { code: 0, details: 'OK' } : toCallStatus(refusal));
  }

  /** Called once by grpc-js, when the client is gone or has read the status. */
  #onClosed(): void {
    this.#giveUp();
    this.#deps.unread.remove(this.#connection, this.#unreadBytes);
    this.#unreadBytes = 0;
    this.#session?.close();
    this.#deps.revocable.delete(this);
    this.#deps.onClose(this);
  }

  #giveUp(): void {
    this.#ended = true;
    for (const waiter of this.#waiting.values()) waiter.cancel();
    for (const { kept } of this.#parked.slice(this.#next)) this.#release(kept);
    this.#parked = [];
    this.#ready = [];
  }
}

function fieldsOf({ work }: StreamedCall): CallFields {
  if (work.kind === 'waiting') return callFields(work.method, work.traceparent);
  return work.kind === 'update' && work.known !== undefined
    ? updateFields('UpdateTasks', work.known)
    : callFields('UpdateTasks', undefined);
}

/** The caller until the headers of the stream are read. No call is served before. */
const UNKNOWN: Origin = { address: '', routed: false, forwarded: false, access: unlimitedAccess };
