import { EnqueueResult, limits, parseQueueName, partitionOf, WhenFull } from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import type { PartitionId, Pid } from '../../domain/ids.ts';
import { Refusal } from '../../domain/refusal.ts';
import type { OnFailure } from '../../domain/task.ts';
import type { Store } from '../../ports/store.ts';
import {
  type EngineHarness,
  type EnqueueSpec,
  engineHarness,
  pidsOf,
  updateCommand,
} from '../../testing/engine-harness.ts';

import { putSettings } from '../../testing/put-settings.ts';

const PARENTS = 'g#parents';
const QUEUE = 'g#children';

/** A parent that waits for its children. */
const setUp = async (
  h: EngineHarness,
  children: readonly string[],
  onFailure: OnFailure = 'fail',
  more: Partial<EnqueueSpec> = {},
) =>
  h.update({
    enqueue: [
      { queue: PARENTS, pid: 'p', waitFor: { signals: children.length, collect: true } },
      ...children.map((pid) => ({ queue: QUEUE, pid, parent: { queue: PARENTS, pid: 'p', onFailure }, ...more })),
    ],
  });

async function seen(h: EngineHarness, queue = PARENTS, pid = 'p') {
  const command = { queue: parseQueueName(queue), pids: [pid as Pid], includeData: false, includeSignals: true };
  return (await h.engine.getTasks(command))[0];
}

const heard = async (h: EngineHarness) =>
  (await seen(h))?.signals?.kept.map(({ child, data }) => [child?.pid, child?.end, Buffer.from(data).toString()]);

const errorOf = async (h: EngineHarness, queue = `${PARENTS}.dead`) =>
  (await seen(h, queue))?.state?.history?.failures[0]?.error?.message;

const leaseParents = async (h: EngineHarness) => pidsOf(await h.lease(PARENTS));
const item = (pid: string) => ({ queue: QUEUE, pid });

