import { EnqueueMode, EnqueueResult, limits, parseQueueName } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { TaskView } from '../domain/commands.ts';
import type { Pid } from '../domain/ids.ts';
import { isLeased } from '../domain/task.ts';
import { type EngineHarness, engineHarness, pidsOf } from '../testing/engine-harness.ts';
import { putSettings } from '../testing/put-settings.ts';

const QUEUE = 'shop#mail';
const RETRY = { maxAttempts: 2, backoffInitialMs: 0, backoffMaxMs: 1000, deadLetterQueue: '' };

const add = (h: EngineHarness, pid: string, queue = QUEUE) =>
  h.update({ enqueue: [{ queue, pid, retry: 'by settings' }] });

async function get(h: EngineHarness, queue: string, pid: string): Promise<TaskView | undefined> {
  const command = { queue: parseQueueName(queue), pids: [pid as Pid], includeData: false };
  return (await h.engine.getTasks(command))[0];
}

/** Leases the first task and releases it. Returns the name of its dead-letter queue, or undefined while it stays. */
async function fail(h: EngineHarness, queue = QUEUE): Promise<string | undefined> {
  const [task] = await h.lease(queue);
  const { released } = await h.update({ release: [{ queue, pid: task?.pid ?? '', token: task?.token }] });
  return released[0]?.deadLetterQueue;
}

/** Lets time pass while the node is down: hours are too long for its searches. */
async function sleep(h: EngineHarness, ms: number): Promise<void> {
  h.lose();
  await h.clock.advance(ms);
  await h.open();
}

