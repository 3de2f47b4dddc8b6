import { type TaskInfo, TaskState } from './gen/taskmaster/v1/inspection.ts';
import type { TaskParent } from './gen/taskmaster/v1/tasks.ts';

/** A task with those that wait for it and those for which it waits, directly or through others. */
export interface FlowAround {
  /** The task that was asked for comes first. Each task comes once, behind one that it waits for. */
  readonly tasks: readonly TaskInFlow[];
  /** True: more wait for it. */
  readonly isCut: boolean;
  /** Tasks for which it waits and that have not ended. Each comes once, behind one that waits for it. */
  readonly unfinished: readonly TaskInFlow[];
  /** True: there may be more. */
  readonly isUnfinishedCut: boolean;
}

export interface TaskInFlow {
  readonly task: TaskInfo;
  /**
   * Its place in the list, as that of the first task before it, or in `unfinished` of the one that waits for it. Undefined: it
   * was asked for, or that one was.
   */
  readonly before: number | undefined;
  /** What its parent does if the child fails, as the child says. Undefined: it was asked for. */
  readonly asParent: TaskParent | undefined;
}

/** The name of a task. One of them is empty. */
export type FlowTaskName = Pick<TaskParent, 'queue' | 'pid' | 'key'>;

const MOST_TASKS = 200;
/** Tasks that are asked for which others they wait: each time the node searches. */
const MOST_SEARCHES = 20;

/** Reads one task, with the signals that it has kept, and perhaps with the names of those for which it waits. */
export type FlowRead = (name: FlowTaskName, withChildren: boolean) => Promise<TaskInfo | undefined>;

/** Reads a task, all that wait for it, and all for which it waits. */
export async function flowAround(one: FlowRead, of: FlowTaskName): Promise<FlowAround> {
  const first = await one(of, true);
  if (first === undefined) return { tasks: [], isCut: false, unfinished: [], isUnfinishedCut: false };
  const tasks: TaskInFlow[] = [{ task: first, before: undefined, asParent: undefined }];
  const seen = new Set([nameOf(of), nameOf({ ...first, key: '' })]);
  const isCut = await addParents(one, tasks, seen);
  return { tasks, isCut, ...(await unfinishedOf(one, first, seen)) };
}

/** Returns whether there are more. */
async function addParents(one: FlowRead, tasks: TaskInFlow[], seen: Set<string>): Promise<boolean> {
  for (let at = 0; at < tasks.length; at++) {
    for (const parent of tasks[at]?.task.parents ?? []) {
      if (seen.has(nameOf(parent))) continue;
      if (tasks.length === MOST_TASKS) return true;
      const task = await one(parent, false);
      if (task === undefined) continue;
      seen.add(nameOf(parent));
      // It may be known by its key already.
      if (task.pid.byteLength > 0 && parent.key !== '' && seen.has(nameOf({ ...task, key: '' }))) continue;
      seen.add(nameOf({ ...task, key: '' }));
      tasks.push({ task, before: at, asParent: parent });
    }
  }
  return false;
}

async function unfinishedOf(
  one: FlowRead,
  first: TaskInfo,
  seen: Set<string>,
): Promise<Pick<FlowAround, 'unfinished' | 'isUnfinishedCut'>> {
  const unfinished: TaskInFlow[] = [];
  let isUnfinishedCut = false;
  let searches = 1;
  for (let at = -1; at < unfinished.length; at++) {
    const { children, moreChildren } = unfinished[at]?.task ?? first;
    isUnfinishedCut ||= moreChildren;
    for (const child of children) {
      if (seen.has(nameOf(child))) continue;
      if (unfinished.length === MOST_TASKS) return { unfinished, isUnfinishedCut: true };
      seen.add(nameOf(child));
      const isSearched = searches++ < MOST_SEARCHES;
      const task = await one(child, isSearched);
      // It may have ended since.
      if (task === undefined || task.state === TaskState.TASK_STATE_NOT_FOUND) continue;
      isUnfinishedCut ||= !isSearched && (task.waits?.signals ?? 0) > 0;
      unfinished.push({ task, before: at < 0 ? undefined : at, asParent: child });
    }
  }
  return { unfinished, isUnfinishedCut };
}

// Without Buffer: browsers use this, too.
const nameOf = ({ queue, pid, key }: FlowTaskName): string =>
  key === '' ? `${queue}\0p${pid.join()}` : `${queue}\0k${key}`;

/**
 * The order of unfinished tasks in a table in which each task stands below those for which it waits, with the depth of each, and
 * that of the task that was asked for. `of`: the place of the one that waits for each.
 */
export function childRows(
  of: readonly (number | undefined)[],
  hasEnded: boolean,
): { readonly before: readonly { readonly at: number; readonly depth: number }[]; readonly depth: number } {
  const levels: number[] = [];
  for (const parent of of) levels.push(parent === undefined ? 1 : (levels[parent] ?? 0) + 1);
  const depth = Math.max(hasEnded ? 1 : 0, ...levels);
  const children = Map.groupBy(of.keys(), (at) => of[at]);
  const rowsOf = (parent: number | undefined): { at: number; depth: number }[] =>
    (children.get(parent) ?? []).flatMap((at) => [...rowsOf(at), { at, depth: depth - (levels[at] ?? 0) }]);
  return { before: rowsOf(undefined), depth };
}