describe.each(['in memory', 'after a crash'])('a parent, %s', (where) => {
  const restart = (h: EngineHarness): Promise<void> => (where === 'in memory' ? Promise.resolve() : h.crash());

  test('is available when its last child is completed, with their results', async () => {
    await using h = await engineHarness();
    await setUp(h, ['a', 'b']);
    await restart(h);
    const [a, b] = await h.lease(QUEUE, { max: 2 });
    await h.update({ dequeue: [{ ...item('a'), token: a?.token, result: 'of a' }] });
    await restart(h);
    expect(await leaseParents(h)).toEqual([]);
    await h.update({ dequeue: [{ ...item('b'), token: b?.token }] });
    await restart(h);
    expect(await leaseParents(h)).toEqual(['p']);
    expect(await heard(h)).toEqual([
      ['a', 'completed', 'of a'],
      ['b', 'completed', ''],
    ]);
    await h.update({ dequeue: [{ queue: PARENTS, pid: 'p' }] });
    await h.clock.advance(120_000);
    expect(h.taskRows()).toBe(0);
  });

  describe.each(['fail', 'continue', 'retry'] as const)('with the policy %s', (onFailure) => {
    test.each([
      ['dead-lettered', 'a task that it waits for failed, g#children a: broken'],
      ['expired', 'a task that it waits for failed, g#children a'],
      ['cancelled', 'a task that it waits for was cancelled, g#children a: no'],
      ['not started', 'a task that it waits for was cancelled, g#children a: not started by'],
      ['removed', 'a task that it waits for was removed, g#children a'],
      ['queue deleted', 'a task that it waits for was removed, g#children a: its queue was deleted'],
    ] as const)('hears of a child that was %s', async (how, message) => {
      await using h = await engineHarness();
      const startBy = how === 'not started' ? h.clock.now() + 20_000 : undefined;
      await setUp(h, ['a', 'b'], onFailure, { retry: { maxAttempts: 1 }, startBy });
      const waits = how === 'cancelled' || how === 'not started';
      const [a] = waits ? [] : await h.lease(QUEUE, { max: 1, for: 5_000 });
      await restart(h);
      if (how === 'dead-lettered') await h.update({ release: [{ ...item('a'), token: a?.token, error: 'broken' }] });
      if (how === 'expired') await h.clock.advance(6_000);
      if (how === 'cancelled') await h.update({ dequeue: [{ ...item('a'), cancel: 'no' }] });
      if (how === 'removed') await h.update({ dequeue: [item('a')] });
      if (how === 'not started') await h.clock.advance(21_000);
      if (how === 'queue deleted') await h.engine.deleteQueue(parseQueueName(QUEUE));
      await restart(h);
      await h.clock.advance(2_000);
      const isDeadLetter = how === 'dead-lettered' || how === 'expired';
      if (onFailure === 'fail' || (onFailure === 'retry' && !isDeadLetter)) {
        expect(await errorOf(h)).toContain(message);
        return;
      }
      const endsBoth = how === 'not started' || how === 'queue deleted';
      const left = onFailure === 'retry' ? 2 : endsBoth ? 0 : 1;
      expect((await seen(h))?.state?.history?.waits?.signals).toBe(left);
      if (!isDeadLetter || onFailure === 'continue') return;
      await h.update({ dequeue: [{ queue: `${QUEUE}.dead`, pid: 'a', requeue: true }] });
      await restart(h);
      const [again, b] = await h.lease(QUEUE, { max: 2 });
      await h.update({ dequeue: [again, b].map((task) => ({ ...item(task?.pid ?? ''), token: task?.token })) });
      expect(await leaseParents(h)).toEqual(['p']);
    });
  });

  test('fails if the dead letter of a child that it waits for is removed, or its queue is', async () => {
    for (const how of ['remove', 'delete'] as const) {
      await using h = await engineHarness();
      await setUp(h, ['a'], 'retry');
      const [a] = await h.lease(QUEUE);
      await h.update({ release: [{ ...item('a'), token: a?.token, deadLetter: true }] });
      await restart(h);
      const dead = `${QUEUE}.dead`;
      if (how === 'remove') await h.update({ dequeue: [{ queue: dead, pid: 'a' }] });
      else await h.engine.deleteQueue(parseQueueName(dead));
      await h.clock.advance(2_000);
      expect(await errorOf(h)).toContain('a task that it waits for was removed, g#children a');
    }
  });

  test('hears of a child that settings keep out', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { keepOutMs: 60_000 });
    await h.enqueue(QUEUE, ['a']);
    const [a] = await h.lease(QUEUE);
    await h.update({ dequeue: [{ ...item('a'), token: a?.token }] });
    await restart(h);
    const { enqueued } = await setUp(h, ['a']);
    expect(enqueued[1]?.result).toBe(EnqueueResult.ENQUEUE_RESULT_KEPT_OUT);
    expect(await leaseParents(h)).toEqual(['p']);
  });

  test('is told once of a child that is enqueued again', async () => {
    await using h = await engineHarness();
    await setUp(h, ['a', 'b']);
    for (let i = 0; i < 2; i++) {
      const [a] = await h.lease(QUEUE);
      await h.update({ dequeue: [{ ...item('a'), token: a?.token }] });
      await restart(h);
      await h.update({ enqueue: [{ ...item('a'), parent: { queue: PARENTS, pid: 'p' } }] });
    }
    expect((await seen(h))?.state?.history?.waits?.signals).toBe(1);
  });

  test('is told once of a child with a key, whatever PIDs its tasks get', async () => {
    await using h = await engineHarness();
    const again = { queue: QUEUE, key: 'k', parent: { queue: PARENTS, pid: 'p' } };
    await h.update({ enqueue: [{ queue: PARENTS, pid: 'p', waitFor: 3 }, again] });
    const complete = async () => {
      const [task] = await h.lease(QUEUE);
      await h.update({ dequeue: [{ ...item(task?.pid ?? ''), token: task?.token }] });
      await restart(h);
    };
    await complete();
    await h.update({ enqueue: [again] });
    await complete();
    expect((await seen(h))?.state?.history?.waits?.signals).toBe(2);
    await putSettings(h.engine, QUEUE, { keepOutMs: 60_000 });
    await h.update({ enqueue: [again] });
    await complete();
    const { enqueued } = await h.update({ enqueue: [again] });
    expect(enqueued[0]?.result).toBe(EnqueueResult.ENQUEUE_RESULT_KEPT_OUT);
    expect((await seen(h))?.state?.history?.waits?.signals).toBe(2);
  });

  test('does not fail when a child that has counted is enqueued again and does not complete', async () => {
    await using h = await engineHarness();
    await setUp(h, ['a', 'b', 'c']);
    const [a] = await h.lease(QUEUE, { max: 1 });
    await h.update({ dequeue: [{ ...item('a'), token: a?.token }] });
    await h.update({ enqueue: [{ ...item('a'), parent: { queue: PARENTS, pid: 'p' } }] });
    await restart(h);
    await h.update({ dequeue: [{ ...item('a'), cancel: 'no' }] });
    await h.clock.advance(2_000);
    expect((await seen(h))?.state?.history?.waits?.signals).toBe(2);
    await h.update({ dequeue: [{ ...item('b'), cancel: 'no' }] });
    expect(await errorOf(h)).toContain('g#children b');
  });

  test('does not fail when the dead letter of a child goes that has been completed since', async () => {
    await using h = await engineHarness();
    await setUp(h, ['a', 'b'], 'retry');
    const [a] = await h.lease(QUEUE, { max: 1 });
    await h.update({ release: [{ ...item('a'), token: a?.token, deadLetter: true }] });
    await h.update({ enqueue: [{ ...item('a'), parent: { queue: PARENTS, pid: 'p', onFailure: 'retry' } }] });
    const [again] = await h.lease(QUEUE, { max: 1 });
    await h.update({ dequeue: [{ ...item('a'), token: again?.token }] });
    await restart(h);
    await h.engine.deleteQueue(parseQueueName(`${QUEUE}.dead`));
    await h.clock.advance(2_000);
    expect((await seen(h))?.state?.history?.waits?.signals).toBe(1);
  });

  test('fails if the dead letter of a child that it waits for makes room for one with other parents', async () => {
    await using h = await engineHarness();
    const other = { queue: PARENTS, pid: 'q' };
    const fail = async (parents: EnqueueSpec['parents']) => {
      await h.update({ enqueue: [{ ...item('a'), ...(parents && { parents }), orderKey: 'k' }] });
      const [a] = await h.lease(QUEUE, { max: 1 });
      await h.update({ release: [{ ...item('a'), token: a?.token, error: 'no', deadLetter: true }] });
      await restart(h);
    };
    const both = ['p', 'q'].map((pid) => ({ queue: PARENTS, pid, onFailure: 'retry' as const }));
    await h.update({ enqueue: ['p', 'q'].map((pid) => ({ queue: PARENTS, pid, waitFor: 1 })) });
    await fail(both);
    await fail([{ ...other, onFailure: 'retry' }]);
    await h.clock.advance(2_000);
    expect(await errorOf(h)).toContain('was removed, g#children a: another task with its PID has failed since');
    expect((await seen(h, PARENTS, 'q'))?.state?.history?.waits?.signals).toBe(1);
    await fail(undefined);
    await h.clock.advance(2_000);
    expect(await seen(h, `${PARENTS}.dead`, 'q')).toMatchObject({ state: { history: { failures: [{}] } } });
  });

  test('of a new flow does not hear of the children of a deleted queue with the same PIDs', async () => {
    await using h = await engineHarness();
    await setUp(h, ['a', 'b']);
    await h.update({ dequeue: [{ queue: PARENTS, pid: 'p' }] });
    await h.engine.deleteQueue(parseQueueName(QUEUE));
    await restart(h);
    await setUp(h, ['a', 'b']);
    await h.clock.advance(2_000);
    expect((await seen(h))?.state?.history?.waits).toMatchObject({ signals: 2, timeout: undefined });
    await h.engine.deleteQueue(parseQueueName(QUEUE));
    await h.clock.advance(2_000);
    expect(await errorOf(h)).toContain('its queue was deleted');
  });

  test('hears of a child that is kept out, also if it is enqueued behind it', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { keepOutMs: 60_000 });
    await h.enqueue(QUEUE, ['a']);
    const [a] = await h.lease(QUEUE);
    await h.update({ dequeue: [{ ...item('a'), token: a?.token }] });
    await restart(h);
    await h.update({
      enqueue: [
        { ...item('a'), parent: { queue: PARENTS, pid: 'p' } },
        { queue: PARENTS, pid: 'p', waitFor: 1 },
      ],
    });
    expect(await leaseParents(h)).toEqual(['p']);
  });

  test('is told by its key', async () => {
    await using h = await engineHarness();
    await h.update({
      enqueue: [
        { queue: PARENTS, pid: 'p', key: 'k', waitFor: 1 },
        { ...item('a'), parent: { queue: PARENTS, key: 'k' } },
      ],
    });
    await restart(h);
    const [a] = await h.lease(QUEUE);
    await h.update({ dequeue: [{ ...item('a'), token: a?.token }] });
    expect(await leaseParents(h)).toEqual(['p']);
  });

  test('of a parent hears of it, however deep the tree is', async () => {
    await using h = await engineHarness();
    const names = ['d', 'c', 'b', 'a'];
    await h.update({
      enqueue: names.map((pid, at) => ({
        ...item(pid),
        ...(at > 0 && { waitFor: 1 }),
        ...(at < 3 && { parent: { pid: names[at + 1] as string, queue: QUEUE } }),
      })),
    });
    const [leaf] = await h.lease(QUEUE);
    await restart(h);
    await h.update({ release: [{ ...item('d'), token: leaf?.token, deadLetter: true }] });
    await h.clock.advance(4_000);
    const dead = await h.lease(`${QUEUE}.dead`, { max: 10 });
    expect(pidsOf(dead)).toEqual(['a', 'b', 'c', 'd']);
    expect(dead[0]?.history?.failures[0]?.error?.message).toContain('g#children b: a task that it waits for failed');
  });
});

