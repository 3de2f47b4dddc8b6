import {
  type handleUnaryCall,
  Metadata,
  type MethodDefinition,
  type ServerUnaryCall,
  status as Status,
  type sendUnaryData,
} from '@grpc/grpc-js';
import { type CallSignal, Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import type { Reason } from '@taskmaster/proto';
import type { CallerAccess } from '../access/caller-access.ts';
import type { PrincipalUsage } from '../access/principal-usage.ts';
import { auditCall, type EndedCall } from '../calls/audited-calls.ts';
import { callFields } from '../calls/call-fields.ts';
import type { CallObserver } from '../calls/call-observer.ts';
import type { Origins } from '../calls/origins.ts';
import type { Origin, UnaryCaller, UnaryHandler } from '../calls/raw-service.ts';
import type { RevocableCalls } from '../calls/revocable-calls.ts';
import type { WaitingCalls } from '../calls/waiting-calls.ts';
import { detailsIn, refusalOf, toCallStatus } from '../calls/wire-errors.ts';
import type { Audit } from '../ports/audit.ts';
import { rawMethod } from '../requests/codec.ts';
import type { CountConnection } from './count-connection.ts';
import type { UnreadReplies } from './unread-replies.ts';

/** Smaller replies are not counted, in bytes: the limit of calls of a connection also limits their total size. */
const COUNTED_REPLY_BYTES = 4096;

/** The unary methods of one service. */
export interface UnaryService {
  /** Full name, such as `taskmaster.v1.ClusterService`. */
  readonly name: string;
  /** Handlers by the name of the method. */
  readonly unary: Readonly<Record<string, UnaryHandler>>;
  /**
   * Decides whether a call is served. `connection`: its peer, `host:port`. Default: the caller needs a valid credential, if rules
   * of access are configured.
   */
  readonly admit?: (method: string, request: Buffer, metadata: Metadata, connection: string) => Admission;
}

/** The decision about a call. */
export interface Admission {
  /** The refusal of the call. Undefined: it is served. */
  readonly refusal?: Refusal;
  /** Signs the answer, in its trailers. `body` of a refusal: its details. */
  readonly sign?: (trailers: Metadata, status: number, body: Uint8Array) => void;
}

const EVERYBODY: Admission = {};
const NO_DETAILS = Buffer.alloc(0);

export interface UnaryServiceDeps {
  readonly log: Log;
  readonly observer: CallObserver;
  readonly audit: Audit;
  readonly unread: UnreadReplies;
  readonly waiting: WaitingCalls;
  readonly origins: Origins;
  readonly revocable: RevocableCalls;
  readonly countConnection: CountConnection;
}

/** A service in the format of grpc-js. */
export interface GrpcService {
  readonly definition: Readonly<Record<string, MethodDefinition<Buffer, Buffer>>>;
  readonly implementation: Readonly<Record<string, handleUnaryCall<Buffer, Buffer>>>;
}

export function createUnaryService({ name, unary, admit }: UnaryService, deps: UnaryServiceDeps): GrpcService {
  const definition: Record<string, MethodDefinition<Buffer, Buffer>> = {};
  const implementation: Record<string, handleUnaryCall<Buffer, Buffer>> = {};
  for (const [method, handler] of Object.entries(unary)) {
    const served: ServedMethod = { ...deps, method };
    definition[method] = rawMethod(`/${name}/${method}`, false);
    const serve = (call: Call, callback: sendUnaryData<Buffer>, origin: Origin): void => {
      const { refusal, sign } =
        admit?.(method, call.request, call.metadata, call.getPeer()) ?? problemOf(origin.access);
      const one = new UnaryCall(served, call, callback, sign, origin);
      if (refusal === undefined) one.serve(handler);
      else one.refuse(refusal);
    };
    implementation[method] = (call, callback) => {
      const origin = deps.origins.of(call.metadata, call.getPeer());
      if (origin instanceof Promise) void origin.then((known) => serve(call, callback, known));
      else serve(call, callback, origin);
    };
  }
  return { definition, implementation };
}

/** Refuses a caller without a valid credential before its request is read. */
function problemOf(access: CallerAccess): Admission {
  if (access.isUnlimited) return EVERYBODY;
  try {
    access.requireIdentity();
    return EVERYBODY;
  } catch (thrown) {
    if (thrown instanceof Refusal) return { refusal: thrown };
    throw thrown;
  }
}

type Call = ServerUnaryCall<Buffer, Buffer>;

interface ServedMethod extends UnaryServiceDeps {
  readonly method: string;
}

function signed(sign: NonNullable<Admission['sign']>, body: Uint8Array): Metadata {
  const trailers = new Metadata();
  sign(trailers, Status.OK, body);
  return trailers;
}

/**
 * Counts a reply until it is read. grpc-js emits `cancelled` at the end of every call: when the reply was read, or the call
 * broke.
 */
function countUntilRead(unread: UnreadReplies, call: Call, bytes: number): void {
  if (call.cancelled) return;
  const connection = call.getPeer();
  unread.add(connection, bytes);
  call.once('cancelled', () => unread.remove(connection, bytes));
}

/**
 * A call until it is answered. It is also its caller and its signal: ten thousand calls may wait, and each object of a call
 * counts.
 */
class UnaryCall implements UnaryCaller, CallSignal, EndedCall {
  readonly #served: ServedMethod;
  readonly #call: Call;
  readonly #callback: sendUnaryData<Buffer>;
  readonly #sign: Admission['sign'];
  readonly #began = performance.now();
  readonly #origin: Origin;
  /** How many of its leases wait. A batch may have several. */
  #waiters = 0;
  #isAnswered = false;
  #recheck: (() => void) | undefined;
  #waitingBytes = 0;
  /** Where the call counts. Undefined: its principal has no quotas. */
  #usage: PrincipalUsage | undefined;

  constructor(
    served: ServedMethod,
    call: Call,
    callback: sendUnaryData<Buffer>,
    sign: Admission['sign'],
    origin: Origin,
  ) {
    this.#origin = origin;
    this.#served = served;
    this.#call = call;
    this.#callback = callback;
    this.#sign = sign;
  }

  /** Answers the call with the result of the handler. Call this or `refuse` once. */
  serve(handler: UnaryHandler): void {
    if (this.#origin.access.usage !== undefined && !this.#isWithinQuotas(this.#origin.access.usage)) return;
    handler(this.#call.request, this).then(
      (bytes) => this.#answer(bytes),
      (thrown: unknown) => this.refuse(thrown),
    );
  }

  /** Refuses the call if the principal has reached a quota. */
  #isWithinQuotas(usage: PrincipalUsage): boolean {
    try {
      this.#served.countConnection(this.#origin, this.peer);
      usage.begin(this.#call.request.length);
    } catch (thrown) {
      this.refuse(thrown);
      return false;
    }
    this.#usage = usage;
    return true;
  }

  refuse(thrown: unknown): void {
    if (this.#isAnswered) return;
    this.#isAnswered = true;
    const refusal = refusalOf(thrown, this.#served.log, () => callFields(this.method, this.traceparent));
    const status = toCallStatus(refusal);
    this.#sign?.(status.metadata, status.code, detailsIn(status.metadata) ?? NO_DETAILS);
    this.#callback(status);
    this.#ended(refusal.reason);
  }

  #answer({ buffer, byteOffset, byteLength }: Uint8Array): void {
    if (this.#isAnswered) return;
    this.#isAnswered = true;
    const bytes = Buffer.from(buffer, byteOffset, byteLength);
    if (byteLength >= COUNTED_REPLY_BYTES) countUntilRead(this.#served.unread, this.#call, byteLength);
    this.#callback(null, bytes, this.#sign && signed(this.#sign, bytes));
    this.#ended(undefined);
  }

  #ended(reason: Reason | undefined): void {
    this.#usage?.end(this.#call.request.length);
    const { observer, audit, method } = this.#served;
    observer.callEnded(method, reason, performance.now() - this.#began);
    // A sealed call that is refused comes from a member that does not know the run of this node yet.
    if (reason !== 'WRONG_KEY' || this.#sign === undefined) auditCall(audit, this, reason);
  }

  get method(): string {
    return this.#served.method;
  }

  get request(): Buffer {
    return this.#call.request;
  }

  get peer(): string {
    return this.#call.getPeer();
  }

  get address(): string {
    return this.#origin.address;
  }

  get traceparent(): string | undefined {
    const [value] = this.#call.metadata.get('traceparent');
    return typeof value === 'string' ? value : undefined;
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

  get principal(): string {
    return this.access.principal;
  }

  get deadline(): number {
    const deadline = this.#call.getDeadline();
    return typeof deadline === 'number' ? deadline : deadline.getTime();
  }

  get gone(): boolean {
    return this.#call.cancelled || this.#isAnswered;
  }

  get signal(): CallSignal {
    return this;
  }

  get aborted(): boolean {
    return this.gone;
  }

  /** A batch calls this for each of its leases. Each counts for the quota of the principal. For the connection it is one call. */
  beginWaiting(bytes: number, recheck?: () => void): void {
    if (recheck !== undefined) this.#alsoCheck(recheck);
    if (this.gone) return;
    const { waiting } = this.#served;
    const connection = this.#call.getPeer();
    const usage = this.#usage;
    if (this.#waiters === 0) {
      waiting.add(connection, bytes, usage);
      this.#call.on('cancelled', () => waiting.remove(connection, this.#waitingBytes, usage, this.#waiters));
    } else {
      waiting.addBytes(connection, bytes, usage);
    }
    this.#waiters++;
    this.#waitingBytes += bytes;
  }

  requestRefused({ reason }: Refusal): void {
    auditCall(this.#served.audit, this, reason);
  }

  /** Refuses a waiting call whose caller has lost its rights. Its handler then sees that the caller is gone. */
  recheck(): void {
    try {
      this.#recheck?.();
    } catch (thrown) {
      this.refuse(thrown);
    }
  }

  #alsoCheck(recheck: () => void): void {
    const before = this.#recheck;
    if (before === undefined) {
      const { revocable } = this.#served;
      revocable.add(this, this.access.expiresAt);
      this.#call.on('cancelled', () => revocable.delete(this));
      this.#recheck = recheck;
    } else {
      this.#recheck = () => {
        before();
        recheck();
      };
    }
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    // A batch adds a listener for each lease. Node.js would report more than ten as a leak.
    this.#call.setMaxListeners(0).on('cancelled', listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#call.off('cancelled', listener);
  }
}
