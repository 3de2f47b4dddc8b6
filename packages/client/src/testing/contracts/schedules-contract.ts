import { MissedRuns, methods, PutScheduleResult, type ScheduleSpec } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import type { TransportWorld } from './transport-world.ts';

const HOUR_MS = 3_600_000;

const SPEC: ScheduleSpec = {
  queue: 'shop#jobs',
  data: Buffer.from('data'),
  headers: { tenant: 'acme' },
  retry: undefined,
  cron: '',
  timeZone: '',
  intervalMs: HOUR_MS,
  missedRuns: MissedRuns.MISSED_RUNS_ALL,
  skipWhileRunning: true,
  pidPrefix: Buffer.from('5/'),
  timeLimitMs: 5000,
  startWithinMs: 9000,
  limitKey: 'acme',
};

/** The part of the transport contract about schedules. */
export function schedulesContract(start: () => Promise<TransportWorld>): void {
  test('schedules are put, listed, paused, triggered and deleted', async () => {
    await using world = await start();
    const { transport } = world;
    const put = async (schedule: string, change: Partial<ScheduleSpec> = {}) =>
      (await transport.unary(methods.putSchedule, { schedule, spec: { ...SPEC, ...change } })).result;
    expect(await put('shop#b')).toBe(PutScheduleResult.PUT_SCHEDULE_RESULT_CREATED);
    expect(await put('shop#b')).toBe(PutScheduleResult.PUT_SCHEDULE_RESULT_UNCHANGED);
    expect(await put('shop#a')).toBe(PutScheduleResult.PUT_SCHEDULE_RESULT_CREATED);
    expect(await put('shop#a', { intervalMs: 2 * HOUR_MS })).toBe(PutScheduleResult.PUT_SCHEDULE_RESULT_CHANGED);
    await put('other#c', { queue: 'other#jobs' });

    const list = (schedule: string, group?: string) =>
      transport.unary(methods.listSchedules, { schedule, group, nextRuns: 2, limit: 0, pageToken: '' });
    const { schedules, nextPageToken } = await list('', 'shop');
    expect(schedules.map(({ schedule }) => schedule)).toEqual(['shop#a', 'shop#b']);
    expect(nextPageToken).toBe('');
    const [a, b] = schedules;
    expect(a?.spec?.intervalMs).toBe(2 * HOUR_MS);
    expect(b).toMatchObject({ paused: false, runs: 0, missed: 0, skipped: 0, triggered: 0, lastRunUnixMs: 0 });
    expect({ ...b?.spec, headers: { ...b?.spec?.headers } }).toMatchObject({ ...SPEC, data: expect.anything() });
    expect(Buffer.from(b?.spec?.data ?? []).toString()).toBe('data');
    const [first = 0, second = 0] = b?.nextRunsUnixMs ?? [];
    expect(second - first).toBe(HOUR_MS);

    expect(
      (await transport.unary(methods.pauseSchedule, { schedule: 'shop#b', paused: true })).schedule?.nextRunsUnixMs,
    ).toEqual([]);
    const { queue, pid } = await transport.unary(methods.triggerSchedule, { schedule: 'shop#b' });
    expect([queue, Buffer.from(pid).toString()]).toEqual(['shop#jobs', expect.stringMatching(/^5\/\d{4}-.*Z!b$/)]);
    expect((await list('shop#b')).schedules).toMatchObject([{ schedule: 'shop#b', paused: true, triggered: 1 }]);
    expect((await transport.unary(methods.pauseSchedule, { schedule: 'shop#b', paused: false })).schedule?.paused).toBe(
      false,
    );
    expect(await transport.unary(methods.deleteSchedule, { schedule: 'shop#b' })).toEqual({ deleted: true });
    expect(await transport.unary(methods.deleteSchedule, { schedule: 'shop#b' })).toEqual({ deleted: false });
    const gone = transport.unary(methods.pauseSchedule, { schedule: 'shop#b', paused: true });
    await expect(gone).rejects.toMatchObject({ reason: 'SCHEDULE_NOT_FOUND' });
  });
}
