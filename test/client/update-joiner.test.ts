import { makeError } from '@taskmaster/client/internal';
import { connectionLost, overloaded } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { type ClientSetUp, clientSetUp } from './support/client-set-up.ts';

/** How many updates each request had. */
const sizes = ({ updates }: ClientSetUp['engine']): number[] => updates.map(({ parts }) => Math.max(1, parts.length));

const times = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

/** A joined request goes out at the end of the turn. */
const endOfTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('updates of one turn', () => {
  test('are one request with one request id', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<number>('q');
    const outcomes = await Promise.all(times(90, (i) => queue.enqueue(i, { pid: `${i % 60}` })));
    expect(sizes(engine)).toEqual([90]);
    expect(outcomes.map(({ pid }) => pid.toString())).toEqual(times(90, (i) => `${i % 60}`));
    expect(outcomes.map(({ result }) => result)).toEqual(times(90, (i) => (i < 60 ? 'created' : 'collapsed')));
    expect(engine.updates.map(({ requestId }) => requestId.byteLength)).toEqual([16]);
  });

  test('are joined for any queues of a group and all kinds of items', async () => {
    const { client, engine } = clientSetUp();
    const [first, second] = [client.queue<number>('g#first'), client.queue<number>('g#second')];
    for (let i = 0; i < 5; i++) await first.enqueue(i);
    const tasks = await first.lease({ max: 5 });
    const [renewed, released, ...others] = tasks;
    const steps = others.map((task) => task.complete({ enqueue: [second.task(task.data + 10)] }));
    const [outcomes] = await Promise.all([
      Promise.all(steps),
      renewed?.renew('1m'),
      released?.release(),
      first.enqueue(9),
    ]);
    expect(sizes(engine).slice(5)).toEqual([6]);
    expect(outcomes.map(({ enqueued }) => enqueued.map(({ result }) => result))).toEqual(times(3, () => ['created']));
    expect((await second.lease({ max: 9 })).map(({ data }) => data)).toEqual([12, 13, 14]);
    expect(await engine.pids('g#first')).toHaveLength(3);
  });

  test('are divided if one request would be too large', async () => {
    const { client, engine } = clientSetUp();
    await Promise.all(times(301, (i) => client.queue<number>('q').enqueue(i)));
    expect(sizes(engine)).toEqual([100, 100, 100, 1]);
    await Promise.all(times(11, () => client.queue('q').enqueue('x'.repeat(10_000))));
    expect(sizes(engine).slice(4)).toEqual([6, 5]);
  });

  test('are decided in order', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<number>('q');
    await queue.enqueue(1, { pid: 'k' });
    const [task] = await queue.lease();
    const [, , outcome] = await Promise.all([queue.enqueue(2), task?.complete(), queue.enqueue(3, { pid: 'k' })]);
    expect(sizes(engine)).toEqual([1, 3]);
    expect(outcome.result).toBe('created');
    expect(await engine.pids('q')).toContain('k');
  });

  test('two updates that each move a task to the place of the other exclude each other, as they would alone', async () => {
    const { client } = clientSetUp();
    const [ping, pong] = [client.queue<number>('ping'), client.queue<number>('pong')];
    await Promise.all([ping.enqueue(1, { pid: 'k' }), pong.enqueue(2, { pid: 'k' })]);
    const [first] = await ping.lease();
    const [second] = await pong.lease();
    const settled = await Promise.allSettled([
      first?.complete({ enqueue: [pong.task(3, { pid: 'k', mode: 'fail' })] }),
      second?.complete({ enqueue: [ping.task(4, { pid: 'k', mode: 'fail' })] }),
    ]);
    expect(settled).toMatchObject(times(2, () => ({ reason: { name: 'TaskExistsError' } })));
  });
});

