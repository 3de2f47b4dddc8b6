import { TaskState, type TaskInfo as WireInfo, type RetryPolicy as WirePolicy } from '@taskmaster/proto';
import { type Decoded, decodeData } from '../values/codec.ts';
import { InvalidDataError } from '../values/errors.ts';
import type { Pid } from '../values/pid.ts';
import { FORMAT, type QueueRef } from './new-task.ts';

/** A task's retry policy as the node has it; times in ms, 0 where there is no limit or no backoff. */
export type TaskRetryPolicy = Readonly<WirePolicy>;

/** A task seen without leasing it, and without its payload. Instants are by the node's clock. */
export interface TaskSummary {
  readonly queue: string;
  readonly pid: Pid;
  readonly state: 'available' | 'leased' | 'delayed' | 'not-found';
  /** How many times it has been leased. */
  readonly attempts: number;
  readonly enqueuedAt: Date | undefined;
  /** When its lease or delay ends. */
  readonly hiddenUntil: Date | undefined;
  /** Of its latest lease; 0: never leased. */
  readonly leaseToken: number;
  /** When the current lease began. */
  readonly leasedAt: Date | undefined;
  /** `host:port` of the worker that has it. */
  readonly workerAddress: string | undefined;
  /** What that worker calls itself. */
  readonly workerLabel: string | undefined;
  readonly retry: TaskRetryPolicy | undefined;
}

/** A task seen without leasing it. */
export interface TaskInfo<T> extends TaskSummary {
  /** The data. Throws `InvalidDataError` when it cannot be read, or there is no such task. */
  readonly data: T;
  /** The payload; undefined when there is no such task. */
  readonly bytes: Uint8Array | undefined;
}

const states: Readonly<Record<number, TaskSummary['state']>> = {
  [TaskState.TASK_STATE_AVAILABLE]: 'available',
  [TaskState.TASK_STATE_LEASED]: 'leased',
  [TaskState.TASK_STATE_DELAYED]: 'delayed',
};

export async function taskInfo<T>(queue: QueueRef<T>, info: WireInfo): Promise<TaskInfo<T>> {
  const summary = taskSummary(info);
  const isThere = summary.state !== 'not-found';
  const decoded: Decoded<T> = isThere
    ? await decodeData(queue[FORMAT], info.data)
    : { ok: false, error: new InvalidDataError('there is no such task') };
  return {
    ...summary,
    get data(): T {
      if (!decoded.ok) throw decoded.error;
      return decoded.value;
    },
    bytes: isThere ? info.data : undefined,
  };
}

export function taskSummary(info: WireInfo): TaskSummary {
  return {
    queue: info.queue,
    pid: info.pid,
    state: states[info.state] ?? 'not-found',
    attempts: info.attempts,
    enqueuedAt: instant(info.enqueuedUnixMs),
    hiddenUntil: instant(info.hiddenUntilUnixMs),
    leaseToken: info.leaseToken,
    leasedAt: instant(info.leasedUnixMs),
    workerAddress: info.workerAddress === '' ? undefined : info.workerAddress,
    workerLabel: info.workerLabel === '' ? undefined : info.workerLabel,
    retry: info.retry,
  };
}

function instant(unixMs: number): Date | undefined {
  return unixMs === 0 ? undefined : new Date(unixMs);
}
