import { EventKind, methods, TaskOutcome, type WaitForTasksRequest } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { bytes, dequeue, enqueue, lease, QUEUE, release, text, update } from './transport-requests.ts';
import type { TransportWorld } from './transport-world.ts';

const wait = (pid: string, waitMs = 0): WaitForTasksRequest => ({ tasks: [{ queue: QUEUE, pid: bytes(pid) }], waitMs });
const completion = (pid: string, token: number, result: string) => {
  const dequeues = dequeue(pid, token).dequeue.map((item) => ({ ...item, result: bytes(result) }));
  return update({ dequeue: dequeues });
};

/** The part of the transport contract about waits for tasks. */
export function waitsContract(start: () => Promise<TransportWorld>): void {
  test('a wait has the result of a task that was completed, and knows that another is unknown', async () => {
    await using world = await start();
    const { transport } = world;
    await transport.unary(methods.updateTasks, enqueue('a'));
    expect(await transport.unary(methods.waitForTasks, wait('a'))).toEqual({ ended: [] });
    const { tasks } = await transport.unary(methods.leaseTasks, lease());
    await transport.unary(methods.updateTasks, completion('a', tasks[0]?.leaseToken ?? 0, '42'));
    const { ended } = await transport.unary(methods.waitForTasks, wait('a'));
    expect(ended).toMatchObject([{ task: 0, outcome: TaskOutcome.TASK_OUTCOME_COMPLETED, attempts: 1 }]);
    expect([text(ended[0]?.result), ended[0]?.endedUnixMs]).toEqual(['42', expect.any(Number)]);
    expect(await transport.unary(methods.waitForTasks, wait('b', 1_000))).toMatchObject({
      ended: [{ outcome: TaskOutcome.TASK_OUTCOME_UNKNOWN, result: undefined, endedUnixMs: 0 }],
    });
  });

  test('a wait ends with its task, and an empty result is a result', async () => {
    await using world = await start();
    const { transport, settle } = world;
    await transport.unary(methods.updateTasks, enqueue('a'));
    const waiting = transport.unary(methods.waitForTasks, wait('a', 20_000));
    const { tasks } = await transport.unary(methods.leaseTasks, lease());
    await transport.unary(methods.updateTasks, completion('a', tasks[0]?.leaseToken ?? 0, ''));
    expect((await settle(waiting)).ended).toMatchObject([{ result: expect.any(Uint8Array) }]);
  });

  test('a wait for a task that stays ends after its time, which is added to the timeout', async () => {
    await using world = await start();
    const { transport, settle } = world;
    await transport.unary(methods.updateTasks, enqueue('a'));
    expect(await settle(transport.unary(methods.waitForTasks, wait('a', 1_100), { timeoutMs: 1_000 }))).toEqual({
      ended: [],
    });
  });

  test('a read of events has what happened behind a position, and waits for the next event', async () => {
    await using world = await start();
    const { transport, settle } = world;
    const read = { queues: QUEUE, after: '', kinds: [], task: undefined, maxEvents: 0, waitMs: 0 };
    const { events, position } = await transport.unary(methods.readEvents, read);
    expect([events, position]).toEqual([[], expect.any(String)]);
    await transport.unary(methods.updateTasks, enqueue('a'));
    const { events: seen, position: after } = await transport.unary(methods.readEvents, { ...read, after: position });
    expect(seen).toMatchObject([{ kind: EventKind.EVENT_KIND_ENQUEUED, queue: QUEUE, position: after }]);
    const waiting = transport.unary(methods.readEvents, { ...read, after, waitMs: 20_000 });
    await transport.unary(methods.updateTasks, enqueue('b'));
    const [next] = (await settle(waiting)).events;
    expect(text(next?.pid)).toBe('b');
    expect(await settle(transport.unary(methods.readEvents, { ...read, waitMs: 1_100 }, { timeoutMs: 1_000 }))).toEqual(
      {
        events: [],
        position: expect.any(String),
      },
    );
  });

  test('a leased task that is cancelled stays until its attempt ends, and its worker is told', async () => {
    await using world = await start();
    const { transport, settle } = world;
    await transport.unary(methods.updateTasks, enqueue('a'));
    await transport.unary(methods.updateTasks, enqueue('b'));
    const { tasks } = await transport.unary(methods.leaseTasks, { ...lease(), maxTasks: 1 });
    const leaseToken = tasks[0]?.leaseToken ?? 0;
    const awaited = { queue: QUEUE, pid: bytes('a'), leaseToken };
    const waiting = transport.unary(methods.waitForTasks, { tasks: [awaited], waitMs: 20_000 });
    const cancelled = { queue: QUEUE, leaseToken: 0, requeue: false, cancelReason: 'too late' };
    const dequeues = ['a', 'b'].map((pid) => ({ ...cancelled, pid: bytes(pid) }));
    await transport.unary(methods.updateTasks, update({ dequeue: dequeues }));
    const requested = TaskOutcome.TASK_OUTCOME_CANCEL_REQUESTED;
    expect((await settle(waiting)).ended).toMatchObject([{ task: 0, outcome: requested, cancelReason: 'too late' }]);
    const renewal = { ...awaited, leaseDurationMs: 1_000, progress: undefined };
    const { renewed } = await transport.unary(methods.updateTasks, update({ renew: [renewal] }));
    expect(renewed).toMatchObject([{ cancelReason: 'too late' }]);
    await transport.unary(methods.updateTasks, release('a', leaseToken));
    for (const pid of ['a', 'b']) {
      const { ended } = await transport.unary(methods.waitForTasks, wait(pid, 1_000));
      expect(ended).toMatchObject([{ outcome: TaskOutcome.TASK_OUTCOME_CANCELLED, cancelReason: 'too late' }]);
    }
  });

  test('a cancelled wait rejects', async () => {
    await using world = await start();
    const { transport, settle } = world;
    await transport.unary(methods.updateTasks, enqueue('a'));
    const giveUp = new AbortController();
    const waiting = transport.unary(methods.waitForTasks, wait('a', 20_000), { signal: giveUp.signal });
    const given = { name: 'CancelledError', reason: 'CANCELLED' };
    const refused = expect(settle(waiting)).rejects.toMatchObject(given);
    await transport.unary(methods.leaseTasks, lease()); // The wait has gone before.
    giveUp.abort();
    await refused;
    const { signal } = giveUp;
    await expect(transport.unary(methods.waitForTasks, wait('a'), { signal })).rejects.toMatchObject({
      ...given,
      maybeApplied: false,
    });
  });
}
