import {
  type BackupPartitionResponse,
  EnqueueMode,
  EnqueueResult,
  type LeaseTasksRequest,
  methods,
  PeekKind,
  partitionOf,
  type Release,
  TaskState,
  type UpdateTasksRequest,
} from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Transport } from '../../transport/transport.ts';
import { isTaskMasterError } from '../../values/errors.ts';
import { headersContract } from './headers-contract.ts';
import { keysContract } from './keys-contract.ts';
import { schedulesContract } from './schedules-contract.ts';
import { testSettings } from './settings-contract.ts';
import { timeLimitContract } from './time-limit-contract.ts';
import { topicsContract } from './topics-contract.ts';
import { bytes, dequeue, enqueue, get, lease, QUEUE, release, text, update } from './transport-requests.ts';
import { statesOf, type TransportWorld } from './transport-world.ts';
import { waitsContract } from './waits-contract.ts';

const backup = (partition: number) => ({ partition, unchangedSince: undefined, maxBytesPerSecond: 0 });
async function partsOf(transport: Transport, partition: number): Promise<BackupPartitionResponse[]> {
  const parts: BackupPartitionResponse[] = [];
  for await (const part of transport.stream(methods.backupPartition, backup(partition))) parts.push(part);
  return parts;
}

/** The contract of every implementation of Transport. `start` opens one with a new engine. */
export function transportContract(name: string, start: () => Promise<TransportWorld>): void {
  describe(`${name} keeps the transport contract`, () => {
    headersContract(start);
    waitsContract(start);
    schedulesContract(start);
    topicsContract(start);
    keysContract(start);
    testSettings(start);
    timeLimitContract(start);

    test('a task goes in, is leased with its payload, and is completed', async () => {
      await using world = await start();
      const { transport } = world;
      const { enqueued } = await transport.unary(methods.updateTasks, enqueue('a'));
      expect(enqueued).toMatchObject([{ result: EnqueueResult.ENQUEUE_RESULT_CREATED, leased: false }]);
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
      expect(tasks).toMatchObject([{ queue: QUEUE, attempt: 1 }]);
      expect([text(tasks[0]?.pid), text(tasks[0]?.data)]).toEqual(['a', 'data of a']);
      expect(await statesOf(world, 'a', 'b')).toEqual([TaskState.TASK_STATE_LEASED, TaskState.TASK_STATE_NOT_FOUND]);
      await transport.unary(methods.updateTasks, dequeue('a', tasks[0]?.leaseToken ?? 0));
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_NOT_FOUND]);
    });

    test('payloads are not shared with the engine', async () => {
      await using world = await start();
      const { transport } = world;
      const data = bytes('first');
      await transport.unary(methods.updateTasks, enqueue('a', { data }));
      data.fill(0);
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
      expect(text(tasks[0]?.data)).toBe('first');
      tasks[0]?.data.fill(0);
      const seen = await transport.unary(methods.getTasks, get('a'));
      expect(text(seen.tasks[0]?.data)).toBe('first');
      seen.tasks[0]?.data.fill(0);
      await transport.unary(methods.resetLeases, { queue: QUEUE });
      expect(text((await transport.unary(methods.leaseTasks, lease())).tasks[0]?.data)).toBe('first');
    });

    test('a refusal has its reason and its items, and changes nothing', async () => {
      await using world = await start();
      const { transport } = world;
      await transport.unary(methods.updateTasks, enqueue('a'));
      const refused = async (request: UpdateTasksRequest) => {
        const error: unknown = await transport.unary(methods.updateTasks, request).catch((thrown: unknown) => thrown);
        if (!isTaskMasterError(error)) throw new Error('it is no TaskMasterError');
        const items = error.items.map(({ kind, index, reason }) => `${kind} ${index} ${reason}`);
        return [error.reason, error.retryable, error.maybeApplied, ...items];
      };
      expect(await refused(enqueue('a', { mode: EnqueueMode.ENQUEUE_MODE_FAIL }))).toEqual([
        'TASK_EXISTS',
        false,
        false,
        'enqueue 0 TASK_EXISTS',
      ]);
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
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
      const first = await transport.unary(methods.updateTasks, request);
      expect(await transport.unary(methods.updateTasks, request)).toEqual(first);
      expect(await transport.unary(methods.getQueueStats, { queues: [QUEUE], filter: undefined })).toMatchObject({
        queues: [{ available: 1 }],
      });
      const other = { ...enqueue('b'), requestId: request.requestId };
      await expect(transport.unary(methods.updateTasks, other)).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
    });

    test('the parts of an update are decided one by one, with the same outcomes when they are repeated', async () => {
      await using world = await start();
      const { transport } = world;
      const one = { enqueues: 1, dequeues: 0, renewals: 0, releases: 0 };
      const enqueues = [
        ...enqueue('a').enqueue,
        ...enqueue('a', { mode: EnqueueMode.ENQUEUE_MODE_FAIL }).enqueue,
        ...enqueue('').enqueue,
      ];
      const request = {
        ...update({ enqueue: enqueues, dequeue: dequeue('missing', 0).dequeue }),
        requestId: bytes('sixteen bytes id'),
        parts: [one, one, { ...one, enqueues: 0, dequeues: 1 }, one],
      };
      const first = await transport.unary(methods.updateTasks, request);
      expect(first.enqueued.map(({ pid }) => text(pid))).toEqual(['a', expect.stringMatching(/./)]);
      expect(first.refused).toMatchObject([
        { part: 1, error: { reason: 'TASK_EXISTS', items: [{ index: 0 }] } },
        { part: 2, error: { reason: 'TASK_NOT_FOUND', items: [{ index: 0 }] } },
      ]);
      expect(await transport.unary(methods.updateTasks, request)).toEqual(first);
      const other = { ...request, parts: [one, { ...one, dequeues: 1 }, one] };
      await expect(transport.unary(methods.updateTasks, other)).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
      expect(await transport.unary(methods.getQueueStats, { queues: [QUEUE], filter: undefined })).toMatchObject({
        queues: [{ available: 2 }],
      });
    });

    test('a lease with no task returns at once, or after its wait, which is added to the timeout', async () => {
      await using world = await start();
      const { transport, settle } = world;
      expect((await transport.unary(methods.leaseTasks, lease())).tasks).toEqual([]);
      const waiting = transport.unary(methods.leaseTasks, lease(1_100), { timeoutMs: 1_000 });
      expect((await settle(waiting)).tasks).toEqual([]);
    });

    test('a waiting lease gets the task that comes', async () => {
      await using world = await start();
      const { transport, settle } = world;
      const waiting = transport.unary(methods.leaseTasks, lease(20_000));
      await transport.unary(methods.updateTasks, enqueue('a'));
      expect((await settle(waiting)).tasks).toHaveLength(1);
    });

    test('a waiting lease gets the task of a queue that matches its pattern', async () => {
      await using world = await start();
      const { transport, settle } = world;
      const pattern = { nameRegex: '^shop#(mail|news)$', group: 'shop', afterQueues: 0, id: 3 };
      const byPattern = (waitMs: number) => ({ ...lease(waitMs), queues: [], patterns: [pattern], maxMoreQueues: 5 });
      const waiting = transport.unary(methods.leaseTasks, byPattern(20_000));
      await transport.unary(methods.updateTasks, enqueue('a'));
      expect((await settle(waiting)).tasks).toMatchObject([{ queue: QUEUE, patternId: 3 }]);
      await transport.unary(methods.updateTasks, enqueue('b', { queue: 'shop#news' }));
      await transport.unary(methods.updateTasks, enqueue('c'));
      const { tasks, moreQueues } = await transport.unary(methods.leaseTasks, { ...byPattern(0), maxTasks: 1 });
      expect(new Set([...tasks, ...moreQueues].map(({ queue }) => queue))).toEqual(new Set(['shop#mail', 'shop#news']));
      expect([...tasks, ...moreQueues].map(({ patternId }) => patternId)).toEqual(expect.arrayContaining([3]));
    });

    test('a cancelled waiting lease takes no task away', async () => {
      await using world = await start();
      const { transport, settle } = world;
      const giveUp = new AbortController();
      const waiting = transport.unary(methods.leaseTasks, lease(20_000), { signal: giveUp.signal });
      const refused = expect(settle(waiting)).rejects.toMatchObject({ name: 'CancelledError', reason: 'CANCELLED' });
      await statesOf(world, 'a'); // The lease has gone before.
      giveUp.abort();
      await refused;
      await transport.unary(methods.updateTasks, enqueue('a'));
      expect((await transport.unary(methods.leaseTasks, lease())).tasks).toHaveLength(1);
    });

    test('a call that is cancelled before it begins does not reach the engine', async () => {
      await using world = await start();
      const { transport } = world;
      const signal = AbortSignal.abort();
      const given = { name: 'CancelledError', maybeApplied: false };
      await expect(transport.unary(methods.updateTasks, enqueue('a'), { signal })).rejects.toMatchObject(given);
      await expect(transport.unary(methods.leaseTasks, lease(), { signal })).rejects.toMatchObject(given);
      await expect(transport.unary(methods.deleteQueue, { queue: QUEUE }, { signal })).rejects.toMatchObject(given);
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_NOT_FOUND]);
    });

    test('a call without an answer ends at its timeout, or when it is cancelled: it may have been carried out', async () => {
      await using world = await start();
      const { transport, settle } = world;
      await statesOf(world, 'a'); // The connection is up.
      world.stall();
      await expect(
        settle(transport.unary(methods.updateTasks, enqueue('a'), { timeoutMs: 200 })),
      ).rejects.toMatchObject({
        name: 'DeadlineExceededError',
        reason: 'DEADLINE_EXCEEDED',
        maybeApplied: true,
      });
      const giveUp = new AbortController();
      const update = transport.unary(methods.updateTasks, enqueue('b'), { signal: giveUp.signal });
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
      const calls = [
        transport.unary(methods.leaseTasks, lease(20_000)),
        transport.unary(methods.updateTasks, enqueue('a')),
      ];
      const refused = calls.map((call) => expect(settle<unknown>(call)).rejects.toMatchObject(given));
      await statesOf(world, 'a');
      await transport.close();
      await Promise.all(refused);
      const late = { ...given, maybeApplied: false };
      await expect(transport.unary(methods.updateTasks, enqueue('b'))).rejects.toMatchObject(late);
      await expect(transport.unary(methods.leaseTasks, lease())).rejects.toMatchObject(late);
      await expect(
        transport.unary(methods.getQueueStats, { queues: [QUEUE], filter: undefined }),
      ).rejects.toMatchObject(late);
      await transport.close();
    });

    test('queues are listed and peeked at, their leases are reset, and they are deleted', async () => {
      await using world = await start();
      const { transport } = world;
      await transport.unary(methods.updateTasks, enqueue('b'));
      await transport.unary(methods.updateTasks, enqueue('a'));
      await transport.unary(methods.updateTasks, enqueue('c', { delayMs: 60_000 }));
      const peeked = await transport.unary(methods.peekTasks, {
        queue: QUEUE,
        kind: 0,
        limit: 10,
        includeData: false,
        afterPid: bytes(''),
      });
      expect(peeked.tasks.map(({ pid }) => text(pid))).toEqual(['a', 'b']);
      const { queues } = await transport.unary(methods.listQueues, { filter: undefined, limit: 0, pageToken: '' });
      expect(queues).toMatchObject([{ queue: QUEUE, available: 2, delayed: 1, leased: 0 }]);
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
      expect(await transport.unary(methods.resetLeases, { queue: QUEUE })).toEqual({ resetTasks: 2 });
      await expect(transport.unary(methods.updateTasks, dequeue('a', tasks[0]?.leaseToken ?? 0))).rejects.toMatchObject(
        {
          reason: 'LEASE_LOST',
        },
      );
      expect(await transport.unary(methods.deleteQueue, { queue: QUEUE })).toEqual({ deletedTasks: 3 });
      expect(
        (await transport.unary(methods.listQueues, { filter: undefined, limit: 0, pageToken: '' })).queues,
      ).toEqual([]);
    });

    test('a backup of a partition has a header, and an end that counts its tasks', async () => {
      await using world = await start();
      const { transport } = world;
      await transport.unary(methods.updateTasks, enqueue('a'));
      const partition = partitionOf('shop', 1024);
      const parts = await partsOf(transport, partition);
      expect(parts[0]?.part).toMatchObject({ $case: 'header', value: { partition, partitions: 1024, tasks: 1 } });
      expect(parts.at(-1)?.part).toMatchObject({ $case: 'end', value: { tasks: 1, queues: 1 } });
      const empty = await partsOf(transport, (partition + 1) % 1024);
      expect(empty.at(-1)?.part).toMatchObject({ $case: 'end', value: { tasks: 0, queues: 0 } });
    });

    test('a backup is refused for an unknown partition, after a cancellation, and after a close', async () => {
      await using world = await start();
      const { transport } = world;
      const begin = (partition: number, signal?: AbortSignal) =>
        transport.stream(methods.backupPartition, backup(partition), { signal }).next();
      await expect(begin(1024)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT', maybeApplied: false });
      await expect(begin(0, AbortSignal.abort())).rejects.toMatchObject({ name: 'CancelledError' });
      const parts = transport.stream(methods.backupPartition, backup(0));
      await parts.next();
      await parts.return?.();
      expect(await parts.next()).toEqual({ done: true, value: undefined });
      await transport.close();
      await expect(begin(0)).rejects.toMatchObject({ name: 'CancelledError' });
    });

    test('an enqueue of an existing task keeps it or replaces its data', async () => {
      await using world = await start();
      const { transport } = world;
      const again = async (mode: EnqueueMode): Promise<unknown> =>
        (await transport.unary(methods.updateTasks, enqueue('a', { mode, data: bytes(`by ${mode}`) }))).enqueued[0];
      const data = async (): Promise<string> =>
        text((await transport.unary(methods.getTasks, get('a'))).tasks[0]?.data);
      await transport.unary(methods.updateTasks, enqueue('a'));
      const collapse = EnqueueMode.ENQUEUE_MODE_UNSPECIFIED;
      const replace = EnqueueMode.ENQUEUE_MODE_REPLACE;
      const [collapsed, replaced] = [EnqueueResult.ENQUEUE_RESULT_COLLAPSED, EnqueueResult.ENQUEUE_RESULT_REPLACED];
      expect(await again(collapse)).toMatchObject({ result: collapsed, leased: false });
      expect(await data()).toBe('data of a');
      expect(await again(replace)).toMatchObject({ result: replaced, leased: false });
      expect(await data()).toBe(`by ${replace}`);
      await transport.unary(methods.leaseTasks, lease());
      expect(await again(collapse)).toMatchObject({ result: collapsed, leased: true });
      expect(await again(replace)).toMatchObject({ result: replaced, leased: true });
    });

    test('tasks without a PID are leased in the order in which they were enqueued', async () => {
      await using world = await start();
      const { transport } = world;
      for (const data of ['1', '2', '3'])
        await transport.unary(methods.updateTasks, enqueue('', { data: bytes(data) }));
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
      expect(tasks.map(({ data }) => text(data))).toEqual(['1', '2', '3']);
    });

    test('a lease takes the lowest PIDs up to its limits, from the queues in the given order', async () => {
      await using world = await start();
      const { transport } = world;
      for (const pid of ['b', 'a', 'd', 'c']) await transport.unary(methods.updateTasks, enqueue(pid));
      await transport.unary(methods.updateTasks, enqueue('0', { queue: 'shop#later' }));
      const leased = async (change: Partial<LeaseTasksRequest>): Promise<string[]> =>
        (await transport.unary(methods.leaseTasks, { ...lease(), ...change })).tasks.map(({ pid }) => text(pid));
      expect(await leased({ maxTasks: 1 })).toEqual(['a']);
      expect(await leased({ maxPid: bytes('c') })).toEqual(['b', 'c']);
      expect(await leased({ queues: [QUEUE, 'shop#later'] })).toEqual(['d', '0']);
      expect(await leased({})).toEqual([]);
    });

    test('a release makes a task available, after its delay if it has one, and may refund the attempt', async () => {
      await using world = await start();
      const { transport } = world;
      await transport.unary(methods.updateTasks, enqueue('a'));
      const attempts: number[] = [];
      const releaseLeased = async (change: Partial<Release>): Promise<void> => {
        const { tasks } = await transport.unary(methods.leaseTasks, lease());
        attempts.push(tasks[0]?.attempt ?? 0);
        await transport.unary(methods.updateTasks, release('a', tasks[0]?.leaseToken, change));
      };
      await releaseLeased({});
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_AVAILABLE]);
      await releaseLeased({ refundAttempt: true });
      await releaseLeased({ delayMs: 60_000 });
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_DELAYED]);
      expect(attempts).toEqual([1, 2, 2]);
      const peeked = await transport.unary(methods.peekTasks, {
        queue: QUEUE,
        kind: PeekKind.PEEK_KIND_DELAYED,
        limit: 10,
        includeData: false,
        afterPid: bytes(''),
      });
      expect(peeked.tasks.map(({ pid }) => text(pid))).toEqual(['a']);
    });

    test('an interrupted attempt does not count, and is counted as such', async () => {
      await using world = await start();
      const { transport } = world;
      await transport.unary(methods.updateTasks, enqueue('a'));
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
      const end = { refundAttempt: true, interrupted: true };
      await transport.unary(methods.updateTasks, release('a', tasks[0]?.leaseToken, end));
      const shown = await transport.unary(methods.getTasks, get('a', false));
      expect(shown.tasks).toMatchObject([{ state: TaskState.TASK_STATE_AVAILABLE, attempts: 0, interruptions: 1 }]);
    });

    test('a leased task that is enqueued again runs once more', async () => {
      await using world = await start();
      const { transport } = world;
      const mode = EnqueueMode.ENQUEUE_MODE_RERUN;
      await transport.unary(methods.updateTasks, enqueue('a'));
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
      const { enqueued } = await transport.unary(methods.updateTasks, enqueue('a', { mode, data: bytes('later') }));
      expect(enqueued).toMatchObject([{ result: EnqueueResult.ENQUEUE_RESULT_RERUN, leased: true }]);
      await transport.unary(methods.updateTasks, dequeue('a', tasks[0]?.leaseToken ?? 0));
      const again = await transport.unary(methods.leaseTasks, lease());
      expect(again.tasks.map(({ data, attempt }) => [text(data), attempt])).toEqual([['later', 1]]);
      await transport.unary(methods.updateTasks, dequeue('a', again.tasks[0]?.leaseToken ?? 0));
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_NOT_FOUND]);
    });

    test('a renewal reports progress, which is shown and which the next attempt gets', async () => {
      await using world = await start();
      const { transport } = world;
      await transport.unary(methods.updateTasks, enqueue('a'));
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
      const of = { queue: QUEUE, pid: bytes('a'), leaseToken: tasks[0]?.leaseToken ?? 0, leaseDurationMs: 30_000 };
      const shown = async (): Promise<string | undefined> =>
        (await transport.unary(methods.getTasks, get('a', false))).tasks[0]?.progress;
      await transport.unary(methods.updateTasks, update({ renew: [{ ...of, progress: 'page 3 of 7' }] }));
      await transport.unary(methods.updateTasks, update({ renew: [{ ...of, progress: undefined }] }));
      expect(await shown()).toBe('page 3 of 7');
      await transport.unary(methods.updateTasks, release('a', of.leaseToken));
      const again = await transport.unary(methods.leaseTasks, lease());
      expect(again.tasks).toMatchObject([{ attempt: 2, progress: 'page 3 of 7' }]);
      const none = { ...of, leaseToken: again.tasks[0]?.leaseToken ?? 0, progress: '' };
      await transport.unary(methods.updateTasks, update({ renew: [none] }));
      expect(await shown()).toBe('');
    });

    test('a renewal leaves a checkpoint, whose size is shown and which the next attempt gets', async () => {
      await using world = await start();
      const { transport } = world;
      await transport.unary(methods.updateTasks, enqueue('a'));
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
      const of = { queue: QUEUE, pid: bytes('a'), leaseToken: tasks[0]?.leaseToken ?? 0, leaseDurationMs: 30_000 };
      const sizeOf = async (): Promise<number | undefined> =>
        (await transport.unary(methods.getTasks, get('a', false))).tasks[0]?.checkpointBytes;
      await transport.unary(methods.updateTasks, update({ renew: [{ ...of, checkpoint: bytes('page 3') }] }));
      await transport.unary(methods.updateTasks, update({ renew: [of] }));
      expect(await sizeOf()).toBe(6);
      await transport.unary(methods.updateTasks, release('a', of.leaseToken));
      const again = await transport.unary(methods.leaseTasks, lease());
      expect(again.tasks.map(({ checkpoint }) => text(checkpoint ?? bytes('none')))).toEqual(['page 3']);
      const none = { ...of, leaseToken: again.tasks[0]?.leaseToken ?? 0, checkpoint: bytes('') };
      await transport.unary(methods.updateTasks, update({ renew: [none] }));
      expect(await sizeOf()).toBe(0);
    });

    test('a waiting task becomes available at another instant', async () => {
      await using world = await start();
      const { transport } = world;
      const later = 9_000_000_000_000;
      await transport.unary(methods.updateTasks, enqueue('a', { runAtUnixMs: later }));
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_DELAYED]);
      const waiting = { waiting: true, runAtUnixMs: later + 1 };
      const { released } = await transport.unary(methods.updateTasks, release('a', 0, waiting));
      expect(released).toMatchObject([{ hiddenUntilUnixMs: later + 1 }]);
      await transport.unary(methods.updateTasks, release('a', 0, { waiting: true }));
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_AVAILABLE]);
      await transport.unary(methods.leaseTasks, lease());
      const refused = transport.unary(methods.updateTasks, release('a', 0, { waiting: true }));
      await expect(refused).rejects.toMatchObject({ reason: 'TASK_LEASED' });
    });

    test('a dead task is put back where it was with its retry policy, unless its PID is there again', async () => {
      await using world = await start();
      const { transport } = world;
      const retry = { maxAttempts: 7, backoffInitialMs: 0, backoffMaxMs: 0, deadLetterQueue: `${QUEUE}-morgue` };
      await transport.unary(methods.updateTasks, enqueue('a', { retry }));
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
      const error = { message: 'no such address', details: '' };
      const { released } = await transport.unary(
        methods.updateTasks,
        release('a', tasks[0]?.leaseToken, { deadLetter: true, error }),
      );
      expect(released).toMatchObject([{ deadLetterQueue: `${QUEUE}-morgue` }]);
      const requeue = update({
        dequeue: [{ queue: `${QUEUE}-morgue`, pid: bytes('a'), leaseToken: 0, requeue: true }],
      });
      await transport.unary(methods.updateTasks, enqueue('a'));
      await expect(transport.unary(methods.updateTasks, requeue)).rejects.toMatchObject({ reason: 'TASK_EXISTS' });
      await transport.unary(methods.updateTasks, dequeue('a', 0));
      await transport.unary(methods.updateTasks, requeue);
      const { tasks: found } = await transport.unary(methods.getTasks, get('a'));
      expect(found).toMatchObject([{ attempts: 0, deadLetterFrom: '', failures: [{ attempt: 1, error }] }]);
      expect(found[0]?.retry).toMatchObject({ maxAttempts: 7 });
      expect(text(found[0]?.data)).toBe('data of a');
      const alive = update({ dequeue: [{ queue: QUEUE, pid: bytes('a'), leaseToken: 0, requeue: true }] });
      await expect(transport.unary(methods.updateTasks, alive)).rejects.toMatchObject({ reason: 'NOT_DEAD_LETTERED' });
    });

    test('a task that is released in its last attempt goes to its dead-letter queue', async () => {
      await using world = await start();
      const { transport } = world;
      const retry = { maxAttempts: 1, backoffInitialMs: 0, backoffMaxMs: 0, deadLetterQueue: '' };
      await transport.unary(methods.updateTasks, enqueue('a', { retry }));
      const { tasks } = await transport.unary(methods.leaseTasks, lease());
      expect(tasks).toMatchObject([{ maxAttempts: 1, attempt: 1 }]);
      const { released } = await transport.unary(
        methods.updateTasks,
        release('a', tasks[0]?.leaseToken, { error: { message: 'no such address', details: 'at line 1' } }),
      );
      expect(released).toMatchObject([{ deadLetterQueue: `${QUEUE}.dead` }]);
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_NOT_FOUND]);
      const dead = await transport.unary(methods.getTasks, { ...get('a'), queue: `${QUEUE}.dead` });
      const error = { message: 'no such address', details: 'at line 1' };
      expect(dead.tasks).toMatchObject([
        {
          state: TaskState.TASK_STATE_AVAILABLE,
          attempts: 1,
          deadLetterFrom: QUEUE,
          failures: [{ attempt: 1, error }],
        },
      ]);
      expect(text(dead.tasks[0]?.data)).toBe('data of a');
    });

    test('an expired lease cannot be renewed, but completes the task while there is no other lease', async () => {
      await using world = await start();
      const { transport, settle } = world;
      await transport.unary(methods.updateTasks, enqueue('a'));
      const { tasks } = await transport.unary(methods.leaseTasks, { ...lease(), leaseDurationMs: 200 });
      const of = { queue: QUEUE, pid: bytes('a'), leaseToken: tasks[0]?.leaseToken ?? 0 };
      const renew = (leaseDurationMs: number) =>
        transport.unary(methods.updateTasks, update({ renew: [{ ...of, leaseDurationMs, progress: undefined }] }));
      const { renewed } = await renew(300);
      expect(renewed[0]?.leaseUntilUnixMs).toBeGreaterThan(tasks[0]?.leaseUntilUnixMs ?? 0);
      await settle(transport.unary(methods.leaseTasks, { ...lease(400), queues: ['shop#empty'] }));
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_AVAILABLE]);
      await expect(renew(300)).rejects.toMatchObject({ reason: 'LEASE_EXPIRED', items: [{ kind: 'renew' }] });
      await transport.unary(methods.updateTasks, dequeue('a', of.leaseToken));
      expect(await statesOf(world, 'a')).toEqual([TaskState.TASK_STATE_NOT_FOUND]);
    });

    test('a waiting lease gets a task whose lease or delay ends', async () => {
      await using world = await start();
      const { transport, settle } = world;
      await transport.unary(methods.updateTasks, enqueue('a'));
      await transport.unary(methods.updateTasks, enqueue('b', { queue: 'shop#delayed', delayMs: 100 }));
      await transport.unary(methods.leaseTasks, { ...lease(), leaseDurationMs: 100 });
      const leased = async (queue: string): Promise<unknown> =>
        (await settle(transport.unary(methods.leaseTasks, { ...lease(5_000), queues: [queue] }))).tasks;
      expect(await leased(QUEUE)).toMatchObject([{ queue: QUEUE, attempt: 2 }]);
      expect(await leased('shop#delayed')).toMatchObject([{ queue: 'shop#delayed', attempt: 1 }]);
    });
  });
}
