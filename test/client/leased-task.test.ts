import { LeaseLostError, pidText } from '@taskmaster/client';
import { connectionLost, only } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

interface Mail {
  readonly to: string;
}

describe('a leased task', () => {
  test('has the limit key and the order key that it was enqueued with, or none', async () => {
    const { client } = clientSetUp();
    const queue = client.queue<string>('g#q');
    await queue.enqueue('both', { pid: 'a', limitKey: 'customer/17', orderKey: 'account-3' });
    await queue.enqueue('none', { pid: 'b' });
    const tasks = await queue.lease({ max: 9 });
    expect(tasks.map(({ limitKey, orderKey }) => [limitKey, orderKey])).toEqual([
      ['customer/17', 'account-3'],
      [undefined, undefined],
    ]);
  });

  test('leaves no text as a checkpoint, and updates beside it arrive', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue<string>('g#q');
    await queue.enqueue('a');
    const task = only(await queue.lease());
    const checkpoint = task.checkpoint('page 1' as never);
    const completed = task.complete();
    await expect(checkpoint).rejects.toThrow(new TypeError('checkpoint: must be bytes'));
    await completed;
    expect(await engine.pids('g#q')).toEqual([]);
  });

  const leaseOne = async (options = {}) => {
    const made = clientSetUp();
    const mail = made.client.queue<Mail>('shop#mail');
    await mail.enqueue({ to: 'ann' }, { pid: 'a' });
    const task = only(await mail.lease({ leaseDuration: '30s', ...options }));
    return { ...made, mail, task };
  };

  test('has its fields', async () => {
    const { task } = await leaseOne();
    expect(task).toMatchObject({ queue: 'shop#mail', attempt: 1, data: { to: 'ann' } });
    expect(pidText(task.pid)).toBe('a');
    expect(task.enqueuedAt).toBeInstanceOf(Date);
    expect(task.leaseToken).toBeGreaterThan(0);
  });

  test('is completed together with the enqueues, or not at all', async () => {
    const { client, engine, mail, task } = await leaseOne();
    const sent = client.queue<string>('shop#sent');
    await task.complete({ enqueue: [sent.task('ann', { pid: 's1' }), mail.task({ to: 'bob' }, { pid: 'b' })] });
    expect(await engine.pids('shop#mail')).toEqual(['b']);
    expect(await engine.pids('shop#sent')).toEqual(['s1']);
  });

  test('that another worker has leased cannot enqueue the next stage', async () => {
    const { engine, client, mail, task, timing } = await leaseOne();
    await timing.advance(31_000);
    await mail.lease();
    const next = client.queue<string>('shop#sent').task('ann');
    await expect(task.complete({ enqueue: [next] })).rejects.toBeInstanceOf(LeaseLostError);
    expect(await engine.pids('shop#sent')).toEqual([]);
    expect(task.signal.reason).toBeInstanceOf(LeaseLostError);
    const sent = engine.updates.length;
    await expect(task.complete()).rejects.toBeInstanceOf(LeaseLostError);
    expect(engine.updates).toHaveLength(sent);
  });

  test('with an expired lease can still be completed if no other worker has leased it', async () => {
    const { engine, task, timing } = await leaseOne();
    await timing.advance(31_000);
    expect(task.signal.aborted).toBe(false); // Asked for late: the timer has yet to go off.
    await timing.advance(0);
    expect(task.signal.aborted).toBe(true);
    await task.complete();
    expect(await engine.pids('shop#mail')).toEqual([]);
  });

  test('is completed once', async () => {
    const { task } = await leaseOne();
    await task.complete();
    await expect(task.complete()).rejects.toThrow(new TypeError('task a was completed before'));
    await expect(task.release()).rejects.toBeInstanceOf(TypeError);
  });

  test('whose completion failed temporarily can be completed later', async () => {
    const { engine, transport, task } = await leaseOne();
    transport.faults.updateTasks.push({ when: 'before', error: connectionLost() });
    await expect(task.complete({ timeout: 1 })).rejects.toMatchObject({ retryable: true });
    await task.complete();
    expect(await engine.pids('shop#mail')).toEqual([]);
  });

  test('has a later end after a renewal', async () => {
    const { task, timing } = await leaseOne();
    const { signal } = task;
    await timing.advance(20_000);
    await task.renew();
    await timing.advance(29_000);
    expect(signal.aborted).toBe(false);
    await timing.advance(1_000);
    expect(signal.aborted).toBe(true);
    await expect(task.renew()).rejects.toMatchObject({ name: 'LeaseExpiredError' });
  });

  test('is released, at once or with a delay, with or without counting the attempt', async () => {
    const { mail, task, timing } = await leaseOne();
    await task.release({ refundAttempt: true });
    const again = only(await mail.lease());
    expect(again.attempt).toBe(1);
    const { hiddenUntil } = await again.release({ delay: '10s' });
    expect(hiddenUntil?.getTime()).toBe(timing.now() + 10_000);
    expect(await mail.lease()).toEqual([]);
    await timing.advance(10_000);
    expect(only(await mail.lease()).attempt).toBe(2);
  });

  test('returns the dead-letter queue if that was its last attempt', async () => {
    const { client, engine } = clientSetUp();
    const queue = client.queue('q');
    await queue.enqueue(1, { pid: 'a', retry: { maxAttempts: 1 } });
    expect(await only(await queue.lease()).release()).toMatchObject({ deadLetterQueue: 'q.dead' });
    expect(await engine.pids('q.dead')).toEqual(['a']);
  });
});

describe('a waiting lease', () => {
  test('lasts from the earliest time at which the answer can have left the node, not from the request', async () => {
    const { client, timing } = clientSetUp();
    const queue = client.queue('q');
    const leasing = queue.lease({ wait: '1m', leaseDuration: '10s' });
    await timing.advance(50_000);
    await queue.enqueue(1);
    const { signal } = only(await leasing);
    await timing.advance(9_800);
    expect(signal.aborted).toBe(false);
    await timing.advance(200);
    expect(signal.aborted).toBe(true);
  });

  test('is given up at once, and tasks that were leased to it meanwhile are released', async () => {
    const { client, engine, transport, timing } = clientSetUp();
    const queue = client.queue('q');
    await queue.enqueue(1, { pid: 'a' });
    const giveUp = new AbortController();
    const answer = Promise.withResolvers<void>();
    transport.answers.leaseTasks = async (_request, send) => {
      const reply = await send({});
      await answer.promise;
      return reply;
    };
    const leasing = queue.lease({ signal: giveUp.signal });
    await timing.settled();
    giveUp.abort();
    await expect(leasing).rejects.toMatchObject({ reason: 'CANCELLED' });
    answer.resolve();
    await client.close();
    expect(engine.updates.at(-1)).toMatchObject({ release: [{ queue: 'q', refundAttempt: true, delayMs: 0 }] });
  });
});
