import { status } from '@grpc/grpc-js';
import { LEASE, type Lease } from '../leases/lease.ts';
import type { ClientContext } from '../tasks/context.ts';
import { giveBack } from '../tasks/lease-tasks.ts';
import { type LeasedTask, WATCH } from '../tasks/leased-task.ts';
import { NewTask } from '../tasks/new-task.ts';
import { durationMs } from '../values/duration.ts';
import { isTaskMasterError } from '../values/errors.ts';
import { callHook } from '../values/hooks.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { isInstance } from '../values/thrown.ts';
import type { Handler, HandlerResult, WorkerSettings } from './worker-options.ts';
import { UnrecoverableError } from './worker-options.ts';

export interface RunTaskParts<T> {
  readonly context: ClientContext;
  readonly handler: Handler<T>;
  readonly settings: WorkerSettings<T>;
  /** Aborted when the time of a stop is over. Later failures do not count as attempts. */
  readonly giveUp: AbortSignal;
  /** Called when the lease of a running handler has ended because it is renewed no more. */
  readonly onTooLong: (task: LeasedTask<T>) => void;
  /** Called when the handler has ended, before its task is completed or released. */
  readonly onHandled: (task: LeasedTask<T>) => void;
}

/** Runs the handler of a task, then completes or releases the task. Never rejects: hooks get the errors. */
export async function runTask<T>(parts: RunTaskParts<T>, task: LeasedTask<T>): Promise<void> {
  const { hooks } = parts.settings;
  const lease = task[LEASE];
  lease.onLost((error) => {
    if (parts.context.timing.now() >= lease.keepUntil) parts.onTooLong(task);
    callHook(hooks, 'onLeaseLost', task, error);
  });
  using _watch = task[WATCH]();
  let returned: HandlerResult | undefined;
  try {
    // Read first, so that a payload that cannot be read fails the attempt before the handler starts.
    void task.data;
    returned = handlerResult(await parts.handler(task));
    parts.onHandled(task);
  } catch (thrown) {
    parts.onHandled(task);
    const error = failureOf(lease, thrown);
    if (lease.cancelled !== undefined) callHook(hooks, 'onTaskCancelled', task, lease.cancelled);
    // When the time of a stop is over, the attempt does not count. So it has not failed.
    else if (!parts.giveUp.aborted) callHook(hooks, 'onAttemptFailed', error, task);
    await failTask(parts, task, error);
    return;
  }
  if (!lease.isHeld) {
    // The handler has settled the task, or the lease is lost and onLeaseLost was called.
    if (lease.lostTo === undefined && returned !== undefined) {
      callHook(
        hooks,
        'onAttemptFailed',
        new TypeError('the handler has completed or released its task, so what it returns has no effect'),
        task,
      );
    }
    return;
  }
  try {
    await task.complete({ ...parts.settings.results, ...returned });
  } catch (error) {
    if (lease.lostTo !== undefined) return;
    callHook(hooks, 'onAttemptFailed', error, task);
    // Tasks that cannot be enqueued are a failure of the handler. After other errors the task is available when its lease ends.
    if (isTaskMasterError(error) && error.code !== status.INVALID_ARGUMENT) lease.letGo();
    else await failTask(parts, task, error);
    return;
  }
  callHook(hooks, 'onTaskCompleted', task);
}

/** Why an attempt failed whose handler has thrown. What is thrown at the time limit is usually a consequence of it. */
const failureOf = (lease: Lease, thrown: unknown): unknown =>
  isInstance(thrown, UnrecoverableError) ? thrown : (lease.overTime ?? thrown);

const resultNames: OptionNames<HandlerResult> = { result: true, enqueue: true };

/** What the handler returns. @throws TypeError if it cannot be meant: it would be lost without a word. */
function handlerResult(returned: unknown): HandlerResult | undefined {
  if (returned === undefined || returned === null) return undefined;
  assertKnown('what a handler returns, if anything', returned, resultNames);
  const { enqueue } = returned as HandlerResult;
  if (enqueue !== undefined && !(Array.isArray(enqueue) && enqueue.every((task) => task instanceof NewTask))) {
    throw new TypeError('enqueue: must be a list of tasks that queue.task() has made');
  }
  return returned as HandlerResult;
}

/** Releases a task whose attempt failed with this error. */
async function failTask<T>(parts: RunTaskParts<T>, task: LeasedTask<T>, error: unknown): Promise<void> {
  const { context, settings } = parts;
  const lease = task[LEASE];
  if (!lease.isHeld) return;
  if (parts.giveUp.aborted) return giveBack(context, [task]);
  // At its limit the attempt has failed at the node, too. That the lease is over then is no news for the hooks.
  if (lease.overTime !== undefined) lease.onLost(() => {});
  try {
    // The node removes a cancelled task.
    if (lease.cancelled !== undefined) await task.release();
    else if (isInstance(error, UnrecoverableError)) await task.deadLetter(error);
    else await task.release({ error: error ?? String(error), delay: delayAfter(parts, task, error) });
  } catch (problem) {
    // A lost task cannot be released. After other errors the task is available when its lease ends.
    const isLost = lease.lostTo !== undefined || (lease.overTime !== undefined && isExpiry(problem));
    if (!isLost) callHook(settings.hooks, 'onAttemptFailed', problem, task);
    lease.letGo();
  }
}

const isExpiry = (error: unknown): boolean => isTaskMasterError(error) && error.reason === 'LEASE_EXPIRED';

/** The delay of a task whose attempt failed. Undefined: its retry policy decides. */
function delayAfter<T>({ settings }: RunTaskParts<T>, task: LeasedTask<T>, error: unknown): number | undefined {
  try {
    const given = settings.backoffOf?.(error, task);
    return given === undefined ? undefined : durationMs(given, 'backoff');
  } catch (problem) {
    // The attempt fails as it would without the function.
    callHook(settings.hooks, 'onAttemptFailed', problem, task);
    return undefined;
  }
}
