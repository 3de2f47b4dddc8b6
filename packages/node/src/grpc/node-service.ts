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
  type StreamCall,
  StreamRequest,
  UpdateTasksRequest,
  UpdateTasksResponse,
} from '@taskmaster/proto';
import { Refusal } from '../domain/errors.ts';
import type { Caller } from './caller.ts';
import { decodeRequest, type MessageType } from './codec.ts';
import { type EntryBound, entryBounds } from './entry-bounds.ts';
import type { Handlers } from './handlers.ts';
import type { RawService, StreamOperation, StreamSession, UnaryHandler } from './raw-service.ts';
import { Turnstile } from './turnstile.ts';

/**
 * Requests that only look, and may have replies of megabytes, are served so many at a time: looking must not fill the
 * memory, nor hold up those who work.
 */
const LARGE_LOOKS_AT_ONCE = 8;
/** From so many items on a reply counts as large. */
const LARGE_ITEMS = 100;

interface UnaryOptions<Q> {
  /** Checked before the request is decoded. */
  readonly bounds?: readonly EntryBound[];
  readonly isLarge?: (request: Q) => boolean;
}

/** A node's own service. */
export function createNodeService(handlers: Handlers): RawService {
  const largeLooks = new Turnstile(LARGE_LOOKS_AT_ONCE);
  const unary =
    <Q, R>(
      request: MessageType<Q>,
      response: MessageType<R>,
      run: (request: Q, caller: Caller) => Promise<R>,
      { bounds = [], isLarge = () => false }: UnaryOptions<Q> = {},
    ): UnaryHandler =>
    async (bytes, caller) => {
      const decoded = decodeRequest(request, bytes, bounds);
      const answer = async () => encodeToBuffer(response, await run(decoded, caller));
      if (!isLarge(decoded)) return answer();
      return largeLooks.pass(() => {
        if (caller.gone) throw new Refusal('CANCELLED', 'the call was cancelled');
        return answer();
      });
    };

  return {
    unary: {
      UpdateTasks: unary(UpdateTasksRequest, UpdateTasksResponse, handlers.updateTasks, { bounds: entryBounds.update }),
      LeaseTasks: unary(LeaseTasksRequest, LeaseTasksResponse, handlers.leaseTasks, { bounds: entryBounds.lease }),
      BatchUpdateTasks: unary(BatchUpdateTasksRequest, BatchUpdateTasksResponse, handlers.batchUpdateTasks, {
        bounds: entryBounds.batchUpdate,
      }),
      BatchLeaseTasks: unary(BatchLeaseTasksRequest, BatchLeaseTasksResponse, handlers.batchLeaseTasks, {
        bounds: entryBounds.batchLease,
      }),
      ListQueues: unary(ListQueuesRequest, ListQueuesResponse, handlers.listQueues, { isLarge: () => true }),
      GetQueueStats: unary(GetQueueStatsRequest, GetQueueStatsResponse, handlers.getQueueStats, {
        bounds: entryBounds.stats,
        isLarge: ({ queues }) => queues.length === 0 || queues.length >= LARGE_ITEMS,
      }),
      PeekTasks: unary(PeekTasksRequest, PeekTasksResponse, handlers.peekTasks, {
        isLarge: ({ includeData, limit }) => includeData || limit >= LARGE_ITEMS,
      }),
      GetTasks: unary(GetTasksRequest, GetTasksResponse, handlers.getTasks, {
        bounds: entryBounds.get,
        isLarge: ({ includeData, pids }) => includeData || pids.length >= LARGE_ITEMS,
      }),
      DeleteQueue: unary(DeleteQueueRequest, DeleteQueueResponse, handlers.deleteQueue),
      ResetLeases: unary(ResetLeasesRequest, ResetLeasesResponse, handlers.resetLeases),
    },
    openStream: () => new NodeStreamSession(handlers),
  };
}

class NodeStreamSession implements StreamSession {
  readonly #handlers: Handlers;

  constructor(handlers: Handlers) {
    this.#handlers = handlers;
  }

  read(message: Buffer): readonly StreamOperation[] {
    const { calls } = decodeRequest(StreamRequest, message, entryBounds.stream);
    return calls.map((call) => this.#operationOf(call));
  }

  /** What is answered is there already. */
  hold(): void {}

  close(): void {}

  #operationOf({ id, call }: StreamCall): StreamOperation {
    switch (call?.$case) {
      case 'update':
        return { kind: 'update', id, run: () => this.#update(call.value) };
      case 'lease':
        return { kind: 'lease', id, run: (caller) => this.#lease(call.value, caller) };
      case 'cancel':
        return { kind: 'cancel', id };
      case undefined:
        return { kind: 'none', id };
    }
  }

  async #update(request: UpdateTasksRequest) {
    return { $case: 'update' as const, value: await this.#handlers.updateTasks(request) };
  }

  async #lease(request: LeaseTasksRequest, caller: Caller) {
    return { $case: 'lease' as const, value: await this.#handlers.leaseTasks(request, caller) };
  }
}
