import { pidText, scheduledRun, textCodec } from '@taskmaster/client';
import { connectionLost } from '@taskmaster/client/testing';
import { MissedRuns } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

describe('put', () => {
  test('sends a cron expression, with the data as the queue encodes it', async () => {
    const { client, transport } = clientSetUp();
    const queue = client.queue<string>('shop#reports', { codec: textCodec });
    const { result, schedule } = await client.schedules.put('shop#nightly', {
      queue,
      data: 'all',
      cron: '0 3 * * *',
      timeZone: 'Europe/Berlin',
      missedRuns: 'skip',
      skipWhileRunning: true,
      retry: { maxAttempts: 3 },
      pidPrefix: '5/',
      timeLimit: '5m',
      startWithin: '10m',
    });
    expect(result).toBe('created');
    expect(transport.arrived.putSchedule[0]?.spec).toMatchObject({
      queue: 'shop#reports',
      data: Buffer.from('all'),
      cron: '0 3 * * *',
      timeZone: 'Europe/Berlin',
      intervalMs: 0,
      missedRuns: MissedRuns.MISSED_RUNS_SKIP,
      skipWhileRunning: true,
      retry: { maxAttempts: 3 },
      pidPrefix: Buffer.from('5/'),
      timeLimitMs: 300_000,
      startWithinMs: 600_000,
    });
    expect(schedule).toMatchObject({
      name: 'shop#nightly',
      queue: 'shop#reports',
      cron: '0 3 * * *',
      timeZone: 'Europe/Berlin',
      everyMs: undefined,
      missedRuns: 'skip',
      skipWhileRunning: true,
      paused: false,
      lastRun: undefined,
      timeLimitMs: 300_000,
      startWithinMs: 600_000,
      counts: { enqueued: 0, missed: 0, skipped: 0, triggered: 0 },
    });
    expect(schedule.nextRuns).toHaveLength(1);
  });

  test('sends an interval, and JSON data to a queue that is given by name', async () => {
    const { client, transport } = clientSetUp();
    await client.schedules.put('poll', { queue: 'polls', data: { url: 'x' }, every: '30s' });
    expect(transport.arrived.putSchedule[0]).toMatchObject({
      schedule: 'poll',
      spec: { data: Buffer.from('{"url":"x"}'), cron: '', timeZone: '', intervalMs: 30_000, retry: undefined },
    });
    expect(transport.arrived.putSchedule[0]?.spec?.missedRuns).toBe(MissedRuns.MISSED_RUNS_ONCE);
    expect((await client.schedules.put('poll', { queue: 'polls', data: 1, every: 500 })).result).toBe('changed');
  });

  test('is repeated if its answer is lost', async () => {
    const { client, transport, timing } = clientSetUp();
    transport.faults.putSchedule.push({ when: 'after', error: connectionLost() });
    const put = client.schedules.put('poll', { queue: 'polls', data: 1, every: '1s' });
    await timing.advance(1000);
    expect((await put).result).toBe('unchanged');
  });

  const base = { queue: 'q', data: 1 };
  test.each([
    ['neither cron nor every', base, 'give one of them'],
    ['both', { ...base, cron: '* * * * *', every: '1s' as const }, 'give one of them'],
    ['a time zone of an interval', { ...base, every: '1s' as const, timeZone: 'UTC' }, 'goes with cron'],
    ['an interval of 0', { ...base, every: 0 }, 'not 0'],
    ['no duration', { ...base, every: 'often' as never }, 'every'],
    ['an unknown policy', { ...base, every: '1s' as const, missedRuns: 'some' as never }, "'some' is not"],
    ['an empty beginning of PIDs', { ...base, every: '1s' as const, pidPrefix: '' }, 'PID'],
  ])('refuses %s', async (_what, options, message) => {
    const { client } = clientSetUp();
    const put = client.schedules.put('s', options);
    await expect(put).rejects.toBeInstanceOf(TypeError);
    await expect(put).rejects.toThrow(message);
  });

  test('refuses a schedule without a name', async () => {
    const { client } = clientSetUp();
    await expect(client.schedules.put('', { ...base, every: '1s' })).rejects.toBeInstanceOf(TypeError);
  });
});

test('schedules of a group, or of all groups, are listed page by page, with their next runs', async () => {
  const { client } = clientSetUp();
  for (const name of ['shop#a', 'shop#b', 'shop#c', 'other#d', 'e']) {
    await client.schedules.put(name, { queue: name, data: 1, every: '1m' });
  }
  const names: string[] = [];
  for await (const { name, nextRuns } of client.schedules.list({ group: 'shop', nextRuns: 3 })) {
    names.push(name);
    expect(nextRuns).toHaveLength(3);
  }
  expect(names).toEqual(['shop#a', 'shop#b', 'shop#c']);
  const all: string[] = [];
  for await (const { name } of client.schedules.list()) all.push(name);
  expect(all).toEqual(['e', 'other#d', 'shop#a', 'shop#b', 'shop#c']);
  expect((await client.schedules.list({ group: '' }).next()).value?.name).toBe('e');
  expect((await client.schedules.get('other#d', { nextRuns: 2 }))?.nextRuns).toHaveLength(2);
  expect(await client.schedules.get('other#e')).toBeUndefined();
});

test('a schedule is paused, resumed, triggered and deleted', async () => {
  const { client } = clientSetUp();
  await client.schedules.put('shop#a', { queue: 'shop#q', data: 1, every: '1m' });
  expect(await client.schedules.pause('shop#a')).toMatchObject({ paused: true, nextRuns: [] });
  expect((await client.schedules.resume('shop#a')).paused).toBe(false);
  const { queue, pid } = await client.schedules.trigger('shop#a');
  expect(queue).toBe('shop#q');
  expect(scheduledRun(pid)).toMatchObject({ schedule: 'a', isTriggered: true });
  expect(await client.schedules.delete('shop#a')).toBe(true);
  expect(await client.schedules.delete('shop#a')).toBe(false);
  await expect(client.schedules.pause('shop#a')).rejects.toMatchObject({ reason: 'SCHEDULE_NOT_FOUND' });
});

test.each([
  ['2030-01-01T09:00:00.000Z/nightly', { schedule: 'nightly', isTriggered: false }],
  ['5/2030-01-01T09:00:00.000Z/näh/tly', { schedule: 'näh/tly', isTriggered: false }],
  ['2030-01-01T09:00:00.000Z!nightly', { schedule: 'nightly', isTriggered: true }],
])('the PID %s tells its run', (pid, run) => {
  expect(scheduledRun(Buffer.from(pid))).toEqual({ ...run, at: new Date('2030-01-01T09:00:00Z') });
  expect(pidText(Buffer.from(pid))).toBe(pid);
});

test.each(['order-17', '2030-01-01T09:00:00.000Z', '2030-01-01T09:00:00.000Z/'])('the PID %s tells no run', (pid) => {
  expect(scheduledRun(pid)).toBeUndefined();
});
