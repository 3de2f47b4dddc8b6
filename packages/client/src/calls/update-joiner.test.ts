import { describe, expect, test } from 'vitest';
import { clientSetUp } from '../testing/client-set-up.ts';
import type { FakeEngine } from '../testing/fake-engine.ts';
import { connectionLost, overloaded } from '../testing/fake-transport.ts';
import { makeError } from '../values/errors.ts';

/** How many items each request had. */
const sizes = (engine: FakeEngine): number[] =>
  engine.updates.map(({ enqueue, dequeue, renew, release }) =>
    [enqueue, dequeue, renew, release].reduce((sum, { length }) => sum + length, 0),
  );

const times = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

/** A joined request goes out at the end of the turn. */
const endOfTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('updates of one turn', () => {
  test('are one request', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<number>('q');
    const outcomes = await Promise.all(times(90, (i) => queue.enqueue(i, { pid: `${i % 60}` })));
    expect(sizes(engine)).toEqual([90]);
    expect(outcomes.map(({ pid }) => pid.toString())).toEqual(times(90, (i) => `${i % 60}`));
    expect(outcomes.map(({ result }) => result)).toEqual(times(90, (i) => (i < 60 ? 'created' : 'collapsed')));
    expect(engine.updates.map(({ requestId }) => requestId.byteLength)).toEqual([16]);
  });

  test('are joined for any queues of a group, also completions with follow-up tasks', async () => {
    const { client, engine } = clientSetUp();
    const [first, second] = [client.queue<number>('g#first'), client.queue<number>('g#second')];
    for (let i = 0; i < 3; i++) await first.enqueue(i);
    const tasks = await first.lease({ max: 3 });
    const steps = await Promise.all(tasks.map((task) => task.complete({ enqueue: [second.task(task.data + 10)] })));
    expect(sizes(engine).slice(3)).toEqual([6]);
    expect(steps.map(({ enqueued }) => enqueued.map(({ result }) => result))).toEqual(times(3, () => ['created']));
    expect((await second.lease({ max: 9 })).map(({ data }) => data)).toEqual([10, 11, 12]);
    expect(engine.pids('g#first')).toEqual([]);
  });

  test('are divided if one request would be too large', async () => {
    const { client, engine } = clientSetUp();
    await Promise.all(times(301, (i) => client.queue<number>('q').enqueue(i)));
    expect(sizes(engine)).toEqual([100, 100, 100, 1]);
    await Promise.all(times(11, () => client.queue('q').enqueue('x'.repeat(10_000))));
    expect(sizes(engine).slice(4)).toEqual([6, 5]);
  });
});

describe('are not joined', () => {
  test('updates with many items', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<number>('q');
    const many = (count: number) => queue.enqueueMany(times(count, (data) => ({ data })));
    await Promise.all([many(16), many(16), many(17), many(17)]);
    expect(sizes(engine)).toEqual([32, 17, 17]);
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

  test('updates of different groups, large ones, renewals and releases', async () => {
    const { client, engine } = clientSetUp();
    const [a, b] = [client.queue('a#q'), client.queue('b#q')];
    await Promise.all([a.enqueue(0), a.enqueue(1)]);
    const [first, second] = await a.lease({ max: 2 });
    await Promise.all([
      a.enqueue('x'.repeat(20_000)),
      a.enqueue(2),
      b.enqueue(3),
      a.enqueue(4),
      b.enqueue(5),
      first?.renew('1m'),
      second?.release(),
    ]);
    expect(sizes(engine).slice(1)).toEqual([1, 2, 1, 1, 2]);
    const { renew, release } = engine.updates[3] ?? {};
    expect([renew?.length, release?.length]).toEqual([1, 0]);
  });

  test('completions and new tasks, because a full disk accepts only the completions', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<number>('q');
    for (let i = 0; i < 2; i++) await queue.enqueue(i);
    const tasks = await queue.lease({ max: 2 });
    await Promise.all([
      queue.enqueue(9),
      ...tasks.map((task) => task.complete()),
      queue.enqueue(10),
      queue.enqueue(11),
    ]);
    expect(engine.updates.slice(2).map(({ enqueue, dequeue }) => [enqueue.length, dequeue.length])).toEqual([
      [3, 0],
      [0, 2],
    ]);
  });
});

