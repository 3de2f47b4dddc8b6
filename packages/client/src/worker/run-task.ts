import { status } from '@grpc/grpc-js';
import { LEASE } from '../leases/lease.ts';
import type { ClientContext } from '../tasks/context.ts';
import { giveBack } from '../tasks/lease-tasks.ts';
import type { LeasedTask } from '../tasks/leased-task.ts';
import { isTaskMasterError } from '../values/errors.ts';
import { callHook } from '../values/options.ts';
import { backoffBound } from '../values/retry.ts';
import type { Handler, HandlerResult, WorkerSettings } from './worker-options.ts';

export interface RunTaskParts<T> {
  readonly context: ClientContext;
  readonly handler: Handler<T>;
  readonly settings: WorkerSettings<T>;
  /** Aborted when the worker stops and waits no longer: failures are its doing, not the task's. */
  readonly giveUp: AbortSignal;
}

/** Works on one task and settles it, whatever its handler does. Never rejects: hooks hear of what goes wrong. */
export async function runTask<T>(parts: RunTaskParts<T>, task: LeasedTask<T>): Promise<void> {
  const { hooks } = parts.settings;
  const lease = task[LEASE];
  lease.onLost((error) => callHook(hooks.onLeaseLost, task, error));
  let result: HandlerResult | undefined;
  try {
    void task.data; // A payload that cannot be read fails the attempt before the handler does half of its work.
    result = (await parts.handler(task)) ?? undefined;
  } catch (error) {
    callHook(hooks.onAttemptFailed, error, task);
    await failTask(parts, task);
    return;
  }
  if (!lease.isHeld) {
    // Settled by the handler itself, or lost, which onLeaseLost has heard of.
    if (lease.lostTo === undefined && result?.enqueue !== undefined) {
      callHook(
        hooks.onAttemptFailed,
        new TypeError('the handler settled its task itself, so its result is not enqueued'),
        task,
      );
    }
    return;
  }
  try {
    await task.complete({ enqueue: result?.enqueue });
  } catch (error) {
    if (lease.lostTo !== undefined) return;
    callHook(hooks.onAttemptFailed, error, task);
    // Data that cannot be enqueued is the handler's failure; for the rest the lease runs out, and the task comes back.
    if (isTaskMasterError(error) && error.code !== status.INVALID_ARGUMENT) lease.letGo();
    else await failTask(parts, task);
    return;
  }
  callHook(hooks.onTaskCompleted, task);
}

/** Gives a task back whose attempt failed. */
async function failTask<T>(parts: RunTaskParts<T>, task: LeasedTask<T>): Promise<void> {
  const { context, settings } = parts;
  const lease = task[LEASE];
  if (!lease.isHeld) return;
  if (parts.giveUp.aborted) return giveBack(context, [task]);
  try {
    if (task.hasRetryPolicy) {
      await task.release();
    } else {
      const bound = backoffBound(task.attempt, settings.backoffInitialMs, settings.backoffMaxMs);
      await task.release({ delay: bound * context.random() });
    }
  } catch (error) {
    // What the worker lost meanwhile is not its to release; the rest comes back when the lease ends.
    if (lease.lostTo === undefined) callHook(settings.hooks.onAttemptFailed, error, task);
    lease.letGo();
  }
}
