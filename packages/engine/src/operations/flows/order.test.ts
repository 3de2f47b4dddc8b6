import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { ordersPrefix } from '../../domain/keys.ts';
import { Family } from '../../ports/store.ts';
import { type EngineHarness, type EnqueueSpec, engineHarness, pidsOf } from '../../testing/engine-harness.ts';

const QUEUE = 'g#q';

const add = (h: EngineHarness, pids: readonly string[], more: Partial<EnqueueSpec> = {}) =>
  h.update({ enqueue: pids.map((pid) => ({ queue: QUEUE, pid, orderKey: 'k', ...more })) });

const lease = (h: EngineHarness) => h.lease(QUEUE, { max: 10, for: 10_000 });
const leased = async (h: EngineHarness) => pidsOf(await lease(h));
const remove = (h: EngineHarness, ...pids: string[]) =>
  h.update({ dequeue: pids.map((pid) => ({ queue: QUEUE, pid })) });

const waiting = async (h: EngineHarness) =>
  (await h.engine.queueStats({ kind: 'named', queues: [parseQueueName(QUEUE)] })).totals.waiting;

test('a row names the last task of each order key, and goes with it', async () => {
  await using h = await engineHarness({ config: { checkpointIntervalMs: 500 } });
  const lasts = async () => {
    await h.clock.advance(1_000);
    const rows = h.disk.rowsOf(Family.due).filter(({ key }) => key.startsWith(ordersPrefix(key.slice(0, 8))));
    return rows.map(({ key, value }) => `${key.slice(-1)} ${Buffer.from(value)}`);
  };
  await add(h, ['1', '3'], { orderKey: 'a' });
  await add(h, ['2'], { orderKey: 'b' });
  expect(await lasts()).toEqual(['a 3', 'b 2']);
  await remove(h, '3', '2');
  expect(await lasts()).toEqual(['a 1']);
  await h.crash();
  await add(h, ['0'], { orderKey: 'a', startBy: (h.clock.now() + 5_000) as never });
  expect(await lasts()).toEqual(['a 0']);
  // It goes because it is too late, and the one before it directly behind it, before rows are written.
  await h.clock.advance(4_000);
  await h.lease(QUEUE);
  await remove(h, '1');
  expect(await lasts()).toEqual([]);
});

test('a task that its own update enqueues too late and again leaves its order to the second one', async () => {
  await using h = await engineHarness();
  const item = { queue: QUEUE, pid: '1', orderKey: 'k' };
  await h.update({ enqueue: [{ ...item, startBy: h.clock.now() }, item] });
  await add(h, ['0']);
  expect(await leased(h)).toEqual(['1']);
  await remove(h, '1');
  expect(await leased(h)).toEqual(['0']);
});

