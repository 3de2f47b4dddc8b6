import type { ShownTask, TaskCall, UpdateCall } from '@taskmaster/cli/testing/history';
import type { ModelTask, World } from '../world.ts';

/** The task with this key. A dead letter is not found by its key. */
export const withKey = (world: World, queue: string, key: string): ModelTask | undefined =>
  world.tasks(queue).find((task) => task.key === key && task.origin === undefined);

/** What a completed task with this key leaves stands under this name, beside the PIDs. */
export const endOfKey = (key: string): string => `key ${key}`;

/** The update with the PIDs that the tasks named by keys have before it. */
export function withPids(world: World, call: UpdateCall): UpdateCall {
  const named = <Item extends TaskCall>(item: Item): Item =>
    item.key === undefined ? item : { ...item, pid: withKey(world, item.queue, item.key)?.pid ?? '' };
  return { ...call, dequeue: call.dequeue.map(named), release: call.release.map(named) };
}

/** Whether another item of the update names the task of this one by its PID. */
export function isNamedTwice({ dequeue, renew, release }: UpdateCall, { queue, pid, key }: TaskCall): boolean {
  if (key === undefined) return false;
  const others: readonly TaskCall[] = [...dequeue, ...renew, ...release];
  return others.some((other) => other.key === undefined && other.queue === queue && other.pid === pid);
}

/** True if these are the PIDs of the tasks with these keys. */
export const areOfKeys = (world: World, queue: string, keys: readonly string[], shown: readonly ShownTask[]): boolean =>
  shown.length === keys.length && keys.every((key, at) => (withKey(world, queue, key)?.pid ?? '') === shown[at]?.pid);