test('children of one update end in one update with their parent', async () => {
  await using h = await engineHarness();
  await setUp(h, ['a', 'b']);
  await h.update({
    dequeue: [item('a'), { queue: PARENTS, pid: 'p', cancel: 'no' }, item('b')],
  });
  expect(await h.waitFor(PARENTS, ['p'])).toMatchObject([{ end: { outcome: 'cancelled' } }]);
});

test('a child does not collapse into a task that has another parent or none', async () => {
  await using h = await engineHarness();
  await h.enqueue(QUEUE, ['a']);
  await expect(setUp(h, ['a'])).rejects.toMatchObject({ reason: 'TASK_EXISTS' });
  await h.update({ dequeue: [item('a')] });
  await setUp(h, ['a']);
  expect((await setUp(h, ['a'])).enqueued.map(({ result }) => result)).toEqual(
    Array(2).fill(EnqueueResult.ENQUEUE_RESULT_COLLAPSED),
  );
});

test('a child whose parent is gone or does not wait ends as any other', async () => {
  await using h = await engineHarness();
  await h.update({
    enqueue: [
      { ...item('a'), parent: { queue: 'g#none', pid: 'p' } },
      { ...item('b'), parent: { queue: QUEUE, pid: 'none' } },
      { ...item('c'), parent: { queue: QUEUE, key: 'none' } },
      item('d'),
      { ...item('e'), parent: { queue: QUEUE, pid: 'd' } },
    ],
  });
  await h.update({ dequeue: ['a', 'b', 'c', 'e'].map(item) });
  expect(pidsOf(await h.lease(QUEUE, { max: 9 }))).toEqual(['d']);
});

