import {
  type Enqueue,
  EnqueueMode,
  EnqueueResult,
  type LeaseTasksRequest,
  TaskState,
  type UpdateTasksRequest,
} from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Transport } from '../transport/transport.ts';
import { isTaskMasterError } from '../values/errors.ts';

/** A transport to an engine without tasks. */
export interface TransportWorld extends AsyncDisposable {
  readonly transport: Transport;
  /** From now on updates arrive and are never answered. */
  stall(): void;
  /** Lets time pass until the promise settles. */
  settle<T>(promise: Promise<T>): Promise<T>;
}

const QUEUE = 'shop#mail';
const bytes = (text: string): Uint8Array => Buffer.from(text);
const text = (data: Uint8Array | undefined): string => Buffer.from(data ?? []).toString();

const update = (change: Partial<UpdateTasksRequest>): UpdateTasksRequest => ({
  enqueue: [],
  dequeue: [],
  renew: [],
  release: [],
  requestId: bytes(''),
  ...change,
});
const enqueue = (pid: string, change: Partial<Enqueue> = {}): UpdateTasksRequest =>
  update({
    enqueue: [
      {
        queue: QUEUE,
        pid: bytes(pid),
        data: bytes(`data of ${pid}`),
        mode: EnqueueMode.ENQUEUE_MODE_UNSPECIFIED,
        delayMs: 0,
        retry: undefined,
        ...change,
      },
    ],
  });
const dequeue = (pid: string, leaseToken: number): UpdateTasksRequest =>
  update({ dequeue: [{ queue: QUEUE, pid: bytes(pid), leaseToken }] });
const lease = (waitMs = 0): LeaseTasksRequest => ({
  queues: [QUEUE],
  maxTasks: 10,
  leaseDurationMs: 30_000,
  maxPid: bytes(''),
  waitMs,
  workerLabel: 'w',
  maxBytes: 0,
});
const statesOf = async ({ transport }: TransportWorld, ...pids: string[]): Promise<TaskState[]> => {
  const { tasks } = await transport.getTasks({ queue: QUEUE, pids: pids.map(bytes), includeData: false });
  return tasks.map(({ state }) => state);
};