describe('settings of queues', () => {
  test('decide about tasks without a policy of their own', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, 'shop#*', { retry: RETRY, deadLetterQueue: 'shop#failed' });
    await add(h, 'a');
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'b', retry: { maxAttempts: 1 } }] });
    expect([await fail(h), await fail(h)]).toEqual([undefined, 'shop#failed']);
    // The policy of the second task names no dead-letter queue.
    expect(await fail(h)).toBe('shop#failed');
  });

  test('without any, a task fails 20 times, and waits longer and longer between its attempts', async () => {
    await using h = await engineHarness({ jitter: 0.5 });
    await add(h, 'a');
    const waits: number[] = [];
    for (let attempt = 1; attempt < 20; attempt++) {
      expect(await fail(h)).toBeUndefined();
      const visibility = (await get(h, QUEUE, 'a'))?.state?.visibility;
      const waitMs = visibility?.kind === 'hidden' ? visibility.until - h.clock.now() : 0;
      waits.push(waitMs / 1000);
      await sleep(h, waitMs);
    }
    expect(waits.slice(0, 4)).toEqual([0.5, 1, 2, 4]);
    expect(waits.at(-1)).toBe(1800);
    expect(await fail(h)).toBe('shop#mail.dead');
    // A dead letter does not go round.
    for (let attempt = 1; attempt <= 25; attempt++) {
      await sleep(h, 3_600_000);
      expect(await fail(h, 'shop#mail.dead')).toBeUndefined();
    }
  });

  test('apply field by field, the most specific ones first, to new and to old tasks and queues', async () => {
    await using h = await engineHarness();
    await add(h, 'a');
    await putSettings(h.engine, 'shop#*', { retry: RETRY, leaseDurationMs: 1000 });
    await putSettings(h.engine, 'shop#m*l', { leaseDurationMs: 2000, deadLetterQueue: 'shop#letters' });
    await putSettings(h.engine, QUEUE, { leaseDurationMs: 3000 });
    const leased = async (queue: string) => {
      const [task] = await h.lease(queue, { for: 0 });
      return { for: (task?.until ?? 0) - h.clock.now(), told: task?.leaseDurationMs, max: task?.maxAttempts };
    };
    expect(await leased(QUEUE)).toEqual({ for: 3000, told: 3000, max: 2 });
    await add(h, 'a', 'shop#mill');
    expect(await leased('shop#mill')).toEqual({ for: 2000, told: 2000, max: 2 });
    await add(h, 'a', 'other#mail');
    expect(await leased('other#mail')).toEqual({ for: 30_000, told: undefined, max: 20 });
    await add(h, 'b', 'shop#mill');
    expect([await fail(h, 'shop#mill'), await fail(h, 'shop#mill')]).toEqual([undefined, 'shop#letters']);
  });

  test('decide about the mode of an enqueue and the length of a renewal that say nothing', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { mode: EnqueueMode.ENQUEUE_MODE_FAIL, leaseDurationMs: 5000 });
    const again = { queue: QUEUE, pid: 'a', mode: EnqueueMode.ENQUEUE_MODE_UNSPECIFIED };
    await h.update({ enqueue: [again] });
    await expect(h.update({ enqueue: [again] })).rejects.toMatchObject({ reason: 'TASK_EXISTS' });
    await h.update({ enqueue: [{ ...again, mode: EnqueueMode.ENQUEUE_MODE_COLLAPSE }] });
    const [task] = await h.lease(QUEUE);
    const { renewed } = await h.update({ renew: [{ queue: QUEUE, pid: 'a', token: task?.token, for: 0 }] });
    expect(renewed).toEqual([{ until: h.clock.now() + 5000 }]);
  });

  test.each(['crash', 'kill'] as const)('are there after a %s, also before their first checkpoint', async (how) => {
    await using h = await engineHarness();
    await putSettings(h.engine, 'shop#*', { retry: { ...RETRY, maxAttempts: 7 } });
    await putSettings(h.engine, QUEUE, { leaseDurationMs: 9000 });
    await putSettings(h.engine, QUEUE, { leaseDurationMs: 8000 });
    await add(h, 'a');
    if (how === 'crash') h.lose();
    else h.kill();
    await h.open();
    expect(await h.lease(QUEUE, { for: 0 })).toMatchObject([{ leaseDurationMs: 8000, maxAttempts: 7 }]);
    await h.clock.advance(2000);
    await h.crash();
    await add(h, 'b', 'shop#other');
    expect(await h.lease('shop#other', { for: 0 })).toMatchObject([{ maxAttempts: 7 }]);
  });

  test('end when they are deleted', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { retry: RETRY });
    expect(await h.engine.settings.delete(parseQueueName(QUEUE))).toBe(true);
    expect(await h.engine.settings.delete(parseQueueName(QUEUE))).toBe(false);
    await add(h, 'a');
    expect(await h.lease(QUEUE)).toMatchObject([{ maxAttempts: 20 }]);
    await h.crash();
    await h.clock.advance(31_000);
    expect(await get(h, QUEUE, 'a')).toMatchObject({ state: { attempts: 1 } });
  });

  test('that lower the attempts send a leased task to its dead-letter queue when its lease ends', async () => {
    await using h = await engineHarness();
    await add(h, 'a');
    await h.lease(QUEUE, { for: 1000 });
    await putSettings(h.engine, QUEUE, { retry: { ...RETRY, maxAttempts: 1 }, deadLetterQueue: 'shop#failed' });
    await h.clock.advance(1000);
    expect(pidsOf(await h.lease('shop#failed'))).toEqual(['a']);
  });

  test('that raise the attempts keep a leased task in its queue', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { retry: { ...RETRY, maxAttempts: 1 } });
    await add(h, 'a');
    await h.lease(QUEUE, { for: 1000 });
    await putSettings(h.engine, QUEUE, { retry: RETRY });
    await h.clock.advance(1000);
    expect(pidsOf(await h.lease('shop#mail.dead'))).toEqual([]);
    const again = await get(h, QUEUE, 'a');
    expect(again?.state && isLeased(again.state)).toBe(false);
    expect(pidsOf(await h.lease(QUEUE))).toEqual(['a']);
  });

  test('are no queues of users: listings, sums and quotas of queues leave them out', async () => {
    await using h = await engineHarness({ groupLimits: () => ({ queues: 1 }) });
    await putSettings(h.engine, 'shop#*', { retry: RETRY });
    await add(h, 'a');
    const filter = {
      matches: undefined,
      group: undefined,
      minAvailable: undefined,
      maxAvailable: undefined,
      minLeased: undefined,
      maxLeased: undefined,
      minDelayed: undefined,
      maxDelayed: undefined,
    };
    const page = await h.engine.listQueues({ filter, limit: 10, after: undefined, includeEmpty: true });
    expect(page.queues.map(({ queue }) => queue.name)).toEqual(['mail']);
    const { totals } = await h.engine.queueStats({ kind: 'filtered', filter, limit: 10 });
    expect(totals).toMatchObject({ queues: 1, available: 1 });
  });

  test('keep the PIDs of completed tasks out for a while, also after a crash', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { keepOutMs: 60_000 });
    const enqueue = async (pid = 'a') => (await h.update({ enqueue: [{ queue: QUEUE, pid }] })).enqueued[0]?.result;
    expect(await enqueue()).toBe(EnqueueResult.ENQUEUE_RESULT_CREATED);
    const [task] = await h.lease(QUEUE);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'a', token: task?.token }] });
    expect(await enqueue()).toBe(EnqueueResult.ENQUEUE_RESULT_KEPT_OUT);
    await h.crash();
    expect(await enqueue()).toBe(EnqueueResult.ENQUEUE_RESULT_KEPT_OUT);
    expect(await h.counts(QUEUE)).toEqual({ available: 0, leased: 0, delayed: 0 });
    expect(await enqueue('b')).toBe(EnqueueResult.ENQUEUE_RESULT_CREATED);
    await h.clock.advance(60_000);
    expect(await enqueue()).toBe(EnqueueResult.ENQUEUE_RESULT_CREATED);
  });

  test('keep out in the same update that completes the task, and not after a removal or a dead letter', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { keepOutMs: 60_000 });
    const enqueue = [{ queue: QUEUE, pid: 'a' }];
    await h.update({ enqueue });
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'a' }] });
    await h.update({ enqueue });
    const [dead] = await h.lease(QUEUE);
    await h.update({ release: [{ queue: QUEUE, pid: 'a', token: dead?.token, deadLetter: true }] });
    await h.update({ enqueue });
    const [task] = await h.lease(QUEUE);
    const both = await h.update({ dequeue: [{ queue: QUEUE, pid: 'a', token: task?.token }], enqueue });
    expect(both.enqueued).toMatchObject([{ result: EnqueueResult.ENQUEUE_RESULT_KEPT_OUT }]);
  });

  test('keep out without a queue that stays behind', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { keepOutMs: 600_000 });
    const other = parseQueueName(QUEUE).group;
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'a' }] });
    const [task] = await h.lease(QUEUE);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'a', token: task?.token }] });
    await h.clock.advance(120_000);
    const before = h.engine.figures().queues;
    const both = [QUEUE, `${other}#other`].map((queue) => ({ queue, pid: 'a' }));
    const { enqueued } = await h.update({ enqueue: both });
    expect(enqueued[0]?.result).toBe(EnqueueResult.ENQUEUE_RESULT_KEPT_OUT);
    expect(h.engine.figures().queues).toBe(before + 1);
  });

  test('decide how long a result is kept', async () => {
    await using h = await engineHarness();
    await putSettings(h.engine, QUEUE, { resultRetentionMs: 10_000 });
    await h.enqueue(QUEUE, ['a']);
    await h.update({ dequeue: [{ queue: QUEUE, pid: 'a', result: '42', keep: 'by settings' }] });
    const outcome = async () => (await h.waitFor(QUEUE, ['a']))[0]?.end.outcome;
    await h.clock.advance(9_000);
    expect(await outcome()).toBe('completed');
    await h.clock.advance(2_000);
    expect(await outcome()).toBe('unknown');
  });

  test('are limited in number, also when callers put them at the same time', async () => {
    await using h = await engineHarness();
    const put = (name: string) => putSettings(h.engine, `shop#${name}`, { leaseDurationMs: 1 });
    await Promise.all(Array.from({ length: limits.queueSettings - 1 }, (_, number) => put(`q${number}`)));
    const both = await Promise.allSettled([put('one'), put('other')]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    await expect(put('one more')).rejects.toMatchObject({
      reason: 'TOO_MANY_ITEMS',
      metadata: { field: 'queues', limit: String(limits.queueSettings) },
    });
    await put('q7');
    expect(await h.engine.settings.list('shop')).toHaveLength(limits.queueSettings);
  });
});
