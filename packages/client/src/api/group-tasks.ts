import { formatQueueName } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import { listQueues } from '../tasks/introspection.ts';
import { getInfos, type TaskSummary, taskSummary } from '../tasks/task-info.ts';
import { Update } from '../tasks/update.ts';
import { isTaskMasterError, TaskNotFoundError } from '../values/errors.ts';
import { assertKnown } from '../values/known-options.ts';
import { type CallOptions, callNames } from '../values/options.ts';
import { pidBytes, pidText } from '../values/pid.ts';
import { isByKey, nameFields, type TaskName } from '../values/task-name.ts';
import { type CancelOptions, cancelNames } from './queue.ts';

/** Queues that are read at the same time. */
const AT_ONCE = 64;
/** How often a task is looked for that moves from queue to queue meanwhile. */
const MOST_LOOKS = 5;

/** See `TaskMasterClient.findTasks`. */
export async function findTasks(
  context: ClientContext,
  group: string,
  name: TaskName,
  options: CallOptions,
): Promise<readonly TaskSummary[]> {
  assertKnown('findTasks', options, callNames);
  return foundIn(context, groupName(group), name, options);
}

/** See `TaskMasterClient.cancelTasks`. */
export async function cancelTasks(
  context: ClientContext,
  group: string,
  name: TaskName,
  options: CancelOptions,
): Promise<readonly string[]> {
  assertKnown('cancelTasks', options, cancelNames);
  const { reason, requestId, ...callOptions } = options;
  for (let look = 1; ; look++) {
    const found = await foundIn(context, groupName(group), name, callOptions);
    if (found.length === 0) {
      const what = isByKey(name) ? `task with the key '${name.key}'` : `task ${pidText(pidBytes(name))}`;
      throw new TaskNotFoundError(`no queue of the group '${group}' has a ${what}`, {
        reason: 'TASK_NOT_FOUND',
        metadata: { group },
      });
    }
    const update = new Update(context, true);
    for (const { queue } of found) update.cancel(queue, name, reason);
    try {
      await update.commit({ ...callOptions, requestId });
      return found.map(({ queue }) => queue);
    } catch (error) {
      // It has moved, or has ended.
      const hasMoved = isTaskMasterError(error) && error.reason === 'TASK_NOT_FOUND';
      if (!hasMoved || look === MOST_LOOKS) throw error;
    }
  }
}

/** @throws TypeError */
function groupName(group: unknown): string {
  if (typeof group !== 'string') throw new TypeError('the name of a group must be text');
  if (group.includes('#')) throw new TypeError(`'${group}' has a #: give the name of a group, the part before the #`);
  return group;
}

async function foundIn(
  context: ClientContext,
  group: string,
  name: TaskName,
  options: CallOptions,
): Promise<readonly TaskSummary[]> {
  const found = await lookIn(context, group, name, options);
  // A task may have moved from a queue that was not read yet to one that was.
  return found.length > 0 ? found : lookIn(context, group, name, options);
}

async function lookIn(
  context: ClientContext,
  group: string,
  name: TaskName,
  options: CallOptions,
): Promise<readonly TaskSummary[]> {
  const { pid, key } = nameFields(name);
  const names = { pids: key === undefined ? [pid] : [], keys: key === undefined ? [] : [key], includeData: false };
  const look = async (queue: string): Promise<TaskSummary[]> =>
    (await getInfos(context, { queue, ...names }, options)).map(taskSummary);
  const queues: string[] = [];
  let isPartial = false;
  const onUnreachable = (): void => {
    isPartial = true;
  };
  for await (const queue of listQueues(context, { ...options, filter: { group }, onUnreachable })) {
    queues.push(queue.queue);
  }
  // If nodes did not answer, the holder of the group must: it may be one of them, and have the task.
  if (isPartial) queues.push(formatQueueName({ group, name: 'unreachable' }));
  const found: TaskSummary[] = [];
  for (let from = 0; from < queues.length; from += AT_ONCE) {
    const looked = await Promise.all(queues.slice(from, from + AT_ONCE).map(look));
    found.push(...looked.flat().filter(({ state }) => state !== 'not-found'));
  }
  return found;
}
