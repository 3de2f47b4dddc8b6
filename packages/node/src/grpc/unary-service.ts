import {
  type handleUnaryCall,
  Metadata,
  type MethodDefinition,
  type ServerUnaryCall,
  status as Status,
  type sendUnaryData,
} from '@grpc/grpc-js';
import type { Refusal } from '../domain/errors.ts';
import type { Log } from '../ports/log.ts';
import type { CallObserver } from './call-observer.ts';
import { rawMethod } from './codec.ts';
import { originOf } from './origin.ts';
import type { Origin, UnaryCaller, UnaryHandler } from './raw-service.ts';
import { detailsIn, refusalOf, toCallStatus } from './status.ts';
import type { UnreadReplies } from './unread-replies.ts';

/** Smaller replies are not worth counting: what a connection may have in flight of them is bounded by its streams. */
const COUNTED_REPLY_BYTES = 4096;

/** The unary methods of one service. */
export interface UnaryService {
  /** `taskmaster.v1.ClusterService`. */
  readonly name: string;
  /** By the methods' names. */
  readonly unary: Readonly<Record<string, UnaryHandler>>;
  /** Asked before a call is served. Default: whoever calls is served. */
  readonly admit?: (method: string, request: Buffer, metadata: Metadata) => Admission;
}

/** What becomes of a call. */
export interface Admission {
  /** It may not be made. */
  readonly refusal?: Refusal;
  /** Adds to the answer's trailers what proves who gave it. `body`: of a refusal, its details. */
  readonly sign?: (trailers: Metadata, status: number, body: Uint8Array) => void;
}

const EVERYBODY: Admission = {};
const NO_DETAILS = Buffer.alloc(0);

export interface UnaryServiceDeps {
  readonly log: Log;
  readonly observer: CallObserver;
  readonly unread: UnreadReplies;
}

/** A service as grpc-js takes it. */
export interface GrpcService {
  readonly definition: Readonly<Record<string, MethodDefinition<Buffer, Buffer>>>;
  readonly implementation: Readonly<Record<string, handleUnaryCall<Buffer, Buffer>>>;
}

export function createUnaryService({ name, unary, admit }: UnaryService, deps: UnaryServiceDeps): GrpcService {
  const definition: Record<string, MethodDefinition<Buffer, Buffer>> = {};
  const implementation: Record<string, handleUnaryCall<Buffer, Buffer>> = {};
  for (const [method, handler] of Object.entries(unary)) {
    const answer: Answer = (call) => handler(call.request, new GrpcCaller(call));
    definition[method] = rawMethod(`/${name}/${method}`, false);
    implementation[method] = (call, callback) => {
      const admission = admit?.(method, call.request, call.metadata) ?? EVERYBODY;
      void serve(deps, method, call, callback, answer, admission);
    };
  }
  return { definition, implementation };
}

type Call = ServerUnaryCall<Buffer, Buffer>;
type Answer = (call: Call) => Promise<Uint8Array>;

async function serve(
  { log, observer, unread }: UnaryServiceDeps,
  method: string,
  call: Call,
  callback: sendUnaryData<Buffer>,
  ask: Answer,
  { refusal, sign }: Admission,
): Promise<void> {
  const began = performance.now();
  const answer = await (refusal === undefined ? ask(call) : Promise.reject(refusal)).then(
    ({ buffer, byteOffset, byteLength }) => ({
      bytes: Buffer.from(buffer, byteOffset, byteLength),
      refusal: undefined,
    }),
    (thrown: unknown) => ({ bytes: undefined, refusal: refusalOf(thrown, log) }),
  );
  if (answer.refusal !== undefined) {
    const status = toCallStatus(answer.refusal);
    sign?.(status.metadata, status.code, detailsIn(status.metadata) ?? NO_DETAILS);
    callback(status);
  } else {
    if (answer.bytes.length >= COUNTED_REPLY_BYTES) countUntilRead(unread, call, answer.bytes.length);
    callback(null, answer.bytes, sign && signed(sign, answer.bytes));
  }
  observer.callEnded(method, answer.refusal?.reason, performance.now() - began);
}

function signed(sign: NonNullable<Admission['sign']>, body: Uint8Array): Metadata {
  const trailers = new Metadata();
  sign(trailers, Status.OK, body);
  return trailers;
}

/** grpc-js says `cancelled` at the end of every call: once the reply was read, or when the call broke. */
function countUntilRead(unread: UnreadReplies, call: Call, bytes: number): void {
  if (call.cancelled) return;
  const connection = call.getPeer();
  unread.add(connection, bytes);
  call.once('cancelled', () => unread.remove(connection, bytes));
}

class GrpcCaller implements UnaryCaller {
  readonly #call: Call;
  #abort: AbortController | undefined;
  #origin: Origin | undefined;

  constructor(call: Call) {
    this.#call = call;
  }

  get address(): string {
    return this.#whence.address;
  }

  get routed(): boolean {
    return this.#whence.routed;
  }

  get deadline(): number {
    const deadline = this.#call.getDeadline();
    return typeof deadline === 'number' ? deadline : deadline.getTime();
  }

  get gone(): boolean {
    return this.#call.cancelled;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = new AbortController();
      this.#abort = abort;
      if (this.#call.cancelled) abort.abort();
      else this.#call.once('cancelled', () => abort.abort());
    }
    return this.#abort.signal;
  }

  get #whence(): Origin {
    this.#origin ??= originOf(this.#call.metadata, this.#call.getPeer());
    return this.#origin;
  }
}
