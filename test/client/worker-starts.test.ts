import { pidText, type Queue } from '@taskmaster/client';
import { methods } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { ClientSetUp } from './support/client-set-up.ts';
import { gatedHandler, named, workerSetUp } from './support/worker-set-up.ts';

/** What updates have told of tasks that begin: PID and size of the call. */
const toldIn = ({ engine }: ClientSetUp): string[] =>
  engine.updates.flatMap(({ renew }) =>
    renew.filter(({ begun }) => begun !== undefined).map(({ pid, begun }) => `${pidText(pid)} of ${begun}`),
  );

/** Another worker leases the tasks, with `together` in each of its calls, and dies. */
async function die({ timing }: ClientSetUp, queue: Queue<string>, together = 1): Promise<void> {
  await queue.lease({ max: 100, leaseDuration: '1s', starts: { now: 0, together } });
  await timing.advance(1_100);
}

describe('a worker tells the node', () => {
  test('nothing of tasks that begin at once, however long they take', async () => {
    const made = workerSetUp();
    const { client, queue, timing } = made;
    await queue.enqueueMany(named('a', 'b'));
    const { begun, handler, finish } = gatedHandler();
    await using worker = client.worker(queue, handler, { concurrency: 2 });
    worker.start();
    await timing.advance(5_000);
    expect(begun).toEqual(['a', 'b']);
    expect((await queue.get(['a', 'b'])).map((task) => task.begun)).toEqual([true, true]);
    expect(toldIn(made)).toEqual([]);
    for (const each of begun) finish(each);
    await timing.settled();
  });

  test('nothing of quick tasks, however many it leases ahead', async () => {
    const made = workerSetUp();
    const { client, queue, timing, engine } = made;
    await queue.enqueueMany(Array.from({ length: 500 }, (_, at) => ({ data: `${at}` })));
    await using worker = client.worker(queue, () => {}, { concurrency: 4, prefetch: 100 });
    worker.start();
    await timing.settled();
    await timing.advance(5_000);
    expect(await engine.pids('g#q')).toEqual([]);
    expect(engine.leases.some(({ starts, maxTasks }) => starts !== undefined && starts.now < maxTasks)).toBe(true);
    expect(engine.updates.flatMap(({ renew }) => renew)).toEqual([]);
  });

  test('of a task that was leased ahead and takes longer than a second', async () => {
    const made = workerSetUp();
    const { client, queue, timing } = made;
    const { begun, handler, finish } = gatedHandler();
    await queue.enqueue('quick', { pid: '0' });
    await using worker = client.worker(queue, (task) => (task.data === 'quick' ? undefined : handler(task)), {
      prefetch: 3,
    });
    worker.start();
    await timing.settled();
    await queue.enqueueMany(named('a', 'b', 'c'));
    await timing.settled();
    // It begins when the worker has leased it ahead.
    finish('a');
    await timing.advance(900);
    expect(begun).toEqual(['a', 'b']);
    const of = async () => (await queue.get(['b', 'c'])).map((task) => task.begun);
    expect(await of()).toEqual([false, false]);
    await timing.advance(1_100);
    expect(await of()).toEqual([true, false]);
    expect(toldIn(made)).toEqual(['b of 1']);
    await timing.advance(5_000);
    expect(toldIn(made)).toEqual(['b of 1']);
    finish('b');
    await timing.settled();
    finish('c');
    await timing.settled();
  });

  test('of a suspected task before it begins it', async () => {
    const made = workerSetUp();
    const { client, queue, timing, transport } = made;
    await queue.enqueueMany(named('a', 'b'));
    await die(made, queue);
    const gate = Promise.withResolvers<void>();
    transport.answers.updateTasks = async (request, send) => {
      if (request.renew.some(({ begun }) => begun !== undefined)) await gate.promise;
      return send();
    };
    const begun: string[] = [];
    // Nothing that gathers begins at once.
    await using worker = client.worker(queue, ([task]) => void begun.push(task?.data ?? ''), { batch: { max: 1 } });
    worker.start();
    await timing.settled();
    expect([begun, worker.active]).toEqual([[], 1]);
    gate.resolve();
    await timing.settled();
    expect(begun).toEqual(['a', 'b']);
  });
});

