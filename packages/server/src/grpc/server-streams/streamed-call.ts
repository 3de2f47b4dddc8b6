import type { ServerWritableStream } from '@grpc/grpc-js';
import { type CallSignal, Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import type { CallerAccess } from '../../access/caller-access.ts';
import { auditCall } from '../../calls/audited-calls.ts';
import type { CallObserver } from '../../calls/call-observer.ts';
import type { Origin, UnaryCaller } from '../../calls/raw-service.ts';
import type { WaitingCalls } from '../../calls/waiting-calls.ts';
import { refusalOf, toCallStatus } from '../../calls/wire-errors.ts';
import type { Audit } from '../../ports/audit.ts';
import type { CountConnection } from '../count-connection.ts';
import type { UnreadReplies } from '../unread-replies.ts';

/**
 * While a call has more unread bytes than this, no further message is made. Two messages fit: one is read while the next one
 * is made.
 */
const UNREAD_BYTES = 512 * 1024;

export interface StreamedCallDeps {
  readonly method: string;
  readonly log: Log;
  readonly observer: CallObserver;
  readonly audit: Audit;
  readonly unread: UnreadReplies;
  readonly waiting: WaitingCalls;
  /** A client that reads nothing for this time gets the refusal, in ms. */
  readonly readTimeoutMs: number;
  /** The refusal for such a client. */
  readonly tooSlow: () => Refusal;
  readonly countConnection: CountConnection;
}

/**
 * A call whose answer is a stream. A message is made when the client has read most of the earlier ones, so that a slow
 * client needs no memory. It is also the caller of its handler.
 */
export class StreamedCall implements UnaryCaller {
  readonly #call: ServerWritableStream<Buffer, Buffer>;
  readonly #deps: StreamedCallDeps;
  readonly #connection: string;
  readonly #origin: Origin;
  #recheck: (() => void) | undefined;
  readonly #began = performance.now();
  readonly #gone = new AbortController();
  /** How the server ends the call. */
  #ending: Refusal | 'complete' | undefined;
  #waits = false;
  #unreadBytes = 0;
  /** Resumes `#roomForMore`. */
  #wake = (): void => {};

  constructor(call: ServerWritableStream<Buffer, Buffer>, deps: StreamedCallDeps, origin: Origin) {
    this.#call = call;
    this.#deps = deps;
    this.#connection = call.getPeer();
    this.#origin = origin;
    // Called at every end of the call. After it grpc-js does not report that messages were read.
    call.once('cancelled', () => {
      deps.unread.remove(this.#connection, this.#unreadBytes);
      this.#giveUp();
    });
  }

  get address(): string {
    return this.#origin.address;
  }

  get routed(): boolean {
    return this.#origin.routed;
  }

  get forwarded(): boolean {
    return this.#origin.forwarded;
  }

  get access(): CallerAccess {
    return this.#origin.access;
  }

  get deadline(): number {
    const deadline = this.#call.getDeadline();
    return typeof deadline === 'number' ? deadline : deadline.getTime();
  }

  get gone(): boolean {
    return this.#gone.signal.aborted;
  }

  get signal(): CallSignal {
    return this.#gone.signal;
  }

  /** Counts among the calls of its connection that wait, until it ends. */
  beginWaiting(bytes: number, recheck?: () => void): void {
    this.#recheck = recheck;
    if (this.#waits || this.gone) return;
    const { waiting } = this.#deps;
    const { usage } = this.access;
    waiting.add(this.#connection, bytes, usage);
    this.#call.once('cancelled', () => waiting.remove(this.#connection, bytes, usage));
    this.#waits = true;
  }

  /** Ends the call if its caller may not make it, or has reached a quota. */
  admit(): void {
    this.recheck();
    try {
      this.#deps.countConnection(this, this.#connection);
      this.access.usage?.request();
    } catch (thrown) {
      this.stop(refusalOf(thrown, this.#deps.log));
    }
  }

  /** Ends the call if its caller may not make it any more. */
  recheck(): void {
    try {
      this.access.requireIdentity();
      this.#recheck?.();
    } catch (thrown) {
      this.stop(refusalOf(thrown, this.#deps.log));
    }
  }

  /** Ends the call after the messages that were sent, with this status or with OK. */
  stop(reason: Refusal | 'complete'): void {
    this.#ending ??= reason;
    this.#giveUp();
  }

  /** Sends the messages, then the status. Never rejects. */
  async send(messages: AsyncIterable<Uint8Array>): Promise<void> {
    const refusal = await this.#sendAll(messages).catch((thrown: unknown) => refusalOf(thrown, this.#deps.log));
    const ending = this.#ending ?? refusal;
    const reason = ending === 'complete' ? undefined : ending;
    const { observer, audit, method } = this.#deps;
    observer.callEnded(method, reason?.reason, performance.now() - this.#began);
    const { address, forwarded, access } = this;
    const { principal } = access;
    const ended = { method, request: this.#call.request, address, forwarded, principal, peer: this.#connection };
    auditCall(audit, ended, reason?.reason);
    if (this.#call.cancelled) return;
    if (reason === undefined) this.#call.end();
    else this.#call.emit('error', toCallStatus(reason));
  }

  /** Resolves with the reason if the call must end early. */
  async #sendAll(messages: AsyncIterable<Uint8Array>): Promise<Refusal | undefined> {
    if (this.gone) return new Refusal('CANCELLED', 'the call was cancelled');
    for await (const message of messages) {
      if (this.gone) break;
      this.#write(message);
      await this.#roomForMore();
      if (this.gone) break;
    }
    return this.gone ? new Refusal('CANCELLED', 'the call was cancelled') : undefined;
  }

  #write({ buffer, byteOffset, byteLength }: Uint8Array): void {
    this.#unreadBytes += byteLength;
    this.#deps.unread.add(this.#connection, byteLength);
    this.#call.write(Buffer.from(buffer, byteOffset, byteLength), () => {
      if (this.#call.cancelled) return;
      this.#unreadBytes -= byteLength;
      this.#deps.unread.remove(this.#connection, byteLength);
      this.#wake();
    });
  }

  async #roomForMore(): Promise<void> {
    while (this.#unreadBytes > UNREAD_BYTES && !this.gone) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const timer = setTimeout(() => this.stop(this.#deps.tooSlow()), this.#deps.readTimeoutMs);
      await promise;
      clearTimeout(timer);
    }
  }

  #giveUp(): void {
    this.#gone.abort();
    this.#wake();
  }
}