test('a parent that has failed is in its dead-letter queue at once for those who look', async () => {
  await using h = await engineHarness();
  await setUp(h, ['a']);
  await h.update({ dequeue: [{ ...item('a'), cancel: 'no' }] });
  expect((await seen(h))?.state).toBeUndefined();
  expect(await errorOf(h)).toContain('was cancelled');
});

test.each([
  [WhenFull.WHEN_FULL_DROP_OLDEST, 'a', 'b'],
  [WhenFull.WHEN_FULL_DROP_NEWEST, 'b', 'a'],
])('a parent hears of a child that a full queue drops, by setting %i', async (whenFull, dropped, kept) => {
  await using h = await engineHarness();
  await putSettings(h.engine, QUEUE, { maxBacklog: 1, whenFull });
  await setUp(h, ['a'], 'continue');
  await h.update({
    enqueue: [{ ...item('b'), parent: { queue: PARENTS, pid: 'p', onFailure: 'continue' }, orderKey: 'k' }],
  });
  expect(await heard(h)).toEqual([[dropped, 'cancelled', '']]);
  expect(pidsOf(await h.lease(QUEUE, { max: 9 }))).toEqual([kept]);
});

test('a task that others know is not moved', async () => {
  await using h = await engineHarness();
  await setUp(h, ['a']);
  const command = updateCommand({ dequeue: [item('a')] });
  const dequeue = command.dequeue.map((one) => ({ ...one, moveTo: parseQueueName('g#other') }));
  await expect(h.engine.updates.apply({ ...command, dequeue })).rejects.toMatchObject({ reason: 'TASK_CONNECTED' });
});

