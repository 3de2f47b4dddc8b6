import { type FlowRead, flowAround, type TaskInFlow } from '@taskmaster/proto';
import type { CallOptions } from '../values/options.ts';
import type { Pid } from '../values/pid.ts';
import { nameFields, type TaskName } from '../values/task-name.ts';
import type { ClientContext } from './context.ts';
import { type ParentTask, parentFields } from './links.ts';
import { getInfo, type TaskSummary, taskSummary } from './task-info.ts';

/** A task with what is known of its flow. */
export interface FlowOfTask {
  /** Tasks for which it has waited and that have ended, if it collects them. */
  readonly ended: readonly { readonly queue: string; readonly pid: Pid; readonly completed: boolean }[];
  /**
   * Tasks for which it waits and that have not ended, directly or through others. Each comes behind the one that waits for it.
   * The node finds them among the first 10,000 tasks with parents of the group.
   */
  readonly unfinished: readonly UnfinishedTask[];
  /** True: there may be more than these, at most 200. */
  readonly isUnfinishedCut: boolean;
  /** The task, and all that wait for it, directly or through others. Each comes behind one for which it waits. */
  readonly tasks: readonly TaskOfFlow[];
  /** True: more than 200 wait for it, and the others are left out. */
  readonly isCut: boolean;
}

export interface UnfinishedTask {
  readonly task: TaskSummary;
  /** The place in `unfinished` of the task that waits for it. Undefined: the one that was asked for. */
  readonly of: number | undefined;
  /** What happens to that task if this one is not completed. */
  readonly onFailure: ParentTask['onFailure'];
}

export interface TaskOfFlow {
  /** Its `state` is `not-found` if it has ended, or is not enqueued yet. */
  readonly task: TaskSummary;
  /** Its place in `tasks`, as that of the first task before it. Undefined: it is the one that was asked for. */
  readonly after: number | undefined;
  /** What happens to it if that task is not completed. Undefined: it is the one that was asked for. */
  readonly onFailure: ParentTask['onFailure'];
}

/** See `Queue.flowOf`. */
export async function flowOf(
  context: ClientContext,
  queue: string,
  name: TaskName,
  options: CallOptions,
): Promise<FlowOfTask> {
  const { pid, key = '' } = nameFields(name);
  const read: FlowRead = (one, withChildren) => getInfo(context, one, withChildren, options);
  const { tasks, isCut, unfinished, isUnfinishedCut } = await flowAround(read, { queue, pid, key });
  const ends = tasks[0]?.task.signals.filter((signal) => signal.queue !== '') ?? [];
  return {
    ended: ends.map(({ queue: of, pid: at, completed }) => ({ queue: of, pid: Buffer.from(at), completed })),
    unfinished: unfinished.map(({ before, ...one }) => ({ ...summaryOf(one), of: before })),
    isUnfinishedCut,
    tasks: tasks.map(({ before, ...one }) => ({ ...summaryOf(one), after: before })),
    isCut,
  };
}

const summaryOf = ({ task, asParent }: Pick<TaskInFlow, 'task' | 'asParent'>) => ({
  task: taskSummary(task),
  onFailure: asParent && parentFields(asParent).onFailure,
});