describe.each(['in memory', 'after a crash'])('tasks with an order key, %s', (where) => {
  const restart = (h: EngineHarness): Promise<void> => (where === 'in memory' ? Promise.resolve() : h.crash());

  test('run one after the other, in the order of their enqueues and not of their PIDs', async () => {
    await using h = await engineHarness();
    await add(h, ['3', '1', '2']);
    await add(h, ['9'], { orderKey: 'other' });
    await add(h, ['0'], { orderKey: undefined as never });
    await restart(h);
    expect(await leased(h)).toEqual(['0', '3', '9']);
    for (const [done, next] of [
      ['3', ['1']],
      ['1', ['2']],
      ['2', []],
    ] as const) {
      await remove(h, done);
      await restart(h);
      expect(await leased(h)).toEqual(next);
    }
    await remove(h, '0', '9');
    await h.clock.advance(120_000);
    expect(h.taskRows()).toBe(0);
  });

  test.each(['completed', 'cancelled', 'dead-lettered', 'removed', 'expired'] as const)(
    'follow one that was %s',
    async (how) => {
      await using h = await engineHarness();
      await add(h, ['1', '2'], { retry: { maxAttempts: how === 'expired' ? 1 : 0 } });
      const [task] = how === 'cancelled' ? [] : await lease(h);
      await restart(h);
      const item = { queue: QUEUE, pid: '1' };
      if (how === 'completed') await h.update({ dequeue: [{ ...item, token: task?.token }] });
      else if (how === 'cancelled') await h.update({ dequeue: [{ ...item, cancel: 'no' }] });
      else if (how === 'dead-lettered')
        await h.update({ release: [{ ...item, token: task?.token, deadLetter: true }] });
      else if (how === 'removed') await h.update({ dequeue: [item] });
      else await h.clock.advance(11_000);
      await restart(h);
      expect(await leased(h)).toEqual(['2']);
    },
  );

  test('wait behind a backoff, and others do not', async () => {
    await using h = await engineHarness({ jitter: 1 });
    const retry = { maxAttempts: 5, backoffInitialMs: 5_000 };
    await add(h, ['1', '2'], { retry });
    await add(h, ['3'], { orderKey: 'other' });
    const [task] = await h.lease(QUEUE);
    await h.update({ release: [{ queue: QUEUE, pid: '1', token: task?.token, error: 'no' }] });
    await restart(h);
    expect(await leased(h)).toEqual(['3']);
    await h.clock.advance(5_000);
    expect(await leased(h)).toEqual(['1']);
  });

  test('follow the one before the last, which has not started in time', async () => {
    await using h = await engineHarness();
    await add(h, ['1']);
    await add(h, ['2'], { startBy: (h.clock.now() + 1_000) as never });
    await restart(h);
    await h.clock.advance(2_000);
    await restart(h);
    await add(h, ['3']);
    expect(await leased(h)).toEqual(['1']);
    await remove(h, '1');
    expect(await leased(h)).toEqual(['3']);
  });

  test('close the gap when some in the middle go', async () => {
    await using h = await engineHarness();
    await add(h, ['1', '2', '3', '4', '5', '6']);
    await remove(h, '3');
    await restart(h);
    await remove(h, '4', '2');
    await remove(h, '6');
    await restart(h);
    expect(await waiting(h)).toBe(1);
    await add(h, ['7']);
    expect(await leased(h)).toEqual(['1']);
    await remove(h, '1');
    expect(await leased(h)).toEqual(['5']);
    await remove(h, '5');
    expect(await leased(h)).toEqual(['7']);
  });

  test('go in one update from the first to the last', async () => {
    await using h = await engineHarness();
    await add(h, ['1', '2', '3', '4']);
    await restart(h);
    await h.update({
      dequeue: ['2', '1', '3'].map((pid) => ({ queue: QUEUE, pid })),
      enqueue: [{ queue: QUEUE, pid: '2', orderKey: 'k' }],
    });
    await restart(h);
    expect(await leased(h)).toEqual(['4']);
    await remove(h, '4');
    expect(await leased(h)).toEqual(['2']);
  });

  test('come last when they are put back from the dead-letter queue', async () => {
    await using h = await engineHarness();
    await add(h, ['1', '2']);
    const [task] = await lease(h);
    await h.update({ release: [{ queue: QUEUE, pid: '1', token: task?.token, deadLetter: true }] });
    await restart(h);
    await h.update({ dequeue: [{ queue: `${QUEUE}.dead`, pid: '1', requeue: true }] });
    expect(await leased(h)).toEqual(['2']);
    await remove(h, '2');
    await restart(h);
    expect(await leased(h)).toEqual(['1']);
  });

  test('of a dead-letter queue stay in order when a dead letter with their key goes', async () => {
    await using h = await engineHarness();
    const queue = `${QUEUE}.dead`;
    await add(h, ['1']);
    const [task] = await lease(h);
    await h.update({ release: [{ queue: QUEUE, pid: '1', token: task?.token, deadLetter: true }] });
    await h.update({ enqueue: [{ queue, pid: '2', orderKey: 'k' }] });
    await restart(h);
    await h.update({ dequeue: [{ queue, pid: '1' }] });
    await h.update({ enqueue: [{ queue, pid: '3', orderKey: 'k' }] });
    expect(pidsOf(await h.lease(queue, { max: 10 }))).toEqual(['2']);
  });

  test('stay in order while one runs again', async () => {
    await using h = await engineHarness();
    await add(h, ['1', '2']);
    const [task] = await lease(h);
    await add(h, ['1'], { mode: EnqueueMode.ENQUEUE_MODE_RERUN });
    await h.update({ dequeue: [{ queue: QUEUE, pid: '1', token: task?.token }] });
    await restart(h);
    expect(await leased(h)).toEqual(['1']);
    await remove(h, '1');
    expect(await leased(h)).toEqual(['2']);
  });

  test('may wait for signals, too', async () => {
    await using h = await engineHarness();
    await add(h, ['1']);
    await add(h, ['2'], { waitFor: { signals: 1, timeoutMs: 60_000, action: 'run' } });
    await add(h, ['3']);
    await restart(h);
    await remove(h, '1');
    expect(await leased(h)).toEqual([]);
    await h.clock.advance(60_000);
    await restart(h);
    expect(await leased(h)).toEqual(['2']);
    await remove(h, '2');
    expect(await leased(h)).toEqual(['3']);
  });

  test('are a new order after their queue was deleted', async () => {
    await using h = await engineHarness();
    await add(h, ['1', '2']);
    await h.engine.deleteQueue(parseQueueName(QUEUE));
    await restart(h);
    await add(h, ['2']);
    expect(await leased(h)).toEqual(['2']);
    await remove(h, '2');
    await h.clock.advance(120_000);
    expect(h.taskRows()).toBe(0);
  });
});

test('the next one goes to a request that waits', async () => {
  await using h = await engineHarness();
  await add(h, ['1', '2']);
  const [task] = await lease(h);
  const wait = h.lease(QUEUE, { wait: 60_000 });
  await h.update({ dequeue: [{ queue: QUEUE, pid: '1', token: task?.token }] });
  expect(pidsOf(await wait)).toEqual(['2']);
});

test('updates of one batch see the order of those before them', async () => {
  await using h = await engineHarness();
  const item = (pid: string) => ({ queue: QUEUE, pid });
  await h.batch([
    { enqueue: [{ ...item('1'), orderKey: 'k' }] },
    { enqueue: [{ ...item('2'), orderKey: 'k' }] },
    { dequeue: [item('1')] },
    { dequeue: [item('none')], enqueue: [{ ...item('9'), orderKey: 'k' }] },
    { enqueue: [{ ...item('3'), orderKey: 'k' }] },
    { dequeue: [item('2')] },
  ]);
  expect(await leased(h)).toEqual(['3']);
});

test('a reset of leases keeps the order', async () => {
  await using h = await engineHarness();
  await add(h, ['1', '2']);
  await lease(h);
  await h.update({ dequeue: [{ queue: QUEUE, pid: '1', cancel: 'no' }] });
  await h.engine.resetLeases(parseQueueName(QUEUE));
  expect(await leased(h)).toEqual(['2']);
});
