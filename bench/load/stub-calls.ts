import type { ServiceError } from '@grpc/grpc-js';
import {
  type Dequeue,
  type Enqueue,
  type LeasedTask,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  NO_ENTRIES,
  type TaskMasterServiceClient,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
} from '@taskmaster/proto';
import { payload } from './payload.ts';

const NO_BYTES = new Uint8Array(0);
export const LEASE_MS = 60_000;

/** Changes tasks with a call of the generated stub, like a program in any language. */
export function updateTasks(
  stub: TaskMasterServiceClient,
  change: { readonly enqueue?: Enqueue[]; readonly dequeue?: Dequeue[] },
): Promise<UpdateTasksResponse> {
  const request: UpdateTasksRequest = {
    enqueue: change.enqueue ?? [],
    dequeue: change.dequeue ?? [],
    renew: [],
    release: [],
    requestId: NO_BYTES,
    parts: [],
  };
  return new Promise((resolve, reject) => {
    stub.updateTasks(request, (error: ServiceError | null, reply: UpdateTasksResponse) => {
      if (error === null) resolve(reply);
      else reject(error);
    });
  });
}

export function leaseTasks(
  stub: TaskMasterServiceClient,
  queues: string | readonly string[],
  maxTasks: number,
  { waitMs = 0, leaseDurationMs = LEASE_MS }: { readonly waitMs?: number; readonly leaseDurationMs?: number } = {},
): Promise<LeasedTask[]> {
  const request: LeaseTasksRequest = {
    queues: typeof queues === 'string' ? [queues] : [...queues],
    maxTasks,
    leaseDurationMs: leaseDurationMs,
    maxPid: NO_BYTES,
    waitMs,
    workerLabel: '',
    maxBytes: 0,
    anyOrder: false,
    patterns: [],
    maxMoreQueues: 0,
  };
  return new Promise((resolve, reject) => {
    stub.leaseTasks(request, (error: ServiceError | null, reply: LeaseTasksResponse) => {
      if (error === null) resolve(reply.tasks);
      else reject(error);
    });
  });
}

/** The limit keys of new tasks in turn. Without keys: none. */
let keyed = 0;
export const nextLimitKey = (keys: number | undefined): string => (keys === undefined ? '' : `key-${keyed++ % keys}`);

/** New tasks in FIFO order. `bytes`: size of each payload, default 1,000. `limitKeys`: how many keys they have, default none. */
export function newTasks(queue: string, count: number, bytes?: number, limitKeys?: number): Enqueue[] {
  return Array.from({ length: count }, () => ({
    queue,
    pid: NO_BYTES,
    data: payload(bytes),
    mode: 0,
    delayMs: 0,
    runAtUnixMs: 0,
    retry: undefined,
    headers: NO_ENTRIES,
    key: '',
    timeLimitMs: 0,
    limitKey: nextLimitKey(limitKeys),
    topic: '',
  }));
}

export function dequeueOf({ queue, pid, leaseToken }: LeasedTask): Dequeue {
  return { queue, pid, leaseToken, requeue: false };
}
