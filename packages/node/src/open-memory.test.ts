import { describe, expect, test } from 'vitest';
import { openMemory, TestClock } from './open-memory.ts';

describe('a queue in memory', () => {
  test('refuses a misspelt durability', async () => {
    await expect(openMemory({ durability: { kind: 'sync' as 'synced' } })).rejects.toThrow(
      'durability: {"kind":"sync"}',
    );
  });

  test('gives out what was enqueued, in order', async () => {
    await using client = await openMemory({ clock: new TestClock() });
    const mail = client.queue<string>('mail');
    await mail.enqueueMany([{ data: 'a' }, { data: 'b' }]);
    const leased = await mail.lease({ max: 10 });
    expect(leased.map(({ data }) => data)).toEqual(['a', 'b']);
    for (const task of leased) await task.complete();
    expect(await mail.stats()).toMatchObject({ available: 0, leased: 0 });
  });

  test('runs on the time of the process without a clock', async () => {
    await using client = await openMemory();
    await client.queue('mail').enqueue('a');
    expect(await client.queue('mail').lease({ wait: '1s' })).toHaveLength(1);
  });

  test('shows a delayed task when the test has advanced the time, and not before', async () => {
    const clock = new TestClock(new Date('2030-01-01'));
    await using client = await openMemory({ clock });
    const mail = client.queue('mail');
    await mail.enqueue('a', { delay: '1h' });
    await clock.advance('59m');
    expect(await mail.lease()).toEqual([]);
    await clock.advance('1m');
    expect(await mail.lease()).toHaveLength(1);
    expect(clock.now()).toEqual(new Date('2030-01-01T01:00:00Z'));
  });

  test('keeps the tasks of a paused queue until the test has advanced the time to the end of the pause', async () => {
    const clock = new TestClock(new Date('2030-01-01'));
    await using client = await openMemory({ clock });
    const mail = client.queue('mail');
    await mail.enqueue('a');
    await client.pauseQueues('*', { until: new Date('2030-01-01T01:00:00Z') });
    await clock.advance('59m');
    expect(await mail.lease()).toEqual([]);
    const waiting = mail.lease({ wait: '5m' });
    await clock.advance('61s');
    expect(await waiting).toHaveLength(1);
    expect(await client.pauses()).toEqual([]);
  });

  test('does a bulk run while the test advances the time', async () => {
    const clock = new TestClock();
    await using client = await openMemory({ clock });
    await client.queue('mail').enqueueMany([{ data: 'a' }, { data: 'b' }]);
    const run = await client.bulk({ action: 'move', queues: 'mail', to: 'later', maxTasks: 1 });
    await clock.advance('1s');
    expect(await run.progress()).toMatchObject({ state: 'done', changed: 1, lookedAt: 1 });
    expect((await client.queue('later').lease({ max: 9 })).map(({ data }) => data)).toEqual(['a']);
  });

  test('ends a lease that is not renewed, and gives the task its next attempt', async () => {
    const clock = new TestClock();
    await using client = await openMemory({ clock });
    const mail = client.queue('mail');
    await mail.enqueue('a', { retry: { backoff: { initial: 0 } } });
    await mail.lease({ leaseDuration: '10s' });
    await clock.advance('10s');
    const [again] = await mail.lease();
    expect(again?.attempt).toBe(2);
  });

  test('answers a lease that waits, and one whose wait is over', async () => {
    const clock = new TestClock();
    await using client = await openMemory({ clock });
    const mail = client.queue('mail');
    await mail.enqueue('a', { delay: '20s' });
    expect(await clock.run(mail.lease({ wait: '30s' }))).toHaveLength(1);
    const before = clock.now().getTime();
    expect(await clock.run(mail.lease({ wait: '30s' }))).toEqual([]);
    expect(clock.now().getTime() - before).toBe(30_000);
  });

  test('runs schedules', async () => {
    const clock = new TestClock(new Date('2030-01-01T00:00:00Z'));
    await using client = await openMemory({ clock });
    await client.schedules.put('hourly', { queue: 'mail', data: 'report', cron: '0 * * * *' });
    await clock.advance('3h');
    expect(await client.queue('mail').stats()).toMatchObject({ available: 3 });
  });

  test('retries what a handler fails, with a worker that the clock drives', async () => {
    const clock = new TestClock();
    await using client = await openMemory({ clock });
    const mail = client.queue<string>('mail');
    const attempts: number[] = [];
    await using worker = client.worker(mail, async ({ attempt }) => {
      attempts.push(attempt);
      if (attempt < 3) throw new Error('not yet');
    });
    worker.start();
    await mail.enqueue('a', { retry: { backoff: { initial: '1m', max: '1m' } } });
    await clock.advance('0ms');
    expect(attempts).toEqual([1]);
    await clock.advance('5m');
    expect(attempts).toEqual([1, 2, 3]);
    expect(await mail.stats()).toMatchObject({ available: 0, delayed: 0, leased: 0 });
  });

  test('renews the lease of a handler that takes long', async () => {
    const clock = new TestClock();
    await using client = await openMemory({ clock });
    const mail = client.queue<string>('mail');
    const gate = Promise.withResolvers<void>();
    let runs = 0;
    await using worker = client.worker(mail, async () => {
      runs++;
      await gate.promise;
    });
    worker.start();
    await mail.enqueue('a');
    await clock.advance('1h');
    expect(runs).toBe(1);
    gate.resolve();
    await clock.advance('1s');
    expect(await mail.stats()).toMatchObject({ available: 0, leased: 0 });
  });
});
