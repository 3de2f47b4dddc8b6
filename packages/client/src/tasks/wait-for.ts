import type { StandardSchemaV1 } from '@standard-schema/spec';
import { limits, TaskOutcome, type EndedTask as WireEnded } from '@taskmaster/proto';
import { brokenReply } from '../transport/wire-errors.ts';
import { type Codec, checkResult, jsonCodec } from '../values/codec.ts';
import { type Duration, durationMs } from '../values/duration.ts';
import { DeadlineExceededError, TaskNotCompletedError, TaskNotFoundError } from '../values/errors.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { type Pid, pidText } from '../values/pid.ts';
import type { ClientContext } from './context.ts';
import { readResult } from './task-result.ts';

export interface WaitForOptions<R = unknown> {
  /** How the result is encoded. Default: JSON. */
  readonly codec?: Codec<R> | undefined;
  /** Longest time to wait. Default: until the task has ended. */
  readonly timeout?: Duration | undefined;
  /** Ends the wait, which rejects with `CancelledError`. */
  readonly signal?: AbortSignal | undefined;
}

/** How a task has ended. A task has ended when it has left its queue. */
export interface TaskEnd<R = unknown> {
  /**
   * `dead-lettered`: it went to its dead-letter queue. `removed`: it was removed without a lease or with its queue, put back from
   * a dead-letter queue, or got another PID. `cancelled`: it was cancelled and not completed, or had not started in time.
   * `unknown`: it is not in the queue, and has left no result.
   */
  readonly outcome: 'completed' | 'dead-lettered' | 'removed' | 'cancelled' | 'unknown';
  /** The result of a completed task. Undefined: it left none, or its handler returned nothing. */
  readonly result: R | undefined;
  /** When it ended, by the node's clock. Undefined: the node does not know. */
  readonly endedAt: Date | undefined;
  readonly attempts: number;
  /** Message of the error of its last attempt, if it is a dead letter. Undefined: its lease expired, or there was no error. */
  readonly error: string | undefined;
  /** Why it was cancelled; may be empty. Undefined: it was not. */
  readonly cancelReason: string | undefined;
}

/** Length of one request. After that the client asks again, so that it notices a node that does not answer. */
const POLL_MS = 60_000;

const waitNames: OptionNames<WaitForOptions> = { codec: true, timeout: true, signal: true };

const outcomes: Readonly<Record<number, TaskEnd['outcome']>> = {
  [TaskOutcome.TASK_OUTCOME_COMPLETED]: 'completed',
  [TaskOutcome.TASK_OUTCOME_DEAD_LETTERED]: 'dead-lettered',
  [TaskOutcome.TASK_OUTCOME_REMOVED]: 'removed',
  [TaskOutcome.TASK_OUTCOME_UNKNOWN]: 'unknown',
  [TaskOutcome.TASK_OUTCOME_CANCELLED]: 'cancelled',
};

/** See `Queue.waitForEnd`. */
export async function waitForEnd<R>(
  context: ClientContext,
  queue: string,
  pid: Pid,
  options: WaitForOptions<R>,
  resultSchema?: StandardSchemaV1,
): Promise<TaskEnd<R>> {
  assertKnown('waitFor', options, waitNames);
  const { timing } = context;
  const timeoutMs = options.timeout === undefined ? undefined : durationMs(options.timeout, 'timeout');
  const end = timeoutMs === undefined ? Number.POSITIVE_INFINITY : timing.now() + timeoutMs;
  for (;;) {
    const waitMs = Math.max(0, Math.ceil(Math.min(POLL_MS, limits.waitMs, end - timing.now())));
    const [ended] = await context.calls.waitForTasks({ tasks: [{ queue, pid }], waitMs }, { signal: options.signal });
    if (ended !== undefined) return endOf(ended, (options.codec ?? jsonCodec) as Codec<R>, resultSchema);
    if (timing.now() >= end) {
      throw new DeadlineExceededError(`task ${pidText(pid)} of ${queue} has not ended in time`, {
        reason: 'DEADLINE_EXCEEDED',
      });
    }
  }
}

async function endOf<R>(ended: WireEnded, codec: Codec<R>, schema: StandardSchemaV1 | undefined): Promise<TaskEnd<R>> {
  const { outcome, endedUnixMs, attempts, error, cancelReason } = ended;
  const known = outcomes[outcome];
  if (known === undefined) throw brokenReply(`sent the unknown outcome ${outcome}`);
  let result = readResult(ended.result, codec);
  // A task may leave no result, and the types say so.
  if (schema !== undefined && ended.result !== undefined) result = (await checkResult(schema, result)) as R;
  return {
    outcome: known,
    result,
    endedAt: endedUnixMs === 0 ? undefined : new Date(endedUnixMs),
    attempts,
    error: error?.message,
    cancelReason: known === 'cancelled' ? cancelReason : undefined,
  };
}

/** The result of a completed task. @throws the error of one that ended in another way. */
export function resultOf<R>(end: TaskEnd<R>, queue: string, pid: Pid): R | undefined {
  const { outcome, result, error, attempts, cancelReason } = end;
  const task = `task ${pidText(pid)} of ${queue}`;
  const metadata = { queue };
  switch (outcome) {
    case 'completed':
      return result;
    case 'unknown':
      throw new TaskNotFoundError(`${task} is not in the queue, and has left no result`, {
        reason: 'TASK_NOT_FOUND',
        metadata,
      });
    case 'removed':
      throw new TaskNotCompletedError(`${task} was removed`, { outcome, metadata });
    case 'cancelled': {
      const why = cancelReason ? `: ${cancelReason}` : '';
      throw new TaskNotCompletedError(`${task} was cancelled${why}`, { outcome, metadata });
    }
    case 'dead-lettered': {
      const why = error === undefined ? '' : `: ${error}`;
      const after = `after ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`;
      throw new TaskNotCompletedError(`${task} went to its dead-letter queue ${after}${why}`, { outcome, metadata });
    }
  }
}
