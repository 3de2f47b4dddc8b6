import { connectionLost } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

describe('a limit', () => {
  test('of a queue makes requests wait for a free slot, and says what it holds back', async () => {
    const { client, timing } = clientSetUp();
    const queue = client.queue<string>('shop#mail');
    await queue.enqueue('a', { pid: 'a' });
    await queue.enqueue('b', { pid: 'b' });
    const limited = await queue.limit({ maxLeased: 1 });
    expect(limited).toMatchObject({ queues: 'shop#mail', maxLeased: 1, leased: 0, usedUpSince: undefined });
    expect(limited.since).toBeInstanceOf(Date);
    const [task] = await queue.lease({ max: 9 });
    expect((await queue.stats()).heldBy).toMatchObject([{ queues: 'shop#mail', leased: 1, limitedBy: limited.by }]);
    const waiting = queue.lease({ wait: '10s' });
    await timing.advance(1_000);
    await task?.complete();
    expect((await waiting).map(({ data }) => data)).toEqual(['b']);
    expect(await queue.unlimit()).toEqual({ removed: true, stillLimitedBy: [] });
    expect(await queue.unlimit()).toEqual({ removed: false, stillLimitedBy: [] });
  });

  test('of a pattern is listed for its group with its use, and is named when one of its queues is not limited', async () => {
    const { client } = clientSetUp();
    const mail = client.queue<number>('shop#mail');
    await mail.enqueue(1, { pid: 'a' });
    await client.limitQueues('shop#*', { maxLeased: 1 });
    await mail.lease();
    const [limit] = await client.limits('shop');
    expect(limit).toMatchObject({ queues: 'shop#*', leased: 1 });
    expect(limit?.usedUpSince).toBeInstanceOf(Date);
    expect(await client.limits()).toEqual([]);
    expect(await mail.unlimit()).toEqual({ removed: false, stillLimitedBy: [limit] });
    expect(await client.unlimitQueues('shop#*')).toEqual({ removed: true, stillLimitedBy: [] });
  });

  test('of the rate lets a burst of tasks run, and then one after the other', async () => {
    const { client, timing } = clientSetUp();
    const queue = client.queue<number>('shop#mail');
    for (let number = 0; number < 5; number++) await queue.enqueue(number, { pid: `${number}` });
    const { rate, maxLeased } = await queue.limit({ rate: { tasks: 2, per: '1s' } });
    expect([rate, maxLeased]).toEqual([{ tasks: 2, per: 1000, burst: 2 }, undefined]);
    expect(await queue.lease({ max: 9 })).toHaveLength(2);
    const waiting = queue.lease({ max: 9, wait: '10s' });
    await timing.advance(499);
    expect((await queue.stats()).leased).toBe(2);
    await timing.advance(1);
    expect(await waiting).toHaveLength(1);
  });

  test('goes to the node as it is given, and again after a lost answer', async () => {
    const { client, transport, timing } = clientSetUp();
    transport.faults.limitQueues.push({ when: 'after', error: connectionLost() });
    const limiting = client.limitQueues('q', { maxLeased: 5 });
    await timing.advance(1_000);
    expect((await limiting).maxLeased).toBe(5);
    const request = { queues: 'q', keys: '', maxLeased: 5, rate: undefined };
    expect(transport.arrived.limitQueues).toEqual([request, request]);
  });

  test.each([
    [{ maxLeased: 0 }, 'pause the queues'],
    [{ maxLeased: -1 }, 'maxLeased'],
    [{ maxLeased: 1.5 }, 'maxLeased'],
    [{ maxLeased: Number.NaN }, 'maxLeased'],
    [{ maxLeased: '5' }, 'maxLeased'],
    [{ maxlased: 5 }, 'did you mean maxLeased?'],
    [{}, 'give maxLeased or rate'],
    [{ rate: { tasks: 0, per: '1s' } }, 'rate.tasks'],
    [{ rate: { tasks: 1.5, per: '1s' } }, 'rate.tasks'],
    [{ rate: { tasks: 1, per: 0 } }, 'rate.per'],
    [{ rate: { tasks: 1, per: Number.NaN } }, 'rate.per'],
    [{ rate: { tasks: 1, per: 'soon' } }, 'rate.per'],
    [{ rate: { tasks: 1, per: '1s', burst: 0 } }, 'rate.burst'],
    [{ rate: { tasks: 1, per: '1s', bursts: 1 } }, 'did you mean burst?'],
  ])('of the wrong form is no request: %j', async (options, message) => {
    const { client, transport } = clientSetUp();
    await expect(client.limitQueues('q', options as never)).rejects.toThrow(message);
    expect(transport.arrived.limitQueues).toEqual([]);
  });

  test('of queues of all groups is no request', async () => {
    const { client, transport } = clientSetUp();
    await expect(client.limitQueues('*#*', { maxLeased: 1 })).rejects.toThrow('a pattern chooses queues of one group');
    expect(transport.arrived.limitQueues).toEqual([]);
  });

  test('of one queue is not one of a pattern', async () => {
    const { client } = clientSetUp();
    await expect(client.queue('shop#*').limit({ maxLeased: 1 })).rejects.toThrow('use client.limitQueues');
    await expect(client.queue('shop#*').unlimit()).rejects.toThrow('use client.unlimitQueues');
  });
});