/** Children with as many parents as possible. The ends of `most` of them fit into an update; there are twice as many. */
async function withManyParents(h: EngineHarness) {
  const parents = Array.from({ length: limits.parents }, (_, at) => ({
    queue: PARENTS,
    pid: `p${at}`,
    onFailure: 'continue' as const,
  }));
  await h.update({
    enqueue: parents.map(({ queue, pid }) => ({ queue, pid, waitFor: { signals: 1000, collect: true } })),
  });
  const most = limits.toldParents / limits.parents;
  const children = Array.from({ length: 2 * most + 1 }, (_, at) => item(`${at}`));
  await h.update({ enqueue: children.map((child) => ({ ...child, parents })) });
  return { parents, most, children };
}

test('an update whose ends too many parents would hear of is refused, and takes a turn alone behind others', async () => {
  await using h = await engineHarness();
  const { parents, most, children } = await withManyParents(h);
  const end = (from: number, to: number) => ({ dequeue: children.slice(from, to) });
  await expect(h.update(end(0, most + 1))).rejects.toMatchObject({ reason: 'TOO_MANY_ITEMS' });
  const results = await h.batch([end(0, most - 1), end(most - 1, most + 1), end(most, most + 1)]);
  expect(results.map((one) => (one instanceof Refusal ? one.reason : 'done'))).toEqual(['done', 'OVERLOADED', 'done']);
  const left = async () => (await seen(h, PARENTS, 'p7'))?.state?.history?.waits?.signals;
  expect(await left()).toBe(1000 - most);
  // More than one atom may tell.
  await h.clock.run(h.engine.deleteQueue(parseQueueName(QUEUE)));
  await h.clock.advance(5_000);
  expect(await left()).toBe(1000 - 2 * most - 1);
  const late = Array.from({ length: most + 10 }, (_, at) => item(`late${at}`));
  await h.update({ enqueue: late.map((child) => ({ ...child, parents, startWithin: 1_000 })) });
  await h.clock.advance(5_000);
  expect(await left()).toBe(1000 - 3 * most - 11);
  const { kept = [] } = (await seen(h, PARENTS, 'p7'))?.signals ?? {};
  expect(new Set(kept.map(({ child }) => child?.pid)).size).toBe(3 * most + 11);
});

test('a reset of leases tells the parents of many cancelled tasks in several atoms', async () => {
  await using h = await engineHarness();
  const { most, children } = await withManyParents(h);
  await h.lease(QUEUE, { max: 2 * most + 1, for: 60_000 });
  await h.update({ dequeue: children.map((child) => ({ ...child, cancel: 'gone' })) });
  const lastTicket = () => h.engine.partitions.ticketsOf(partitionOf('g', 1024) as PartitionId)?.lastTicket ?? 0;
  const before = lastTicket();
  expect(await h.clock.run(h.engine.resetLeases(parseQueueName(QUEUE)))).toBe(children.length);
  expect(lastTicket() - before).toBe(3);
  const parent = await seen(h, PARENTS, 'p7');
  expect(parent?.state?.history?.waits?.signals).toBe(1000 - children.length);
  expect(new Set(parent?.signals?.kept.map(({ child }) => child?.pid)).size).toBe(children.length);
});

