import {
  type FlowTaskName,
  type GetTasksRequest,
  methods,
  TaskState,
  type TaskFailure as WireFailure,
  type TaskInfo as WireInfo,
  type RetryPolicy as WirePolicy,
} from '@taskmaster/proto';
import { type Decoded, decodeData } from '../values/codec.ts';
import { InvalidDataError } from '../values/errors.ts';
import type { CallOptions } from '../values/options.ts';
import { type Pid, pidText } from '../values/pid.ts';
import { INSPECT, shownAs } from '../values/shown.ts';
import type { ClientContext } from './context.ts';
import { type GivenFields, givenFields } from './given-fields.ts';
import { type LinkFields, linkFields } from './links.ts';
import { FORMAT, type QueueRef, type TaskHeaders } from './new-task.ts';

/** Retry policy of a task. Times are in ms. 0 means no limit or no backoff. */
export type TaskRetryPolicy = Readonly<WirePolicy>;

/** A failed attempt. */
export interface TaskFailure {
  /** When it failed, by the node's clock. */
  readonly failedAt: Date;
  /** Number of the attempt, from 1. 0: the task had not started in time. */
  readonly attempt: number;
  readonly workerLabel: string | undefined;
  /**
   * The error of the worker: its message, and its stack if this is the latest failure. Or that the time limit was exceeded.
   * Undefined: the lease expired.
   */
  readonly error: { readonly message: string; readonly details: string } | undefined;
}

/** A task of `peek` or `get` without its payload. Times are by the node's clock. */
export interface TaskSummary extends GivenFields, LinkFields {
  readonly queue: string;
  readonly pid: Pid;
  /** The text of the PID, as the command line writes and reads it. Empty if a task was not found by its key. */
  readonly id: string;
  readonly key: string | undefined;
  readonly state: 'available' | 'leased' | 'delayed' | 'not-found';
  /** Number of attempts, without those that did not count. */
  readonly attempts: number;
  readonly enqueuedAt: Date | undefined;
  /** End of its lease, its delay or its wait for signals. */
  readonly hiddenUntil: Date | undefined;
  /** Token of its latest lease. 0: never leased. */
  readonly leaseToken: number;
  /** Begin of its current lease. */
  readonly leasedAt: Date | undefined;
  /** `host:port` of the worker that has leased it. */
  readonly workerAddress: string | undefined;
  /** Label of this worker. */
  readonly workerLabel: string | undefined;
  readonly retry: TaskRetryPolicy | undefined;
  /** By when it must be leased for the first time. Undefined: there is no such date, or it was leased. */
  readonly startBy: Date | undefined;
  /** Its last failures, at most 5, the latest last: attempts released with an error, and leases that expired. */
  readonly failures: readonly TaskFailure[];
  /** The queue from which the task came to this dead-letter queue. */
  readonly deadLetterFrom: string | undefined;
  /** What a worker has reported last, in this attempt or an earlier one. */
  readonly progress: { readonly at: Date; readonly text: string } | undefined;
  /** Whether it is leased and its worker has begun it, as far as the node knows. */
  readonly begun: boolean;
  /** How many of its attempts did not count: the worker stopped, or died when it had not begun the task. */
  readonly interruptions: number;
  /** Size of the checkpoint that a worker has left last. Undefined: there is none. */
  readonly checkpointBytes: number | undefined;
  /** Set if it was cancelled while it was leased: it is removed when its attempt ends, unless its worker completes it. */
  readonly cancelled: { readonly at: Date; readonly reason: string } | undefined;
}

/** A task of `peek` or `get`. */
export interface TaskInfo<T> extends TaskSummary {
  /** The data. @throws InvalidDataError if it cannot be read, or there is no such task. */
  readonly data: T;
  /** The headers that came with the data. */
  readonly headers: TaskHeaders;
  /** The payload. Undefined: there is no such task. */
  readonly bytes: Uint8Array | undefined;
}

const states: Readonly<Record<number, TaskSummary['state']>> = {
  [TaskState.TASK_STATE_AVAILABLE]: 'available',
  [TaskState.TASK_STATE_LEASED]: 'leased',
  [TaskState.TASK_STATE_DELAYED]: 'delayed',
};

