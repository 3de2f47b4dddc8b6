import type { TaskInfo } from './gen/taskmaster/v1/inspection.ts';
import type { TaskParent } from './gen/taskmaster/v1/tasks.ts';

/** A task and those that wait for it, directly or through others. */
export interface FlowAround {
  /** The task that was asked for comes first. Each task comes once, behind one that it waits for. */
  readonly tasks: readonly TaskInFlow[];
  /** True: there are more. */
  readonly isCut: boolean;
}

export interface TaskInFlow {
  readonly task: TaskInfo;
  /** Its place in `tasks`, as that of the first task before it. Undefined: it was asked for. */
  readonly before: number | undefined;
  /** What it does if that task fails, as that task says. Undefined: it was asked for. */
  readonly asParent: TaskParent | undefined;
}

/** The name of a task. One of them is empty. */
export type FlowTaskName = Pick<TaskParent, 'queue' | 'pid' | 'key'>;

const MOST_TASKS = 200;

/** Reads a task, and all that wait for it. `one`: reads one task, with the signals that it has kept. */
export async function flowAround(
  one: (name: FlowTaskName) => Promise<TaskInfo | undefined>,
  of: FlowTaskName,
): Promise<FlowAround> {
  const first = await one(of);
  if (first === undefined) return { tasks: [], isCut: false };
  const tasks: TaskInFlow[] = [{ task: first, before: undefined, asParent: undefined }];
  const seen = new Set([nameOf(of), nameOf({ ...first, key: '' })]);
  for (let at = 0; at < tasks.length; at++) {
    for (const parent of tasks[at]?.task.parents ?? []) {
      if (seen.has(nameOf(parent))) continue;
      if (tasks.length === MOST_TASKS) return { tasks, isCut: true };
      const task = await one(parent);
      if (task === undefined) continue;
      seen.add(nameOf(parent));
      // It may be known by its key already.
      if (task.pid.byteLength > 0 && parent.key !== '' && seen.has(nameOf({ ...task, key: '' }))) continue;
      seen.add(nameOf({ ...task, key: '' }));
      tasks.push({ task, before: at, asParent: parent });
    }
  }
  return { tasks, isCut: false };
}

const nameOf = ({ queue, pid, key }: FlowTaskName): string =>
  key === '' ? `${queue}\0p${Buffer.from(pid).toString('latin1')}` : `${queue}\0k${key}`;