describe('the tasks for which a task waits', () => {
  const childrenOf = async (h: EngineHarness, pid: string, keys: string[] = []) => {
    const pids = keys.length === 0 ? [pid as Pid] : [];
    const get = { queue: parseQueueName(PARENTS), pids, keys, includeData: false, includeChildren: true };
    const [view] = await h.clock.run(h.engine.getTasks(get));
    const { tasks = [], isCut } = view?.children ?? {};
    return [...tasks.map((one) => `${one.queue} ${one.pid} ${one.onFailure}`).toSorted(), ...(isCut ? ['cut'] : [])];
  };

  test('are looked for by a bounded number of reads in a group of many queues', async () => {
    await using h = await engineHarness({ config: { maxQueues: 5_000 } });
    await h.update({ enqueue: [{ queue: PARENTS, pid: 'p', waitFor: 2 }] });
    const others = Array.from({ length: 3_000 }, (_, at) => ({ queue: `${PARENTS}-${at}`, pid: 'x', key: 'k' }));
    await h.update({ enqueue: others });
    const scan = vi.spyOn(h.store as Store, 'scan');
    expect(await childrenOf(h, 'p')).toEqual(['cut']);
    expect(scan.mock.calls.length).toBeLessThan(2_100);
    scan.mockRestore();
  });

  test('are shown until they end, also after a restart', async () => {
    await using h = await engineHarness();
    const parent = (onFailure: OnFailure, more: object = {}) => ({ queue: PARENTS, pid: 'p', onFailure, ...more });
    const byKey = { queue: PARENTS, key: 'k', onFailure: 'retry' as const };
    await h.update({
      enqueue: [
        { queue: PARENTS, pid: 'p', waitFor: { signals: 4, collect: false } },
        { queue: PARENTS, pid: 'q', key: 'k', waitFor: { signals: 1, collect: false } },
        { ...item('a'), parents: [parent('fail'), byKey] },
        { ...item('b'), parents: [parent('continue')], retry: { maxAttempts: 1 } },
        { ...item('c'), parents: [parent('retry')], retry: { maxAttempts: 1 } },
        { queue: PARENTS, pid: 'd', parents: [parent('fail')], waitFor: { signals: 1, collect: false } },
        item('e'),
      ],
    });
    const all = ['children a fail', 'children b continue', 'children c retry', 'parents d fail'];
    expect(await childrenOf(h, 'p')).toEqual(all);
    expect(await childrenOf(h, 'q')).toEqual(['children a retry']);
    expect(await childrenOf(h, '', ['k'])).toEqual(['children a retry']);
    expect(await childrenOf(h, 'd')).toEqual([]);
    await h.clock.advance(60_000);
    await h.crash();
    expect(await childrenOf(h, 'p')).toEqual(all);
    const [a, ...dying] = await h.clock.run(h.lease(QUEUE, { max: 3 }));
    await h.update({ dequeue: [{ ...item('a'), token: a?.token }] });
    expect(await childrenOf(h, 'q')).toEqual([]);
    await h.update({ release: dying.map(({ pid, token }) => ({ ...item(pid), token, error: 'no' })) });
    // The dead letter of b has counted.
    expect(await childrenOf(h, 'p')).toEqual(['children.dead c retry', 'parents d fail']);
    await h.clock.run(h.engine.deleteQueue(parseQueueName(`${QUEUE}.dead`)));
    await h.crash();
    expect(await childrenOf(h, 'nobody')).toEqual([]);
  });

  test('are cut if there are many, or far behind the children of others', async () => {
    await using h = await engineHarness();
    const pids = Array.from({ length: 300 }, (_, at) => `${at}`);
    await setUp(h, pids);
    const some = await childrenOf(h, 'p');
    expect([some.length, some.at(-1)]).toEqual([201, 'cut']);
  });
});