describe('the order of one caller', () => {
  test('is kept if a task takes the place of a removed one', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<number>('q');
    await queue.enqueue(1, { pid: 'k' });
    const [task] = await queue.lease();
    const [, , outcome] = await Promise.all([queue.enqueue(2), task?.complete(), queue.enqueue(3, { pid: 'k' })]);
    expect(outcome.result).toBe('created');
    expect(engine.pids('q')).toContain('k');
  });

  test('is kept beside updates that are not joined', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<string>('q');
    await Promise.all([queue.enqueue('small'), queue.enqueue('x'.repeat(20_000))]);
    expect(engine.updates.map(({ enqueue }) => enqueue[0]?.data.byteLength)).toEqual([7, 20_002]);
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

describe('a joined request', () => {
  test('that is refused is repeated one by one, so only those updates fail that would fail alone', async () => {
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
    expect(engine.pids('q').sort()).toEqual(['0', '1', '2', '4', 'there']);
  });

  test('that is refused for a lost lease fails only the update of this lease', async () => {
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
    expect(engine.updates[0]?.requestId).toEqual(engine.updates[1]?.requestId);
    expect(engine.pids('q')).toHaveLength(10);
  });

  test('is not divided after a failure that its updates did not cause: it may have been applied', async () => {
    const { client, engine, transport } = clientSetUp();
    const queue = client.queue<number>('q');
    const error = makeError('no answer came in time', { reason: 'DEADLINE_EXCEEDED' });
    transport.faults.updateTasks.push({ when: 'after', error });
    const settled = await Promise.allSettled(times(3, (i) => queue.enqueue(i)));
    expect(settled).toMatchObject(times(3, () => ({ reason: { name: 'DeadlineExceededError' } })));
    expect(sizes(engine)).toEqual([3]);
    expect(engine.pids('q')).toHaveLength(3);
  });

  test('that is refused while its first attempt is in flight: the first attempt cannot take effect any more', async () => {
    const { client, engine, timing, transport } = clientSetUp();
    const queue = client.queue<number>('q');
    await queue.enqueue(0, { pid: 'there' });
    transport.faults.updateTasks.push({ when: 'late', error: connectionLost() });
    const fail = { pid: 'there', mode: 'fail' } as const;
    const settling = Promise.allSettled(times(4, (i) => queue.enqueue(i, i === 0 || i === 2 ? fail : {})));
    await endOfTurn();
    await timing.advance(1_000);
    const settled = await settling;
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected', 'fulfilled']);
    expect(settled[0]).toMatchObject({ reason: { name: 'TaskExistsError', maybeApplied: false } });
    const [task] = await queue.lease();
    await task?.complete();
    const pids = engine.pids('q');
    for (const deliver of transport.stragglers) expect(deliver).toThrow('the id was used');
    expect(engine.pids('q')).toEqual(pids);
  });

  test('that is refused, but whose first attempt arrives before it is divided, takes effect as a whole', async () => {
    const { client, engine, timing, transport } = clientSetUp();
    const queue = client.queue<number>('q');
    await queue.enqueue(0, { pid: 'there' });
    const [there] = await queue.lease();
    transport.faults.updateTasks.push({ when: 'late', error: connectionLost() }, undefined, {
      when: 'before',
      error: overloaded(5_000),
    });
    const settling = Promise.all(times(3, (i) => queue.enqueue(i, i === 1 ? { pid: 'there', mode: 'fail' } : {})));
    await endOfTurn();
    await timing.advance(1_000);
    await there?.complete();
    for (const deliver of transport.stragglers) deliver();
    await timing.advance(10_000);
    expect((await settling).map(({ result }) => result)).toEqual(times(3, () => 'created'));
    expect(engine.pids('q')).toHaveLength(3);
  });

  test('that is refused completely leaves it open whether its first attempt is applied', async () => {
    const { client, timing, transport } = clientSetUp();
    const queue = client.queue<number>('q');
    await queue.enqueue(0, { pid: 'there' });
    transport.faults.updateTasks.push({ when: 'late', error: connectionLost() });
    const settling = Promise.allSettled(times(3, () => queue.enqueue(1, { pid: 'there', mode: 'fail' })));
    await endOfTurn();
    await timing.advance(1_000);
    expect(await settling).toMatchObject(times(3, () => ({ reason: { name: 'TaskExistsError', maybeApplied: true } })));
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

  test('has fewer items for a while after a refusal', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<number>('q');
    await queue.enqueue(0, { pid: 'there' });
    await Promise.allSettled(times(20, (i) => queue.enqueue(i, i === 7 ? { pid: 'there', mode: 'fail' } : {})));
    expect(sizes(engine)).toEqual([1, 20, ...times(20, () => 1)]);
    await Promise.all(times(21, (i) => queue.enqueue(i)));
    expect(sizes(engine).slice(22)).toEqual([10, 10, 1]);
    await Promise.all(times(30, (i) => queue.enqueue(i)));
    expect(sizes(engine).slice(25)).toEqual([11, 11, 8]);
  });

  test('repeats one by one within the deadline of the calls', async () => {
    const { client, timing, transport } = clientSetUp({ timeout: '10s' });
    const queue = client.queue<number>('q');
    await queue.enqueue(0, { pid: 'there' });
    transport.faults.updateTasks.push({ when: 'before', error: overloaded(4_000) });
    const from = transport.updateOptions.length;
    const settling = Promise.allSettled(times(3, () => queue.enqueue(1, { pid: 'there', mode: 'fail' })));
    await endOfTurn();
    await timing.advance(5_000);
    await settling;
    const timeouts = transport.updateOptions.slice(from).map(({ timeoutMs }) => timeoutMs);
    // The joined one, twice; its three updates.
    expect(timeouts[0]).toBe(10_000);
    expect(timeouts.slice(1)).toHaveLength(4);
    for (const timeout of timeouts.slice(1)) expect(timeout).toBeLessThanOrEqual(6_000);
  });
});

test('a task that cannot be encoded fails before it is joined', async () => {
  const { client, engine } = clientSetUp();
  const queue = client.queue<unknown>('q');
  const settled = await Promise.allSettled([queue.enqueue(0), queue.enqueue(1n), queue.enqueue(2), queue.enqueue(3)]);
  expect(settled[1]).toMatchObject({ reason: { name: 'InvalidDataError' } });
  expect(sizes(engine)).toEqual([3]);
});