/** The present state of tasks, those named by their PIDs first. */
export async function getInfos(
  { calls }: Pick<ClientContext, 'calls'>,
  request: GetTasksRequest,
  options: CallOptions,
): Promise<readonly WireInfo[]> {
  return (await calls.call(methods.getTasks, request, options)).tasks;
}

/** One task, named by its PID or its key, with the signals that it has kept. */
export async function getInfo(
  context: Pick<ClientContext, 'calls'>,
  { queue, pid, key }: FlowTaskName,
  includeChildren: boolean,
  options: CallOptions,
): Promise<WireInfo | undefined> {
  const names = key === '' ? { pids: [pid], keys: [] } : { pids: [], keys: [key] };
  return (
    await getInfos(context, { queue, ...names, includeData: false, includeSignals: true, includeChildren }, options)
  )[0];
}

export async function taskInfo<T>(queue: QueueRef<T>, info: WireInfo): Promise<TaskInfo<T>> {
  const summary = taskSummary(info);
  const isThere = summary.state !== 'not-found';
  const decoded: Decoded<T> = isThere
    ? await decodeData(queue[FORMAT], info.data)
    : { ok: false, error: new InvalidDataError('there is no such task') };
  const whole = {
    ...summary,
    get data(): T {
      if (!decoded.ok) throw decoded.error;
      return decoded.value;
    },
    headers: info.headers,
    bytes: isThere ? info.data : undefined,
  };
  const data = decoded.ok ? decoded.value : decoded.error;
  return printable(whole, summary, isThere ? { data, headers: { ...info.headers } } : {});
}

/**
 * Gives a task a form for `JSON.stringify`, and so for loggers: without bytes, and without the data, which may be secret; and one
 * for `console.log`, with them that are `inspected`.
 */
function printable<Info extends TaskSummary>(info: Info, shown: TaskSummary = info, inspected: object = {}): Info {
  const named = (): object => ({ ...shown, pid: undefined });
  // Not enumerable, so that they are no part of the task when it is compared or copied.
  return Object.defineProperties(info, {
    toJSON: { value: named },
    [INSPECT]: { value: () => shownAs('TaskInfo', { ...named(), ...inspected }) },
  });
}

export function taskSummary(info: WireInfo): TaskSummary {
  return printable({
    queue: info.queue,
    pid: info.pid,
    id: info.pid.byteLength === 0 ? '' : pidText(info.pid),
    key: info.key === '' ? undefined : info.key,
    state: states[info.state] ?? 'not-found',
    attempts: info.attempts,
    enqueuedAt: instant(info.enqueuedUnixMs),
    hiddenUntil: instant(info.hiddenUntilUnixMs),
    leaseToken: info.leaseToken,
    leasedAt: instant(info.leasedUnixMs),
    workerAddress: info.workerAddress === '' ? undefined : info.workerAddress,
    workerLabel: info.workerLabel === '' ? undefined : info.workerLabel,
    retry: info.retry,
    ...givenFields(info),
    ...linkFields(info),
    startBy: instant(info.startByUnixMs ?? 0),
    failures: info.failures.map(taskFailure),
    deadLetterFrom: info.deadLetterFrom === '' ? undefined : info.deadLetterFrom,
    progress: info.progress === '' ? undefined : { at: new Date(info.progressUnixMs), text: info.progress },
    begun: info.begun,
    interruptions: info.interruptions,
    checkpointBytes: info.checkpointBytes || undefined,
    cancelled: cancelledOf(info),
  });
}

const cancelledOf = ({ cancelReason, cancelledUnixMs }: WireInfo): TaskSummary['cancelled'] =>
  cancelReason === undefined ? undefined : { at: new Date(cancelledUnixMs), reason: cancelReason };

const taskFailure = ({ failedUnixMs, attempt, workerLabel, error }: WireFailure): TaskFailure => ({
  failedAt: new Date(failedUnixMs),
  attempt,
  workerLabel: workerLabel === '' ? undefined : workerLabel,
  error,
});

function instant(unixMs: number): Date | undefined {
  return unixMs === 0 ? undefined : new Date(unixMs);
}
