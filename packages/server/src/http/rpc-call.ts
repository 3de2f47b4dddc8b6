import { setMaxListeners } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import type { Reason } from '@taskmaster/proto';
import type { CallerAccess } from '../access/caller-access.ts';
import type { PrincipalUsage } from '../access/principal-usage.ts';
import { auditCall, type EndedCall } from '../calls/audited-calls.ts';
import { callFields } from '../calls/call-fields.ts';
import type { CallObserver } from '../calls/call-observer.ts';
import { peerAddress } from '../calls/host-port.ts';
import type { UnaryCaller, UnaryHandler } from '../calls/raw-service.ts';
import type { RevocableCall, RevocableCalls } from '../calls/revocable-calls.ts';
import type { WaitingCalls } from '../calls/waiting-calls.ts';
import { refusalOf } from '../calls/wire-errors.ts';
import type { Audit } from '../ports/audit.ts';

export interface RpcCallDeps {
  readonly observer: CallObserver;
  readonly audit: Audit;
  readonly waiting: WaitingCalls;
  readonly revocable: RevocableCalls;
  readonly log: Log;
}

/** What a call over HTTP is made of. */
export interface RpcCallParts {
  readonly method: string;
  readonly request: Buffer;
  readonly access: CallerAccess;
  readonly socket: Socket;
  readonly response: ServerResponse;
  readonly timeoutMs: number;
  /** The span of the caller, as it says. */
  readonly traceparent: string | undefined;
}

/** The connection of a caller as quotas know it. gRPC connections have other names. */
export const quotaConnection = ({ remoteAddress, remotePort }: Socket): string => `http ${remoteAddress}:${remotePort}`;

/** A call over HTTP until its handler has answered. Like a unary call of gRPC it is its own caller. */
export class RpcCall implements UnaryCaller, EndedCall, RevocableCall {
  readonly method: string;
  readonly request: Buffer;
  readonly access: CallerAccess;
  readonly address: string;
  readonly routed = false;
  readonly forwarded = false;
  readonly deadline: number;
  readonly traceparent: string | undefined;
  readonly #deps: RpcCallDeps;
  readonly #parts: RpcCallParts;
  readonly #host: string;
  readonly #began = performance.now();
  readonly #end = new AbortController();
  readonly #ended = Promise.withResolvers<never>();
  #usage: PrincipalUsage | undefined;
  #waiters = 0;
  #waitingBytes = 0;
  readonly #rechecks: (() => void)[] = [];

  constructor(parts: RpcCallParts, deps: RpcCallDeps) {
    const { method, request, access, socket, timeoutMs, traceparent } = parts;
    this.method = method;
    this.request = request;
    this.access = access;
    this.traceparent = traceparent;
    this.#parts = parts;
    this.#deps = deps;
    this.#host = socket.remoteAddress ?? '';
    this.address = peerAddress(`${socket.remoteAddress}:${socket.remotePort}`);
    this.deadline = Date.now() + timeoutMs;
    // A batch adds a listener for each of its leases.
    setMaxListeners(0, this.#end.signal);
    // The handler may be the first to end.
    this.#ended.promise.catch(() => {});
  }

  /**
   * Resolves with the answer of the handler. Rejects with a `Refusal`, at the latest when the deadline passes, the browser closes
   * the connection, or the caller loses the rights that a wait needs. The audit log and the metrics get the outcome of the
   * handler, which may come later.
   */
  async serve(handler: UnaryHandler): Promise<Uint8Array> {
    const { response, timeoutMs } = this.#parts;
    const late = new Refusal('DEADLINE_EXCEEDED', `the call has not ended within ${timeoutMs} ms`);
    const timer = setTimeout(() => this.#giveUp(late), timeoutMs).unref();
    const closed = (): void => this.#giveUp(new Refusal('CANCELLED', 'the caller has closed its connection'));
    response.once('close', closed);
    if (response.closed) closed();
    try {
      return await Promise.race([this.#run(handler), this.#ended.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Records a call that no handler gets. Returns its refusal. */
  refused(thrown: unknown): Refusal {
    const refusal = refusalOf(thrown, this.#deps.log, () => callFields(this.method, this.traceparent));
    this.#settled(refusal.reason);
    return refusal;
  }

  async #run(handler: UnaryHandler): Promise<Uint8Array> {
    try {
      this.access.requireIdentity();
      this.#count();
      const answer = await handler(this.request, this);
      this.#settled(undefined);
      return answer;
    } catch (thrown) {
      throw this.refused(thrown);
    } finally {
      this.#usage?.end(this.request.length);
      this.#deps.revocable.delete(this);
      if (this.#waiters > 0) {
        this.#deps.waiting.remove(this.#host, this.#waitingBytes, this.access.usage, this.#waiters);
      }
    }
  }

  /** Throws a `Refusal` if the principal has reached a quota. */
  #count(): void {
    const { usage } = this.access;
    if (usage === undefined) return;
    const { socket } = this.#parts;
    if (!socket.destroyed) usage.connect(quotaConnection(socket));
    usage.begin(this.request.length);
    this.#usage = usage;
  }

  #settled(reason: Reason | undefined): void {
    const { observer, audit } = this.#deps;
    observer.callEnded(this.method, reason, performance.now() - this.#began);
    auditCall(audit, this, reason);
  }

  #giveUp(refusal: Refusal): void {
    if (this.gone) return;
    this.#end.abort(refusal);
    this.#ended.reject(refusal);
  }

  get peer(): string {
    return this.address;
  }

  get principal(): string {
    return this.access.principal;
  }

  get gone(): boolean {
    return this.#end.signal.aborted;
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** A batch calls this for each of its leases. For the limit of calls that wait it is one call. */
  beginWaiting(bytes: number, recheck?: () => void): void {
    const { waiting, revocable } = this.#deps;
    if (recheck !== undefined) {
      if (this.#rechecks.length === 0) revocable.add(this, this.access.expiresAt);
      this.#rechecks.push(recheck);
    }
    if (this.gone) return;
    if (this.#waiters === 0) waiting.add(this.#host, bytes, this.access.usage);
    else waiting.addBytes(this.#host, bytes, this.access.usage);
    this.#waiters++;
    this.#waitingBytes += bytes;
  }

  requestRefused({ reason }: Refusal): void {
    auditCall(this.#deps.audit, this, reason);
  }

  /** Ends a waiting call whose caller has lost its rights. */
  recheck(): void {
    try {
      for (const check of this.#rechecks) check();
    } catch (thrown) {
      this.#giveUp(refusalOf(thrown, this.#deps.log));
    }
  }
}
