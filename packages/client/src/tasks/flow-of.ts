import { flowAround } from '@taskmaster/proto';
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
  /** The task, and all that wait for it, directly or through others. Each comes behind one for which it waits. */
  readonly tasks: readonly TaskOfFlow[];
  /** True: more than 200 wait for it, and the others are left out. */
  readonly isCut: boolean;
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
  const { tasks, isCut } = await flowAround((one) => getInfo(context, one, options), { queue, pid, key });
  const ends = tasks[0]?.task.signals.filter((signal) => signal.queue !== '') ?? [];
  return {
    ended: ends.map(({ queue: of, pid: at, completed }) => ({ queue: of, pid: Buffer.from(at), completed })),
    tasks: tasks.map(({ task, before, asParent }) => ({
      task: taskSummary(task),
      after: before,
      onFailure: asParent && parentFields(asParent).onFailure,
    })),
    isCut,
  };
}
