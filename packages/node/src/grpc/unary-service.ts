import type { handleUnaryCall, Metadata, MethodDefinition, ServerUnaryCall, sendUnaryData } from '@grpc/grpc-js';
import type { Log } from '../ports/log.ts';
import type { CallObserver } from './call-observer.ts';
import { rawMethod } from './codec.ts';
import { originOf } from './origin.ts';
import type { Origin, UnaryCaller, UnaryHandler } from './raw-service.ts';
import { refusalOf, toCallStatus } from './status.ts';
import type { UnreadReplies } from './unread-replies.ts';

/** Smaller replies are not worth counting: what a connection may have in flight of them is bounded by its streams. */
const COUNTED_REPLY_BYTES = 4096;

/** The unary methods of one service. */
export interface UnaryService {
  /** `taskmaster.v1.ClusterService`. */
  readonly name: string;
  /** By the methods' names. */
  readonly unary: Readonly<Record<string, UnaryHandler>>;
  /** Asked before a call is served; throws a `Refusal` for callers who may not make it. */
  readonly admit?: (method: string, request: Buffer, metadata: Metadata) => void;
}

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
    const admitted: Answer = async (call) => {
      admit?.(method, call.request, call.metadata);
      return answer(call);
    };
    definition[method] = rawMethod(`/${name}/${method}`, false);
    implementation[method] = (call, callback) => void serve(deps, method, call, callback, admit ? admitted : answer);
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
): Promise<void> {
  const began = performance.now();
  const answer = await ask(call).then(
    ({ buffer, byteOffset, byteLength }) => ({
      bytes: Buffer.from(buffer, byteOffset, byteLength),
      refusal: undefined,
    }),
    (thrown: unknown) => ({ bytes: undefined, refusal: refusalOf(thrown, log) }),
  );
  if (answer.refusal !== undefined) {
    callback(toCallStatus(answer.refusal));
  } else {
    if (answer.bytes.length >= COUNTED_REPLY_BYTES) countUntilRead(unread, call, answer.bytes.length);
    callback(null, answer.bytes);
  }
  observer.callEnded(method, answer.refusal?.reason, performance.now() - began);
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