describe('a suspected task', () => {
  test.each([30_000, 0])('does not begin after a stop, which releases it (timeout %i)', async (timeout) => {
    const made = workerSetUp();
    const { client, queue, timing, transport, heard, hooks } = made;
    await queue.enqueueMany(named('a', 'b'));
    await die(made, queue, 2);
    const gate = Promise.withResolvers<void>();
    transport.answers.updateTasks = async (request, send) => {
      if (request.renew.some(({ begun }) => begun !== undefined)) await gate.promise;
      return send();
    };
    const begun: string[] = [];
    const worker = client.worker(queue, ([task]) => void begun.push(task?.data ?? ''), { ...hooks, batch: { max: 1 } });
    worker.start();
    await timing.settled();
    expect(worker.active).toBe(1);
    const stopping = worker.stop({ timeout });
    await timing.settled();
    gate.resolve();
    await timing.settled();
    await stopping;
    expect([begun, heard, worker.active]).toEqual([[], [], 0]);
    const left = (await queue.get(['a', 'b'])).map(({ state, attempts, interruptions }) => [
      state,
      attempts,
      interruptions,
    ]);
    expect(left).toEqual([
      ['available', 0, 1],
      ['available', 0, 1],
    ]);
  });

  test('does not begin if its lease is lost meanwhile, and others do', async () => {
    const made = workerSetUp();
    const { client, queue, timing, engine, heard, hooks } = made;
    await queue.enqueueMany(named('a', 'b', 'c', 'd'));
    await die(made, queue, 4);
    const calls: string[][] = [];
    const { transport } = made;
    transport.answers.updateTasks = async (_request, send) => {
      delete transport.answers.updateTasks;
      await (await engine.direct).unary(methods.resetLeases, { queue: 'g#q' });
      return send();
    };
    await using worker = client.worker(queue, (tasks) => void calls.push(tasks.map(({ data }) => data)), {
      ...hooks,
      batch: { max: 4 },
    });
    worker.start();
    await timing.settled();
    expect(heard.filter((one) => one.startsWith('lost')).length).toBeGreaterThan(0);
    await timing.advance(1_000);
    expect(calls.flat().toSorted()).toEqual(['a', 'b', 'c', 'd']);
  });

  test('comes in a call of half as many, and then alone', async () => {
    const made = workerSetUp();
    const { client, queue, timing } = made;
    await queue.enqueueMany(named('a', 'b', 'c', 'd'));
    await die(made, queue, 4);
    await queue.enqueueMany(named('e', 'f'));
    const calls: string[] = [];
    await using worker = client.worker(queue, (tasks) => void calls.push(tasks.map(({ data }) => data).join('')), {
      batch: { max: 4 },
    });
    worker.start();
    await timing.settled();
    expect(calls).toEqual(['ab', 'cd', 'ef']);
    expect(toldIn(made)).toEqual(['a of 2', 'b of 2', 'c of 2', 'd of 2']);
  });
});

test('a program without a worker tells which of its tasks begin', async () => {
  const made = workerSetUp();
  const { queue, timing } = made;
  await queue.enqueueMany(named('a', 'b', 'c'));
  const [a, b, c] = await queue.lease({ max: 3, leaseDuration: '1s', starts: { now: 1 } });
  expect([a?.unbegun, b?.unbegun, c?.unbegun]).toEqual([undefined, 0, 0]);
  await b?.begin();
  expect(b?.unbegun).toBeUndefined();
  await timing.advance(2_000);
  expect((await queue.get(['a', 'b', 'c'])).map(({ attempts, interruptions }) => [attempts, interruptions])).toEqual([
    [1, 0],
    [1, 0],
    [0, 1],
  ]);
});

test.each([
  [{ now: -1 }, 'starts.now: -1 is not a whole number from 0 to 10000'],
  [{ now: 1.5 }, 'starts.now: 1.5'],
  [{ now: 10_001 }, 'starts.now: 10001'],
  [{ now: 1, together: 0 }, 'starts.together: 0 is not a whole number from 1 to 10000'],
  [{ together: 1 }, 'starts.now: undefined'],
  [{ now: 1, togther: 2 }, 'starts: there is no togther, did you mean together?'],
  [1, 'starts: must be an object with now and together'],
])('a lease with starts of the wrong form is no request: %j', async (starts, message) => {
  const { queue, engine } = workerSetUp();
  await expect(queue.lease({ max: 2, starts: starts as never })).rejects.toThrow(message);
  expect(engine.leases).toEqual([]);
});

test.each([0, -1, 1.5, Number.NaN, 10_001])('a task that begins with %s tasks is no request', async (together) => {
  const { queue, engine } = workerSetUp();
  await queue.enqueueMany(named('a'));
  const [task] = await queue.lease({ starts: { now: 0 } });
  await expect(task?.begin(together)).rejects.toThrow(`begun: ${together} is not a whole number from 1 to 10000`);
  expect(engine.updates.flatMap(({ renew }) => renew)).toEqual([]);
});
