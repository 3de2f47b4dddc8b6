import type { handleUnaryCall, MethodDefinition, ServerUnaryCall, sendUnaryData } from '@grpc/grpc-js';
import { TaskMasterServiceService } from '@taskmaster/proto';
import type { Log } from '../ports/log.ts';
import type { CallObserver } from './call-observer.ts';
import { rawMethod } from './codec.ts';
import { originOf } from './origin.ts';
import type { Origin, RawService, UnaryCaller, UnaryHandler } from './raw-service.ts';
import { refusalOf, toCallStatus } from './status.ts';
import type { UnreadReplies } from './unread-replies.ts';

/** Smaller replies are not worth counting: what a connection may have in flight of them is bounded by its streams. */
const COUNTED_REPLY_BYTES = 4096;

export interface TaskServiceDeps {
  readonly service: RawService;
  readonly log: Log;
  readonly observer: CallObserver;
  readonly unread: UnreadReplies;
}

/** The unary methods, as grpc-js takes them. */
export interface TaskService {
  readonly definition: Readonly<Record<string, MethodDefinition<Buffer, Buffer>>>;
  readonly implementation: Readonly<Record<string, handleUnaryCall<Buffer, Buffer>>>;
}

const { path: anyPath } = TaskMasterServiceService.updateTasks;
const SERVICE_PATH = anyPath.slice(0, anyPath.lastIndexOf('/') + 1);

export function createTaskService(deps: TaskServiceDeps): TaskService {
  const definition: Record<string, MethodDefinition<Buffer, Buffer>> = {};
  const implementation: Record<string, handleUnaryCall<Buffer, Buffer>> = {};
  for (const [method, handler] of Object.entries(deps.service.unary)) {
    definition[method] = rawMethod(`${SERVICE_PATH}${method}`, false);
    implementation[method] = (call, callback) => void serve(deps, method, call, callback, handler);
  }
  return { definition, implementation };
}

type Call = ServerUnaryCall<Buffer, Buffer>;

async function serve(
  { log, observer, unread }: TaskServiceDeps,
  method: string,
  call: Call,
  callback: sendUnaryData<Buffer>,
  handler: UnaryHandler,
): Promise<void> {
  const began = performance.now();
  const answer = await handler(call.request, new GrpcCaller(call)).then(
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
