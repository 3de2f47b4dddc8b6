import type { handleUnaryCall, MethodDefinition, ServerUnaryCall, sendUnaryData } from '@grpc/grpc-js';
import {
  BatchLeaseTasksRequest,
  BatchLeaseTasksResponse,
  BatchUpdateTasksRequest,
  BatchUpdateTasksResponse,
  DeleteQueueRequest,
  DeleteQueueResponse,
  encodeToBuffer,
  GetQueueStatsRequest,
  GetQueueStatsResponse,
  GetTasksRequest,
  GetTasksResponse,
  LeaseTasksRequest,
  LeaseTasksResponse,
  ListQueuesRequest,
  ListQueuesResponse,
  PeekTasksRequest,
  PeekTasksResponse,
  ResetLeasesRequest,
  ResetLeasesResponse,
  TaskMasterServiceService as service,
  UpdateTasksRequest,
  UpdateTasksResponse,
} from '@taskmaster/proto';
import { Refusal } from '../domain/errors.ts';
import type { Log } from '../ports/log.ts';
import type { CallObserver } from './call-observer.ts';
import type { Caller } from './caller.ts';
import { decodeRequest, type MessageType, rawMethod } from './codec.ts';
import { type EntryBound, entryBounds } from './entry-bounds.ts';
import type { Handlers } from './handlers.ts';
import { peerAddress } from './host-port.ts';
import { refusalOf, toCallStatus } from './status.ts';
import { Turnstile } from './turnstile.ts';
import type { UnreadReplies } from './unread-replies.ts';

/** Smaller replies are not worth counting: what a connection may have in flight of them is bounded by its streams. */
const COUNTED_REPLY_BYTES = 4096;

/**
 * Requests that only look, and may have replies of megabytes, are served so many at a time: looking must not fill the
 * memory, nor hold up those who work.
 */
const LARGE_LOOKS_AT_ONCE = 8;
/** From so many items on a reply counts as large. */
const LARGE_ITEMS = 100;

export interface TaskServiceDeps {
  readonly handlers: Handlers;
  readonly log: Log;
  readonly observer: CallObserver;
  readonly unread: UnreadReplies;
}

/** The unary methods, as grpc-js takes them. */
export interface TaskService {
  readonly definition: Readonly<Record<string, MethodDefinition<Buffer, Buffer>>>;
  readonly implementation: Readonly<Record<string, handleUnaryCall<Buffer, Buffer>>>;
}

interface UnaryOptions<Q> {
  /** Checked before the request is decoded. */
  readonly bounds?: readonly EntryBound[];
  readonly isLarge?: (request: Q) => boolean;
}

export function createTaskService(deps: TaskServiceDeps): TaskService {
  const definition: Record<string, MethodDefinition<Buffer, Buffer>> = {};
  const implementation: Record<string, handleUnaryCall<Buffer, Buffer>> = {};
  const unary = <Q, R>(
    { path }: { readonly path: string },
    request: MessageType<Q>,
    response: MessageType<R>,
    run: (request: Q, caller: Caller) => Promise<R>,
    { bounds = [], isLarge = () => false }: UnaryOptions<Q> = {},
  ): void => {
    const method = path.slice(path.lastIndexOf('/') + 1);
    definition[method] = rawMethod(path, false);
    const runRaw = async (call: Call): Promise<Buffer> => {
      const decoded = decodeRequest(request, call.request, bounds);
      const answer = async () => encodeToBuffer(response, await run(decoded, new UnaryCaller(call)));
      if (!isLarge(decoded)) return answer();
      return largeLooks.pass(() => {
        if (call.cancelled) throw new Refusal('CANCELLED', 'the call was cancelled');
        return answer();
      });
    };
    implementation[method] = (call, callback) => void serve(deps, method, call, callback, runRaw);
  };

  const { handlers } = deps;
  const largeLooks = new Turnstile(LARGE_LOOKS_AT_ONCE);
  unary(service.updateTasks, UpdateTasksRequest, UpdateTasksResponse, handlers.updateTasks, {
    bounds: entryBounds.update,
  });
  unary(service.leaseTasks, LeaseTasksRequest, LeaseTasksResponse, handlers.leaseTasks, { bounds: entryBounds.lease });
  unary(service.batchUpdateTasks, BatchUpdateTasksRequest, BatchUpdateTasksResponse, handlers.batchUpdateTasks, {
    bounds: entryBounds.batchUpdate,
  });
  unary(service.batchLeaseTasks, BatchLeaseTasksRequest, BatchLeaseTasksResponse, handlers.batchLeaseTasks, {
    bounds: entryBounds.batchLease,
  });
  unary(service.listQueues, ListQueuesRequest, ListQueuesResponse, handlers.listQueues, { isLarge: () => true });
  unary(service.getQueueStats, GetQueueStatsRequest, GetQueueStatsResponse, handlers.getQueueStats, {
    bounds: entryBounds.stats,
    isLarge: ({ queues }) => queues.length === 0 || queues.length >= LARGE_ITEMS,
  });
  unary(service.peekTasks, PeekTasksRequest, PeekTasksResponse, handlers.peekTasks, {
    isLarge: ({ includeData, limit }) => includeData || limit >= LARGE_ITEMS,
  });
  unary(service.getTasks, GetTasksRequest, GetTasksResponse, handlers.getTasks, {
    bounds: entryBounds.get,
    isLarge: ({ includeData, pids }) => includeData || pids.length >= LARGE_ITEMS,
  });
  unary(service.deleteQueue, DeleteQueueRequest, DeleteQueueResponse, handlers.deleteQueue);
  unary(service.resetLeases, ResetLeasesRequest, ResetLeasesResponse, handlers.resetLeases);
  return { definition, implementation };
}

type Call = ServerUnaryCall<Buffer, Buffer>;

async function serve(
  { log, observer, unread }: TaskServiceDeps,
  method: string,
  call: Call,
  callback: sendUnaryData<Buffer>,
  run: (call: Call) => Promise<Buffer>,
): Promise<void> {
  const began = performance.now();
  const answer = await run(call).then(
    (bytes) => ({ bytes, refusal: undefined }),
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

class UnaryCaller implements Caller {
  readonly #call: Call;
  #abort: AbortController | undefined;

  constructor(call: Call) {
    this.#call = call;
  }

  get address(): string {
    return peerAddress(this.#call.getPeer());
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
}
