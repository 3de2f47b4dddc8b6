import {
  type Enqueue,
  EnqueueMode,
  ItemKind,
  type ItemRefusal,
  TaskState,
  type UpdateTasksRequest,
} from '@taskmaster/proto';
import type { FakeTask } from './fake-task.ts';

/** The state that decides about items. */
export interface ItemView {
  find(queue: string, pid: Uint8Array): FakeTask | undefined;
  ofKey(queue: string, key: string): FakeTask | undefined;
  stateOf(task: FakeTask): TaskState;
  /** The enqueues that an enqueue stands for: one for each queue that gets it. */
  targetsOf(item: Enqueue): readonly Enqueue[];
}

/** The update with the PIDs of the tasks that it names by their keys. Items about unknown keys keep them. */
export function withPids(request: UpdateTasksRequest, view: ItemView): UpdateTasksRequest {
  const named = <Item extends UpdateTasksRequest['dequeue'][number] | UpdateTasksRequest['release'][number]>(
    item: Item,
  ): Item => {
    const task = item.key === undefined ? undefined : view.ofKey(item.queue, item.key);
    return task === undefined ? item : { ...item, pid: task.pid, key: undefined };
  };
  return { ...request, dequeue: request.dequeue.map(named), release: request.release.map(named) };
}

/** The items because of which an update is refused. */
export function refusedItems(request: UpdateTasksRequest, view: ItemView): ItemRefusal[] {
  const refused: ItemRefusal[] = [];
  const check = (
    kind: ItemKind,
    index: number,
    { queue, pid, leaseToken, key }: { queue: string; pid: Uint8Array; leaseToken: number; key?: string | undefined },
    reasonOf: (task: FakeTask) => string | undefined,
  ): void => {
    const task = view.find(queue, pid);
    const lost = task !== undefined && leaseToken !== 0 && leaseToken !== task.token;
    const reason = task === undefined ? 'TASK_NOT_FOUND' : lost ? 'LEASE_LOST' : reasonOf(task);
    if (reason !== undefined) refused.push({ kind, index, queue, pid, reason, key: key ?? '' });
  };
  const isLeased = (task: FakeTask): boolean => view.stateOf(task) === TaskState.TASK_STATE_LEASED;
  const waiting = (task: FakeTask): string | undefined => (isLeased(task) ? 'TASK_LEASED' : undefined);
  const leased = (task: FakeTask): string | undefined => (isLeased(task) ? undefined : 'LEASE_EXPIRED');
  const backAgain = ({ pid, origin }: FakeTask): string | undefined => {
    if (origin === undefined) return 'NOT_DEAD_LETTERED';
    return view.find(origin.queue, pid) === undefined ? undefined : 'TASK_EXISTS';
  };
  for (const [index, item] of request.dequeue.entries()) {
    check(ItemKind.ITEM_KIND_DEQUEUE, index, item, (task) => (item.requeue ? backAgain(task) : undefined));
  }
  for (const [index, item] of request.renew.entries()) check(ItemKind.ITEM_KIND_RENEW, index, item, leased);
  for (const [index, item] of request.release.entries()) {
    check(ItemKind.ITEM_KIND_RELEASE, index, item, item.waiting ? waiting : leased);
  }
  for (const [index, item] of request.enqueue.entries()) {
    const { queue, pid, mode } = item;
    const exists = view.targetsOf(item).some((target) => view.find(target.queue, pid) !== undefined);
    if (mode !== EnqueueMode.ENQUEUE_MODE_FAIL || !exists) continue;
    refused.push({ kind: ItemKind.ITEM_KIND_ENQUEUE, index, queue, pid, reason: 'TASK_EXISTS', key: '' });
  }
  return refused;
}