describe('are not joined', () => {
  test('updates with many items', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<number>('q');
    const many = (count: number) => queue.enqueueMany(times(count, (data) => ({ data })));
    await Promise.all([many(16), many(16), many(17), many(17)]);
    expect(sizes(engine)).toEqual([2, 1, 1]);
  });

  test('calls with their own signal, deadline or request id', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue('q');
    const { signal } = new AbortController();
    await Promise.all([
      queue.enqueue(0),
      ...[{ signal }, { timeout: '1s' as const }, { requestId: 'mine' }].map((options) => queue.enqueue(0, options)),
      queue.enqueue(1),
      queue.enqueue(2),
    ]);
    expect(sizes(engine)).toEqual([1, 1, 1, 1, 2]);
  });

  test('updates of different groups, and large ones, which keep their place', async () => {
    const { client, engine } = clientSetUp();
    const [a, b] = [client.queue('a#q'), client.queue('b#q')];
    await Promise.all([
      a.enqueue(0),
      b.enqueue(1),
      a.enqueue(2),
      a.enqueue('x'.repeat(20_000)),
      a.enqueue(4),
      b.enqueue(5),
    ]);
    expect(sizes(engine)).toEqual([2, 1, 2, 1]);
    const lengths = engine.updates.map(({ enqueue }) => enqueue.map(({ data }) => data.byteLength));
    expect(lengths).toEqual([[1, 1], [20_002], [1, 1], [1]]);
  });
});

