import { connectionLost } from '@taskmaster/client/testing';
import { limits, NO_SETTINGS } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

describe('settings of queues', () => {
  test('are put as they are given, and what is left out is not set', async () => {
    const { client, transport } = clientSetUp();
    await client.queueSettings.put('shop#*', { leaseDuration: '2m', keepOut: '1d', timeLimit: '5s' });
    const settings = { ...NO_SETTINGS, leaseDurationMs: 120_000, keepOutMs: 86_400_000, timeLimitMs: 5000 };
    expect(transport.arrived.putQueueSettings).toEqual([{ queues: 'shop#*', settings }]);
    expect(await client.queueSettings.list('shop')).toEqual([
      {
        queues: 'shop#*',
        retry: undefined,
        deadLetterQueue: undefined,
        mode: undefined,
        resultRetention: undefined,
        leaseDuration: 120_000,
        keepOut: 86_400_000,
        timeLimit: 5000,
        maxBacklog: undefined,
        maxKeyBacklog: undefined,
        whenFull: undefined,
        fairTurns: undefined,
      },
    ]);
    expect(await client.queueSettings.list()).toEqual([]);
  });

  test('show what applies to a queue, without a limit as Infinity', async () => {
    const { client } = clientSetUp();
    const retry = { maxAttempts: Number.POSITIVE_INFINITY, backoff: { initial: 0 } };
    await client.queueSettings.put('q', { retry, mode: 'rerun' });
    expect(await client.queueSettings.of('q')).toMatchObject({
      retry: { maxAttempts: Number.POSITIVE_INFINITY, backoff: { initial: 0, max: limits.defaultBackoffMaxMs } },
      deadLetterQueue: 'q.dead',
      leaseDuration: 30_000,
      mode: 'rerun',
      keepOut: undefined,
      timeLimit: undefined,
      maxBacklog: undefined,
      whenFull: 'refuse',
    });
    expect(await client.queueSettings.of('other')).toMatchObject({ retry: { maxAttempts: 20 }, mode: 'collapse' });
  });

  test('cap the backlog, and say what an enqueue does then', async () => {
    const { client } = clientSetUp();
    await client.queueSettings.put('q', { maxBacklog: 1, whenFull: 'drop-newest' });
    expect(await client.queueSettings.of('q')).toMatchObject({ maxBacklog: 1, whenFull: 'drop-newest' });
    const queue = client.queue('q');
    expect([(await queue.enqueue(1)).result, (await queue.enqueue(2)).result]).toEqual(['created', 'dropped']);
  });

  test('cap the backlog of each limit key', async () => {
    const { client } = clientSetUp();
    await client.queueSettings.put('q', { maxKeyBacklog: 1, whenFull: 'drop-newest' });
    expect(await client.queueSettings.of('q')).toMatchObject({ maxKeyBacklog: 1, maxBacklog: undefined });
    const queue = client.queue('q');
    const results: string[] = [];
    for (const limitKey of ['a', 'a', 'b', undefined, undefined])
      results.push((await queue.enqueue(1, { limitKey })).result);
    expect(results).toEqual(['created', 'dropped', 'created', 'created', 'created']);
  });

  test('give turns to limit keys, by their weights', async () => {
    const { client } = clientSetUp();
    const weights = { 'gold/*': 3, acme: 2 };
    await client.queueSettings.put('q', { fairTurns: { weights } });
    expect(await client.queueSettings.of('q')).toMatchObject({ fairTurns: { weights } });
    await client.queueSettings.put('q', { fairTurns: {} });
    const queue = client.queue<string>('q');
    for (const pid of ['a1', 'a2', 'a3', 'b1']) await queue.enqueue(pid, { pid, limitKey: pid[0] });
    const tasks = await queue.lease({ max: 2 });
    expect(tasks.map(({ data }) => data)).toEqual(['a1', 'b1']);
    await expect(queue.enqueue('', { limitKey: '' })).rejects.toThrow('limitKey: "" is no text');
  });

  test('are deleted once', async () => {
    const { client } = clientSetUp();
    await client.queueSettings.put('q', { mode: 'fail' });
    expect(await client.queueSettings.delete('q')).toBe(true);
    expect(await client.queueSettings.delete('q')).toBe(false);
  });

  test('are put again after a lost answer, because that changes nothing', async () => {
    const { client, transport, timing } = clientSetUp();
    transport.faults.putQueueSettings.push({ when: 'after', error: connectionLost() });
    const putting = client.queueSettings.put('q', { mode: 'fail' });
    await timing.advance(1_000);
    await putting;
    expect(await client.queueSettings.list()).toHaveLength(1);
  });

  test.each([
    [{ retry: { maxAttempts: 0 } }, 'retry.maxAttempts: 0 is not a whole number from 1, or Infinity'],
    [{ retry: { backoff: { initial: -1 } } }, 'retry.backoff.initial: -1 is not a number of ms'],
    [{ leaseDuration: 'soon' }, 'leaseDuration'],
    [{ keepOut: Number.NaN }, 'keepOut'],
    [{ timeLimit: 0 }, 'timeLimit: a time limit is at least 1ms'],
    [{ timeLimit: -1 }, 'timeLimit'],
    [{ maxBacklog: 0 }, 'maxBacklog: 0 is no whole number of at least 1'],
    [{ maxBacklog: 1.5 }, 'maxBacklog'],
    [{ maxKeyBacklog: 0 }, 'maxKeyBacklog: 0 is no whole number of at least 1'],
    [{ whenFull: 'wait' }, 'whenFull: "wait" is not one of refuse, drop-oldest, drop-newest'],
    [{ fairTurns: { weights: { acme: 0 } } }, 'fairTurns.weights: 0 of acme is no whole number of at least 1'],
    [{ fairTurns: { wights: {} } }, 'weights'],
    [{ mode: 'merge' }, 'mode'],
  ])('of the wrong form are no request: %j', async (settings, message) => {
    const { client, transport } = clientSetUp();
    await expect(client.queueSettings.put('q', settings as never)).rejects.toThrow(message);
    expect(transport.arrived.putQueueSettings).toEqual([]);
  });
});
