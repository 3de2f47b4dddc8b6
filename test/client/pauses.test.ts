import { connectionLost } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

describe('a pause', () => {
  test('of a queue keeps its tasks until it is resumed, and says why and by whom', async () => {
    const { client, timing } = clientSetUp();
    const queue = client.queue<string>('shop#mail');
    await queue.enqueue('a', { pid: 'a' });
    const paused = await queue.pause({ reason: 'mail server is down' });
    expect(paused).toMatchObject({ queues: 'shop#mail', reason: 'mail server is down', until: undefined });
    expect(paused.since).toBeInstanceOf(Date);
    expect((await queue.stats()).pause).toMatchObject({ reason: 'mail server is down', pausedBy: paused.by });
    expect(await queue.lease()).toEqual([]);
    const waiting = queue.lease({ wait: '10s' });
    await timing.advance(1_000);
    expect(await queue.resume()).toEqual({ resumed: true, stillPausedBy: [] });
    expect((await waiting).map(({ data }) => data)).toEqual(['a']);
    expect((await queue.stats()).pause).toBeUndefined();
    expect(await queue.resume()).toEqual({ resumed: false, stillPausedBy: [] });
  });

  test('of a pattern is listed for its group, and is named when one of its queues is resumed', async () => {
    const { client } = clientSetUp();
    const pause = await client.pauseQueues('shop#*', { for: '1h' });
    expect((pause.until?.getTime() ?? 0) - pause.since.getTime()).toBe(3_600_000);
    expect(await client.pauses('shop')).toEqual([pause]);
    expect(await client.pauses()).toEqual([]);
    expect(await client.queue('shop#mail').resume()).toEqual({ resumed: false, stillPausedBy: [pause] });
    expect(await client.resumeQueues('shop#*')).toEqual({ resumed: true, stillPausedBy: [] });
  });

  test('goes to the node as it is given, and again after a lost answer', async () => {
    const { client, transport, timing } = clientSetUp();
    transport.faults.pauseQueues.push({ when: 'after', error: connectionLost() });
    const until = new Date('2100-01-01T00:00:00Z');
    const pausing = client.pauseQueues('q', { until });
    await timing.advance(1_000);
    expect((await pausing).until).toEqual(until);
    const request = { queues: 'q', reason: '', durationMs: 0, untilUnixMs: until.getTime() };
    expect(transport.arrived.pauseQueues).toEqual([request, request]);
  });

  test('of a sharded queue is one of all its shards', async () => {
    const { client } = clientSetUp();
    const queue = client.shardedQueue<number>('orders', { shards: 3 });
    await queue.enqueue(1, { pid: 'a' });
    await queue.pause({ reason: 'stop' });
    expect(await queue.lease({ max: 9 })).toEqual([]);
    expect((await queue.stats()).shards.map(({ pause }) => pause?.reason)).toEqual(['stop', 'stop', 'stop']);
    await queue.resume();
    expect(await queue.lease({ max: 9 })).toHaveLength(1);
    expect((await queue.stats()).pause).toBeUndefined();
  });

  test('of a sharded queue ends also in a shard that has lost its tasks, and that only others use', async () => {
    const { client } = clientSetUp();
    const wide = client.shardedQueue<string>('orders', { shards: 3 });
    const narrow = client.shardedQueue<string>('orders', { shards: 1 });
    await wide.shard(2).enqueue('a', { pid: 'a' });
    const [task] = await wide.lease();
    await narrow.pause();
    await task?.complete();
    await narrow.resume();
    await wide.shard(2).enqueue('b', { pid: 'b' });
    expect(await wide.lease()).toHaveLength(1);
  });

  test.each([
    [{ for: 0 }, 'for: a pause lasts at least 1ms'],
    [{ for: 'soon' }, 'for'],
    [{ for: 1, until: new Date() }, 'give for or until, not both'],
    [{ until: new Date(Number.NaN) }, 'until'],
    [{ untill: new Date() }, 'did you mean until?'],
  ])('of the wrong form is no request: %j', async (options, message) => {
    const { client, transport } = clientSetUp();
    await expect(client.pauseQueues('q', options as never)).rejects.toThrow(message);
    expect(transport.arrived.pauseQueues).toEqual([]);
  });

  test.each(['*#*', 'shop*#mail', ''])('of %j is no request: it must be of queues of one group', async (queues) => {
    const { client, transport } = clientSetUp();
    await expect(client.pauseQueues(queues)).rejects.toThrow(TypeError);
    expect(transport.arrived.pauseQueues).toEqual([]);
  });

  test('of all queues is one of the default group only', async () => {
    const { client } = clientSetUp();
    for (const name of ['mail', 'shop#mail']) await client.queue(name).enqueue(1);
    await client.pauseQueues('*');
    expect(await client.queue('mail').lease()).toEqual([]);
    expect(await client.queue('shop#mail').lease()).toHaveLength(1);
  });

  test('of one queue is not one of a pattern', async () => {
    const { client } = clientSetUp();
    await expect(client.queue('shop#*').pause()).rejects.toThrow('use client.pauseQueues');
    await expect(client.queue('shop#*').resume()).rejects.toThrow('use client.resumeQueues');
  });
});