describe('a joined request', () => {
  test('fails only for the updates that are refused', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<number>('q');
    await queue.enqueue(0, { pid: 'there' });
    const outcomes = await Promise.allSettled(
      times(5, (i) => queue.enqueue(i, i === 3 ? { pid: 'there', mode: 'fail' } : { pid: `${i}`, mode: 'fail' })),
    );
    expect(outcomes.map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'rejected',
      'fulfilled',
    ]);
    expect(outcomes[3]).toMatchObject({
      reason: { name: 'TaskExistsError', items: [{ kind: 'enqueue', index: 0, queue: 'q' }], maybeApplied: false },
    });
    expect(await engine.pids('q')).toEqual(['0', '1', '2', '4', 'there']);
    expect(sizes(engine)).toEqual([1, 5]);
  });

  test('fails only for the update of a lost lease', async () => {
    const { client, timing } = clientSetUp();
    const queue = client.queue<number>('q');
    for (let i = 0; i < 4; i++) await queue.enqueue(i);
    const [first, ...others] = await queue.lease({ max: 4, leaseDuration: '1s' });
    const [lost] = others;
    await timing.advance(2_000);
    const [again] = await queue.lease({ max: 1, maxPid: lost?.pid });
    expect(again?.data).toBe(0);
    const settled = await Promise.allSettled([...others, first].map((task) => task?.complete()));
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected']);
    expect(settled[3]).toMatchObject({ reason: { name: 'LeaseLostError' } });
    expect(first?.signal.aborted).toBe(true);
  });

  test('whose answer is lost is repeated unchanged, and nothing is applied twice', async () => {
    const { client, engine, timing, transport } = clientSetUp();
    const queue = client.queue<number>('q');
    transport.faults.updateTasks.push({ when: 'after', error: connectionLost() });
    const enqueuing = Promise.all(times(10, (i) => queue.enqueue(i)));
    await endOfTurn();
    await timing.advance(1_000);
    expect((await enqueuing).map(({ result }) => result)).toEqual(times(10, () => 'created'));
    expect(sizes(engine)).toEqual([10, 10]);
    expect(engine.updates[0]).toEqual(engine.updates[1]);
    expect(await engine.pids('q')).toHaveLength(10);
  });

  test('whose first attempt arrives late has the results of the second one: nothing is in doubt', async () => {
    const { client, engine, timing, transport } = clientSetUp();
    const queue = client.queue<number>('q');
    await queue.enqueue(0, { pid: 'there' });
    transport.faults.updateTasks.push({ when: 'late', error: connectionLost() });
    const fail = { pid: 'there', mode: 'fail' } as const;
    const settling = Promise.allSettled(times(4, (i) => queue.enqueue(i, i % 2 === 0 ? fail : {})));
    await endOfTurn();
    await timing.advance(1_000);
    const settled = await settling;
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected', 'fulfilled']);
    expect(settled[0]).toMatchObject({ reason: { name: 'TaskExistsError', maybeApplied: false } });
    const [task] = await queue.lease();
    await task?.complete();
    const pids = await engine.pids('q');
    for (const deliver of transport.stragglers) await deliver();
    expect(await engine.pids('q')).toEqual(pids);
  });

  test('fails as a whole if its outcome is open', async () => {
    const { client, engine, transport } = clientSetUp();
    const queue = client.queue<number>('q');
    const error = makeError('no answer came in time', { reason: 'DEADLINE_EXCEEDED' });
    transport.faults.updateTasks.push({ when: 'after', error });
    const settled = await Promise.allSettled(times(3, (i) => queue.enqueue(i)));
    expect(settled).toMatchObject(times(3, () => ({ reason: { name: 'DeadlineExceededError' } })));
    expect(sizes(engine)).toEqual([3]);
    expect(await engine.pids('q')).toHaveLength(3);
  });

  test('that fails as a whole fails for all callers, and the error says whether it may have taken effect', async () => {
    const { client, engine, transport } = clientSetUp({ retry: { maxAttempts: 1 } });
    const queue = client.queue<number>('q');
    transport.faults.updateTasks.push({ when: 'after', error: connectionLost() });
    const lost = await Promise.allSettled(times(3, (i) => queue.enqueue(i)));
    expect(lost).toMatchObject(times(3, () => ({ reason: { name: 'UnavailableError', maybeApplied: true } })));
    transport.faults.updateTasks.push({ when: 'before', error: overloaded() });
    const refused = await Promise.allSettled(times(3, (i) => queue.enqueue(i)));
    expect(refused).toMatchObject(times(3, () => ({ reason: { name: 'OverloadedError', maybeApplied: false } })));
    expect(sizes(engine)).toEqual([3]);
  });

  test.each([
    ['INVALID_ARGUMENT', []],
    ['PERMISSION_DENIED', []],
    [
      'TASK_EXISTS',
      [{ kind: 'enqueue', index: 1, queue: 'q', pid: Buffer.from('a'), reason: 'TASK_EXISTS', message: '' }],
    ],
  ] as const)(
    'that is refused as a whole with %s is sent one by one: perhaps only one update is at fault',
    async (reason, items) => {
      const { client, engine, transport } = clientSetUp();
      const queue = client.queue<number>('q');
      transport.faults.updateTasks.push(
        { when: 'before', error: makeError('one of them', { reason, items }) },
        undefined,
        {
          when: 'before',
          error: makeError('this one', { reason }),
        },
      );
      const settled = await Promise.allSettled(times(3, (i) => queue.enqueue(i)));
      expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
      expect(sizes(engine)).toEqual([1, 1]);
      expect(await engine.pids('q')).toHaveLength(2);
    },
  );

  test('with an update that the node cannot take now: this one is repeated alone, after its delay', async () => {
    const { client, engine, timing, transport } = clientSetUp({ timeout: '20s' }, { maxQueues: 2 });
    const [queue, full, old] = [client.queue('q'), client.queue('full'), client.queue('old')];
    await queue.enqueue(0);
    await old.enqueue(0);
    const settling = Promise.all([full.enqueue(0), queue.enqueue(1)]);
    await timing.settled();
    expect([await engine.pids('full'), await queue.stats()]).toMatchObject([[], { available: 2 }]);
    await old.delete();
    // The node asks for 10 s.
    await timing.advance(9_900);
    expect(sizes(engine)).toEqual([1, 1, 2]);
    await timing.advance(5_000);
    expect((await settling).map(({ result }) => result)).toEqual(['created', 'created']);
    expect(sizes(engine)).toEqual([1, 1, 2, 1]);
    expect(engine.updates[2]?.requestId).not.toEqual(engine.updates[3]?.requestId);
    expect(transport.options.updateTasks[3]?.timeoutMs).toBeLessThanOrEqual(10_000);
  });
});

test('a task that cannot be encoded fails before it is joined', async () => {
  const { client, engine } = clientSetUp();
  const queue = client.queue<unknown>('q');
  const settled = await Promise.allSettled([queue.enqueue(0), queue.enqueue(1n), queue.enqueue(2), queue.enqueue(3)]);
  expect(settled[1]).toMatchObject({ reason: { name: 'InvalidDataError' } });
  expect(sizes(engine)).toEqual([3]);
});

test('an update whose reply was lost is repeated, and the node gives its first outcome again', async () => {
  const { client, engine, timing, transport } = clientSetUp();
  transport.faults.updateTasks.push({ when: 'after', error: connectionLost() });
  const enqueuing = client.queue<number>('q').enqueue(1, { pid: 'a' });
  await timing.advance(100);
  expect(await enqueuing).toMatchObject({ result: 'created' });
  expect(engine.updates).toHaveLength(2);
  expect(engine.updates[1]).toEqual(engine.updates[0]);
});
