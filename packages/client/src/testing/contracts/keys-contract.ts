import { EnqueueMode, methods, TaskState } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { dequeue, enqueue, get, lease, QUEUE, release, text, update } from './transport-requests.ts';
import type { TransportWorld } from './transport-world.ts';

const KEY = 'order-17';
const put = (pid: string) => enqueue(pid, { key: KEY, mode: EnqueueMode.ENQUEUE_MODE_REPLACE });
const remove = (key: string, leaseToken = 0, cancelReason?: string) =>
  update({ dequeue: dequeue('', leaseToken).dequeue.map((item) => ({ ...item, key, cancelReason })) });

/** The part of the transport contract about tasks that are named by their keys. */
export function keysContract(start: () => Promise<TransportWorld>): void {
  test('a task is found by its key wherever it is, behind the tasks found by their PIDs', async () => {
    await using world = await start();
    const { transport } = world;
    await transport.unary(methods.updateTasks, put('5'));
    await transport.unary(methods.updateTasks, put('1'));
    const { tasks } = await transport.unary(methods.getTasks, { ...get('1'), keys: ['none', KEY] });
    expect(tasks.map(({ pid, key, state, data }) => [text(pid), key, state, text(data)])).toEqual([
      ['1', KEY, TaskState.TASK_STATE_AVAILABLE, 'data of 1'],
      ['', 'none', TaskState.TASK_STATE_NOT_FOUND, ''],
      ['1', KEY, TaskState.TASK_STATE_AVAILABLE, 'data of 1'],
    ]);
  });

  test('a task is rescheduled, cancelled and removed by its key', async () => {
    await using world = await start();
    const { transport } = world;
    const later = release('', 0, { key: KEY, waiting: true, delayMs: 60_000 });
    const stateOf = async () =>
      (await transport.unary(methods.getTasks, { ...get('', false), pids: [], keys: [KEY] })).tasks[0]?.state;
    await transport.unary(methods.updateTasks, put('5'));
    await transport.unary(methods.updateTasks, later);
    expect(await stateOf()).toBe(TaskState.TASK_STATE_DELAYED);
    await transport.unary(methods.updateTasks, remove(KEY, 0, 'too late'));
    expect(await stateOf()).toBe(TaskState.TASK_STATE_NOT_FOUND);
    await transport.unary(methods.updateTasks, put('5'));
    const { tasks } = await transport.unary(methods.leaseTasks, lease());
    await expect(transport.unary(methods.updateTasks, later)).rejects.toMatchObject({ reason: 'TASK_LEASED' });
    await transport.unary(methods.updateTasks, remove(KEY, tasks[0]?.leaseToken));
    expect(await stateOf()).toBe(TaskState.TASK_STATE_NOT_FOUND);
  });

  test('an item of an unknown key is refused, and the refusal names the key', async () => {
    await using world = await start();
    await expect(world.transport.unary(methods.updateTasks, remove(KEY))).rejects.toMatchObject({
      reason: 'TASK_NOT_FOUND',
      items: [{ kind: 'dequeue', index: 0, queue: QUEUE, key: KEY }],
    });
  });
}
