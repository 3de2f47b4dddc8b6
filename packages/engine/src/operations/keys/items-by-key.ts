import type { TaskItem, UpdateCommand, UpdateEnd } from '../../domain/commands.ts';
import type { Pid } from '../../domain/ids.ts';
import type { TaskDraft } from '../task-draft.ts';

/** The task that an item names by its key. */
interface Named {
  /** Its PID before the update. Undefined: there is none, or the draft needs a read. */
  readonly pid: Pid | undefined;
  /** True if another item of the update names the same task by its PID. */
  readonly isNamedTwice: boolean;
}

/**
 * Finds the tasks that items of an update name by their keys, before the update has changed the draft. Undefined: there are no
 * such items.
 */
export function itemsByKey(
  command: UpdateCommand,
  start: UpdateEnd,
  end: UpdateEnd,
  draft: TaskDraft,
): ReadonlyMap<TaskItem, Named> | undefined {
  const { dequeue, release } = command;
  let items: TaskItem[] | undefined;
  for (let at = start.dequeue; at < end.dequeue; at++) items = withKeyed(items, dequeue[at]);
  for (let at = start.release; at < end.release; at++) items = withKeyed(items, release[at]);
  if (items === undefined) return undefined;
  const pids = pidsByQueue(command, start, end);
  const found = new Map<TaskItem, Named>();
  for (const item of items) {
    const queue = draft.queue(item.queue);
    const pid = queue === undefined || item.key === undefined ? undefined : draft.pidOfKey(queue, item.key);
    const isNamedTwice = pid !== undefined && pids.get(item.queue.name)?.has(pid) === true;
    found.set(item, { pid, isNamedTwice });
  }
  return found;
}

function withKeyed(items: TaskItem[] | undefined, item: TaskItem | undefined): TaskItem[] | undefined {
  if (item?.key === undefined) return items;
  if (items === undefined) return [item];
  items.push(item);
  return items;
}

/** The PIDs that items of an update name, by the names of their queues. */
function pidsByQueue(
  { dequeue, renew, release }: UpdateCommand,
  start: UpdateEnd,
  end: UpdateEnd,
): ReadonlyMap<string, ReadonlySet<Pid>> {
  const pids = new Map<string, Set<Pid>>();
  const items: readonly TaskItem[] = [
    ...dequeue.slice(start.dequeue, end.dequeue),
    ...renew.slice(start.renew, end.renew),
    ...release.slice(start.release, end.release),
  ];
  for (const { queue, pid, key } of items) {
    if (key !== undefined) continue;
    const ofQueue = pids.get(queue.name);
    if (ofQueue === undefined) pids.set(queue.name, new Set([pid]));
    else ofQueue.add(pid);
  }
  return pids;
}