/** What every implementation of Transport keeps; `start` opens one to an engine of its own. */
export function transportContract(name: string, start: () => Promise<TransportWorld>): void {
  describe(`${name} keeps the transport contract`, () => {
    test('a task goes in, is leased with its payload, and is completed', async () => {
      await using world = await start();
      const { transport } = world;
      const { enqueued } = await transport.updateTasks(enqueue('a'));
      expect(enqueued).toMatchObject([{ result: EnqueueResult.ENQUEUE_RESULT_CREATED, leased: false }]);
      const { tasks } = await transport.leaseTasks(lease());
      expect(tasks).toMatchObject([{ queue: QUEUE, attempt: 1 }]);
      expect([text(tasks[0]?.pid), text(tasks[0]?.data)]).toEqual(['a', 'data of a']);
      expect(await statesOf(world, 'a', 'b')).toEqual([TaskState.TASK_STATE_LEASED, TaskState.TASK_STATE_NOT_FOUND]);
      await transport.updateTasks(dequeue('a', tasks[0]?.leaseToken ?? 0));
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_NOT_FOUND]);
    });

    test('payloads are not shared with the engine', async () => {
      await using world = await start();
      const { transport } = world;
      const data = bytes('first');
      await transport.updateTasks(enqueue('a', { data }));
      data.fill(0);
      const { tasks } = await transport.leaseTasks(lease());
      expect(text(tasks[0]?.data)).toBe('first');
      tasks[0]?.data.fill(0);
      const seen = await transport.getTasks({ queue: QUEUE, pids: [bytes('a')], includeData: true });
      expect(text(seen.tasks[0]?.data)).toBe('first');
      seen.tasks[0]?.data.fill(0);
      await transport.resetLeases({ queue: QUEUE });
      expect(text((await transport.leaseTasks(lease())).tasks[0]?.data)).toBe('first');
    });

    test('a refusal has its reason and its items, and changes nothing', async () => {
      await using world = await start();
      const { transport } = world;
      await transport.updateTasks(enqueue('a'));
      const refused = async (request: UpdateTasksRequest) => {
        const error: unknown = await transport.updateTasks(request).catch((thrown: unknown) => thrown);
        if (!isTaskMasterError(error)) throw new Error('it is no TaskMasterError');
        const items = error.items.map(({ kind, index, reason }) => `${kind} ${index} ${reason}`);
        return [error.reason, error.retryable, error.maybeApplied, ...items];
      };
      expect(await refused(enqueue('a', { mode: EnqueueMode.ENQUEUE_MODE_FAIL }))).toEqual([
        ...['TASK_EXISTS', false, false, 'enqueue 0 TASK_EXISTS'],
      ]);
      const { tasks } = await transport.leaseTasks(lease());
      const other = (tasks[0]?.leaseToken ?? 0) + 1;
      const both = { ...enqueue('b'), ...dequeue('a', other), enqueue: enqueue('b').enqueue };
      expect(await refused(both)).toEqual(['LEASE_LOST', false, false, 'dequeue 0 LEASE_LOST']);
      expect(await refused(dequeue('c', 7))).toEqual(['TASK_NOT_FOUND', false, false, 'dequeue 0 TASK_NOT_FOUND']);
      expect(await statesOf(world, 'a', 'b')).toEqual([TaskState.TASK_STATE_LEASED, TaskState.TASK_STATE_NOT_FOUND]);
    });

    test('a repeated request id has the same answer, and no other request may use it', async () => {
      await using world = await start();
      const { transport } = world;
      const request = { ...enqueue(''), requestId: bytes('sixteen bytes id') };
      const first = await transport.updateTasks(request);
      expect(await transport.updateTasks(request)).toEqual(first);
      expect(await transport.getQueueStats({ queues: [QUEUE], filter: undefined })).toMatchObject({
        queues: [{ available: 1 }],
      });
      const other = { ...enqueue('b'), requestId: request.requestId };
      await expect(transport.updateTasks(other)).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
    });

    test('a lease finds nothing at once, or after its wait, which comes on top of the timeout', async () => {
      await using world = await start();
      const { transport, settle } = world;
      expect((await transport.leaseTasks(lease())).tasks).toEqual([]);
      const waiting = transport.leaseTasks(lease(1_100), { timeoutMs: 1_000 });
      expect((await settle(waiting)).tasks).toEqual([]);
    });

    test('a waiting lease gets the task that comes', async () => {
      await using world = await start();
      const { transport, settle } = world;
      const waiting = transport.leaseTasks(lease(20_000));
      await transport.updateTasks(enqueue('a'));
      expect((await settle(waiting)).tasks).toHaveLength(1);
    });

    test('a waiting lease that is given up takes no task away', async () => {
      await using world = await start();
      const { transport, settle } = world;
      const giveUp = new AbortController();
      const waiting = transport.leaseTasks(lease(20_000), { signal: giveUp.signal });
      const refused = expect(settle(waiting)).rejects.toMatchObject({ name: 'CancelledError', reason: 'CANCELLED' });
      await statesOf(world, 'a'); // The lease has gone before.
      giveUp.abort();
      await refused;
      await transport.updateTasks(enqueue('a'));
      expect((await transport.leaseTasks(lease())).tasks).toHaveLength(1);
    });

    test('a call that is given up before it begins does not reach the engine', async () => {
      await using world = await start();
      const { transport } = world;
      const signal = AbortSignal.abort();
      const given = { name: 'CancelledError', maybeApplied: false };
      await expect(transport.updateTasks(enqueue('a'), { signal })).rejects.toMatchObject(given);
      await expect(transport.leaseTasks(lease(), { signal })).rejects.toMatchObject(given);
      await expect(transport.deleteQueue({ queue: QUEUE }, { signal })).rejects.toMatchObject(given);
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_NOT_FOUND]);
    });

    test('a call without an answer ends at its timeout, or when it is given up: it may have been carried out', async () => {
      await using world = await start();
      const { transport, settle } = world;
      await statesOf(world, 'a'); // The connection is up.
      world.stall();
      await expect(settle(transport.updateTasks(enqueue('a'), { timeoutMs: 200 }))).rejects.toMatchObject({
        ...{ name: 'DeadlineExceededError', reason: 'DEADLINE_EXCEEDED', maybeApplied: true },
      });
      const giveUp = new AbortController();
      const update = transport.updateTasks(enqueue('b'), { signal: giveUp.signal });
      const refused = expect(settle(update)).rejects.toMatchObject({ name: 'CancelledError', maybeApplied: true });
      await statesOf(world, 'b');
      giveUp.abort();
      await refused;
    });

    test('closing ends the calls in flight and refuses new ones', async () => {
      await using world = await start();
      const { transport, settle } = world;
      await statesOf(world, 'a');
      world.stall();
      const given = { name: 'CancelledError', reason: 'CANCELLED' };
      const calls = [transport.leaseTasks(lease(20_000)), transport.updateTasks(enqueue('a'))];
      const refused = calls.map((call) => expect(settle<unknown>(call)).rejects.toMatchObject(given));
      await statesOf(world, 'a');
      await transport.close();
      await Promise.all(refused);
      const late = { ...given, maybeApplied: false };
      await expect(transport.updateTasks(enqueue('b'))).rejects.toMatchObject(late);
      await expect(transport.leaseTasks(lease())).rejects.toMatchObject(late);
      await expect(transport.getQueueStats({ queues: [QUEUE], filter: undefined })).rejects.toMatchObject(late);
      await transport.close();
    });

    test('queues are listed, peeked at, emptied of leases and deleted', async () => {
      await using world = await start();
      const { transport } = world;
      await transport.updateTasks(enqueue('b'));
      await transport.updateTasks(enqueue('a'));
      await transport.updateTasks(enqueue('c', { delayMs: 60_000 }));
      const peeked = await transport.peekTasks({ queue: QUEUE, kind: 0, limit: 10, includeData: false });
      expect(peeked.tasks.map(({ pid }) => text(pid))).toEqual(['a', 'b']);
      const { queues } = await transport.listQueues({ filter: undefined, limit: 0, pageToken: '' });
      expect(queues).toMatchObject([{ queue: QUEUE, available: 2, delayed: 1, leased: 0 }]);
      const { tasks } = await transport.leaseTasks(lease());
      expect(await transport.resetLeases({ queue: QUEUE })).toEqual({ resetTasks: 2 });
      await expect(transport.updateTasks(dequeue('a', tasks[0]?.leaseToken ?? 0))).rejects.toMatchObject({
        reason: 'LEASE_LOST',
      });
      expect(await transport.deleteQueue({ queue: QUEUE })).toEqual({ deletedTasks: 3 });
      expect((await transport.listQueues({ filter: undefined, limit: 0, pageToken: '' })).queues).toEqual([]);
    });
  });
}
