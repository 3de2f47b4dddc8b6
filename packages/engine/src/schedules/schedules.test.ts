import {
  EnqueueMode,
  formatQueueName,
  limits,
  MissedRuns,
  PutScheduleResult,
  parseQueueName,
  type QueueName,
  type ScheduleSpec,
  StoredSchedule,
} from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { Pid } from '../domain/ids.ts';
import type { ListSchedulesCommand } from '../domain/schedules/schedule-commands.ts';
import { type EngineHarness, engineHarness, pidsOf, updateCommand } from '../testing/engine-harness.ts';
import { each, putSchedule, runPids, SCHEDULE, scheduleOf, TARGET, waitingIn } from './test-support.ts';

const { PUT_SCHEDULE_RESULT_CREATED, PUT_SCHEDULE_RESULT_CHANGED, PUT_SCHEDULE_RESULT_UNCHANGED } = PutScheduleResult;
const { MISSED_RUNS_ONCE, MISSED_RUNS_SKIP } = MissedRuns;

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const nightly = parseQueueName(SCHEDULE);

const leaseAll = async (h: EngineHarness): Promise<string[]> => pidsOf(await h.lease(TARGET, { max: 100 }));

describe('a schedule', () => {
  test('enqueues a task at each instant, at most 100 ms later', async () => {
    await using h = await engineHarness();
    const from = h.clock.now();
    await putSchedule(h);
    const served: number[] = [];
    const [first, second] = each(from, 2);
    void h.lease(TARGET, { wait: MINUTE }).then(() => served.push(h.clock.now()));
    await h.clock.advance(999);
    expect(served).toEqual([]);
    await h.clock.advance(101);
    expect(served).toHaveLength(1);
    await h.clock.advance(1000);
    expect(await waitingIn(h)).toEqual(runPids([second ?? 0]));
    const pids = runPids([first ?? 0]) as Pid[];
    const [task] = await h.engine.getTasks({ queue: parseQueueName(TARGET), pids, includeData: true });
    expect(Buffer.from(task?.data ?? []).toString()).toBe('data');
    expect(await scheduleOf(h)).toMatchObject({
      record: { runs: 2, missed: 0, skipped: 0, lastRunUnixMs: second },
      nextRuns: each(from + 2000, 3),
    });
  });

  test('runs by a cron expression in its time zone', async () => {
    await using h = await engineHarness();
    // The virtual clock begins on a Thursday, 2026-01-01T00:00:00Z.
    await putSchedule(h, { intervalMs: 0, cron: '30 9 * * MON-FRI', timeZone: 'Europe/Berlin' });
    h.clock.stepWall(5 * 24 * HOUR);
    await h.clock.advance(200);
    const days = ['2026-01-01', '2026-01-02', '2026-01-05'];
    expect(await waitingIn(h)).toEqual(runPids(days.map((day) => Date.parse(`${day}T08:30:00Z`))));
  });

  test('gives its tasks their time limit, also those of runs that are triggered', async () => {
    await using h = await engineHarness();
    await putSchedule(h, { timeLimitMs: 5000 });
    await h.clock.advance(1100);
    await h.engine.schedules.trigger(nightly);
    const leased = await h.lease(TARGET, { max: 2, for: HOUR });
    expect(leased.map((task) => [task.timeLimitMs, task.until - h.clock.now()])).toEqual([
      [5000, 5000],
      [5000, 5000],
    ]);
  });

  test('gives its tasks the time in which they must start', async () => {
    await using h = await engineHarness();
    const from = h.clock.now();
    await putSchedule(h, { startWithinMs: 1500 });
    await h.clock.advance(2400);
    expect(await waitingIn(h)).toEqual(runPids(each(from, 2)));
    await h.clock.advance(800);
    expect(await waitingIn(h)).toEqual(runPids(each(from + 1000, 2)));
    expect(h.engine.figures().startsMissed).toBe(1);
  });

  test('gives its tasks their retry policy and the beginning of their PIDs', async () => {
    await using h = await engineHarness();
    const from = h.clock.now();
    const retry = { maxAttempts: 1, backoffInitialMs: 0, backoffMaxMs: HOUR, deadLetterQueue: 'g#gave-up' };
    await putSchedule(h, { retry, pidPrefix: Buffer.from('5/') });
    await h.clock.advance(1100);
    const pids = runPids(each(from, 1)).map((pid) => `5/${pid}`);
    expect(await leaseAll(h)).toEqual(pids);
    await h.clock.advance(31_000);
    expect(await waitingIn(h, 'g#gave-up')).toEqual(pids);
  });

  test.each(['lose', 'kill'] as const)('neither loses nor repeats a run when the node is down (%s)', async (end) => {
    await using h = await engineHarness({ writeMs: 3, syncMs: 20, readMs: 1 });
    const from = h.clock.now();
    await h.clock.run(putSchedule(h));
    const anchor = from;
    let runs = 0;
    for (let round = 1; round <= 8; round++) {
      await h.clock.advance(700 + round * 137);
      h[end]();
      await h.open();
    }
    await h.clock.advance(200);
    runs = Math.floor((h.clock.now() - anchor - 120) / 1000);
    const pids = await h.clock.run(waitingIn(h));
    expect(pids.slice(0, runs)).toEqual(runPids(each(anchor, runs)));
    expect(new Set(pids).size).toBe(pids.length);
    expect((await h.clock.run(scheduleOf(h)))?.record.runs).toBe(pids.length);
  });

  test('never enqueues a run again, whatever the system clock does', async () => {
    await using h = await engineHarness();
    const from = h.clock.wall();
    await putSchedule(h);
    await h.clock.advance(3100);
    expect(await leaseAll(h)).toEqual(runPids(each(from, 3)));
    h.clock.stepWall(-2000);
    await h.clock.advance(1900);
    expect(await waitingIn(h)).toEqual([]);
    await h.clock.advance(1100);
    expect(await waitingIn(h)).toEqual(runPids(each(from + 3000, 1)));
    h.clock.stepWall(5000);
    await h.clock.advance(200);
    expect(await waitingIn(h)).toEqual(runPids(each(from + 3000, 6)));
  });

  test('follows the system clock when it is set, also to another day', async () => {
    await using h = await engineHarness();
    await putSchedule(h, { intervalMs: 0, cron: '0 9 * * *', timeZone: 'UTC' });
    h.clock.stepWall(9 * HOUR - 1000);
    await h.clock.advance(900);
    expect(await waitingIn(h)).toEqual([]);
    await h.clock.advance(200);
    expect(await waitingIn(h)).toEqual(runPids([Date.parse('2026-01-01T09:00:00Z')]));
  });

  test.each([
    ['all', {}, [1, 2, 3, 4], 0],
    ['once', { missedRuns: MISSED_RUNS_ONCE }, [4], 3],
    ['skip', { missedRuns: MISSED_RUNS_SKIP }, [], 4],
  ])('after an outage: %s', async (_policy, change, hours, missed) => {
    await using h = await engineHarness();
    const from = h.clock.now();
    await putSchedule(h, { intervalMs: HOUR, ...change });
    h.lose();
    await h.clock.advance(4.5 * HOUR);
    await h.open();
    await h.clock.advance(200);
    expect(await waitingIn(h)).toEqual(runPids(hours.map((hour) => from + hour * HOUR)));
    expect((await scheduleOf(h))?.record).toMatchObject({ runs: hours.length, missed });
    await h.clock.advance(HOUR);
    expect((await scheduleOf(h))?.record).toMatchObject({ runs: hours.length + 1, missed });
  });

  test('catches up with more missed runs than one decision takes', async () => {
    await using h = await engineHarness();
    const from = h.clock.now();
    await putSchedule(h);
    h.lose();
    await h.clock.advance(350_500);
    await h.open();
    await h.clock.advance(200);
    expect(await waitingIn(h)).toEqual(runPids(each(from, 350)));
  });

  test('skips a run while an earlier one is in the queue, waiting or leased', async () => {
    await using h = await engineHarness();
    const from = h.clock.now();
    await putSchedule(h, { skipWhileRunning: true });
    await h.clock.advance(2100);
    expect(await waitingIn(h)).toEqual(runPids(each(from, 1)));
    const [task] = await h.lease(TARGET);
    await h.clock.advance(1000);
    expect(await waitingIn(h)).toEqual([]);
    expect((await scheduleOf(h))?.record).toMatchObject({ runs: 1, skipped: 2 });
    await h.update({ dequeue: [{ queue: TARGET, pid: task?.pid ?? '', token: task?.token }] });
    await h.clock.advance(1000);
    expect(await waitingIn(h)).toEqual(runPids(each(from + 3000, 1)));
  });

  test('does not wait for a run whose last attempt is over', async () => {
    await using h = await engineHarness();
    const from = h.clock.now();
    const retry = { maxAttempts: 1, backoffInitialMs: 0, backoffMaxMs: HOUR, deadLetterQueue: '' };
    await putSchedule(h, { skipWhileRunning: true, retry });
    await h.clock.advance(1100);
    await h.lease(TARGET, { for: 850 });
    await h.clock.advance(1000);
    expect(await waitingIn(h)).toEqual(runPids(each(from + 1000, 1)));
  });

  test('waits for room if the group has reached a quota, and loses nothing', async () => {
    await using h = await engineHarness({ groupLimits: () => ({ tasks: 3 }) });
    const from = h.clock.now();
    await putSchedule(h);
    await h.clock.advance(5100);
    const room = (await waitingIn(h)).length;
    expect(await waitingIn(h)).toEqual(runPids(each(from, room)));
    expect(room).toBeLessThanOrEqual(3);
    await h.update({ dequeue: runPids(each(from, room)).map((pid) => ({ queue: TARGET, pid })) });
    await h.clock.advance(1200);
    expect(await waitingIn(h)).toEqual(runPids(each(from + room * 1000, room)));
    await h.update({ dequeue: runPids(each(from + room * 1000, room)).map((pid) => ({ queue: TARGET, pid })) });
    await h.clock.advance(3200);
    expect(await waitingIn(h)).toEqual(runPids(each(from + room * 2000, room)));
    expect((await scheduleOf(h))?.record).toMatchObject({ runs: 3 * room, missed: 0 });
  });

  test.each(['short', 'none'] as const)('catches up when the disk was full (%s)', async (space) => {
    await using h = await engineHarness({ writeMs: 1 });
    const from = h.clock.now();
    await h.clock.run(putSchedule(h));
    await h.clock.advance(500);
    h.disk.space = space;
    await h.clock.advance(3000);
    expect(await h.clock.run(waitingIn(h))).toEqual([]);
    h.disk.space = 'plenty';
    await h.clock.advance(2000);
    expect(await h.clock.run(waitingIn(h))).toEqual(runPids(each(from, 5)));
  });
});

describe('a put', () => {
  test('of the same schedule changes nothing, whenever it comes', async () => {
    await using h = await engineHarness();
    const from = h.clock.now();
    expect((await putSchedule(h)).result).toBe(PUT_SCHEDULE_RESULT_CREATED);
    for (let round = 0; round < 5; round++) {
      await h.clock.advance(600);
      expect((await putSchedule(h)).result).toBe(PUT_SCHEDULE_RESULT_UNCHANGED);
    }
    await h.clock.advance(100);
    expect(await waitingIn(h)).toEqual(runPids(each(from, 3)));
    expect((await scheduleOf(h))?.record).toMatchObject({ createdUnixMs: from, changedUnixMs: from, runs: 3 });
  });

  test('of other data goes on with the same instants', async () => {
    await using h = await engineHarness();
    const from = h.clock.now();
    await putSchedule(h);
    await h.clock.advance(1500);
    const { result, view } = await putSchedule(h, { data: Buffer.from('other') });
    expect(result).toBe(PUT_SCHEDULE_RESULT_CHANGED);
    expect(view.nextRuns).toEqual([from + 2000]);
    await h.clock.advance(600);
    const tasks = await h.lease(TARGET, { max: 10 });
    expect(tasks.map(({ data }) => Buffer.from(data).toString())).toEqual(['data', 'other']);
  });

  test('of another interval begins it now', async () => {
    await using h = await engineHarness();
    const from = h.clock.now();
    await putSchedule(h);
    await h.clock.advance(1500);
    expect((await putSchedule(h, { intervalMs: 5000 })).view.nextRuns).toEqual([from + 6500]);
  });

  test('is refused if the expression has no run after now', async () => {
    await using h = await engineHarness();
    const put = putSchedule(h, { intervalMs: 0, cron: '0 0 0 1 1 * 2020', timeZone: 'UTC' });
    await expect(put).rejects.toMatchObject({ reason: 'INVALID_SCHEDULE' });
    expect(await scheduleOf(h)).toBeUndefined();
  });

  test('is refused if the group has too many schedules', async () => {
    await using h = await engineHarness();
    await putSchedule(h);
    const others = Array.from({ length: limits.groupSchedules - 1 }, (_, number) => ({
      queue: 'g#$taskmaster/schedules',
      pid: `s${number}`,
      delay: HOUR,
    }));
    await h.update({ enqueue: others });
    await expect(putSchedule(h, {}, 'g#one-more')).rejects.toMatchObject({ reason: 'TOO_MANY_SCHEDULES' });
    expect((await putSchedule(h, { intervalMs: HOUR })).result).toBe(PUT_SCHEDULE_RESULT_CHANGED);
    expect((await putSchedule(h, {}, 'other#s')).result).toBe(PUT_SCHEDULE_RESULT_CREATED);
  });
});

test('a paused schedule enqueues nothing, and goes on behind the pause', async () => {
  await using h = await engineHarness();
  const from = h.clock.now();
  await putSchedule(h);
  await h.clock.advance(1100);
  expect((await h.engine.schedules.pause(nightly, true)).nextRuns).toEqual([]);
  await putSchedule(h);
  await h.crash();
  await h.clock.advance(5000);
  expect((await h.engine.schedules.pause(nightly, false)).nextRuns).toEqual([from + 7000]);
  await h.clock.advance(1000);
  expect(await waitingIn(h)).toEqual(runPids([from + 1000, from + 7000]));
  expect((await scheduleOf(h))?.record).toMatchObject({ runs: 2, missed: 0 });
});

describe('a pause while a quota holds runs up', () => {
  /** Removes the waiting tasks again and again, and returns the PIDs of all that came. */
  async function takeAll(h: EngineHarness, rounds: number): Promise<string[]> {
    const came: string[] = [];
    for (let round = 0; round < rounds; round++) {
      const pids = await waitingIn(h);
      came.push(...pids);
      if (pids.length > 0) await h.update({ dequeue: pids.map((pid) => ({ queue: TARGET, pid })) });
      await h.clock.advance(1000);
    }
    return came;
  }
  const pause = (h: EngineHarness, paused: boolean) => h.engine.schedules.pause(nightly, paused);

  test('drops none of them: they come during the pause, and the later ones after it', async () => {
    await using h = await engineHarness({ groupLimits: () => ({ tasks: 2 }) });
    const from = h.clock.now();
    await putSchedule(h);
    await h.clock.advance(5100);
    expect((await waitingIn(h)).length).toBeLessThan(5);
    expect((await pause(h, true)).nextRuns).toEqual([]);
    await h.crash();
    await h.clock.advance(4000);
    expect(await takeAll(h, 8)).toEqual(runPids(each(from, 5)));
    const resumed = h.clock.now();
    await pause(h, false);
    await h.clock.advance(1000);
    const first = from + Math.ceil((resumed - from + 1) / 1000) * 1000;
    expect((await takeAll(h, 3))[0]).toBe(runPids([first])[0]);
    expect((await scheduleOf(h))?.record).toMatchObject({ missed: 0, pauses: [] });
  });

  test('drops none of them if it ends before them, or if another one follows', async () => {
    await using h = await engineHarness({ groupLimits: () => ({ tasks: 2 }) });
    const from = h.clock.now();
    await putSchedule(h);
    await h.clock.advance(3100);
    await pause(h, true);
    await h.clock.advance(3000);
    await pause(h, false);
    await h.clock.advance(2000);
    await pause(h, true);
    await h.crash();
    await h.clock.advance(3000);
    await pause(h, false);
    // Runs 4 to 6 and 9 to 11 are within a pause.
    const expected = [1, 2, 3, 7, 8, 12, 13].map((second) => from + second * 1000);
    expect((await takeAll(h, 10)).slice(0, expected.length)).toEqual(runPids(expected));
    expect((await scheduleOf(h))?.record).toMatchObject({ missed: 0, pauses: [] });
  });

  test('keeps the record small, however often it is paused', async () => {
    await using h = await engineHarness({ groupLimits: () => ({ tasks: 2 }) });
    const from = h.clock.now();
    await putSchedule(h);
    await h.clock.advance(5100);
    for (let round = 0; round < 50; round++) {
      await pause(h, true);
      await h.clock.advance(10);
      await pause(h, false);
    }
    expect((await scheduleOf(h))?.record.pauses).toHaveLength(0);
    for (let round = 0; round < 5; round++) {
      await pause(h, true);
      await h.clock.advance(990);
      await pause(h, false);
    }
    const { record, nextRuns } = (await scheduleOf(h)) ?? {};
    expect(record?.pauses).toHaveLength(1);
    expect(nextRuns?.length).toBeGreaterThan(0);
    expect((await takeAll(h, 6)).slice(0, 5)).toEqual(runPids(each(from, 5)));
  });

  test('counts those that are missed by choice', async () => {
    await using h = await engineHarness({ groupLimits: () => ({ tasks: 2 }) });
    await putSchedule(h, { missedRuns: MissedRuns.MISSED_RUNS_ONCE });
    await h.clock.advance(5100);
    const came = (await waitingIn(h)).length;
    await pause(h, true);
    const more = (await takeAll(h, 4)).length - came;
    const record = (await scheduleOf(h))?.record;
    expect((record?.runs ?? 0) + (record?.missed ?? 0)).toBe(5);
    expect(record?.runs).toBe(came + more);
  });
});

test('a triggered run is an extra one, also of a paused schedule', async () => {
  await using h = await engineHarness();
  const from = h.clock.now();
  await putSchedule(h);
  await h.engine.schedules.pause(nightly, true);
  const extra = [await h.engine.schedules.trigger(nightly), await h.engine.schedules.trigger(nightly)];
  const pids = [from, from + 1].map((at) => `${new Date(at).toISOString()}!nightly`);
  expect(pidsOf(extra)).toEqual(pids);
  expect(await waitingIn(h)).toEqual(pids);
  expect((await scheduleOf(h))?.record).toMatchObject({ runs: 0, triggered: 2 });
});

test('a deleted schedule enqueues nothing more', async () => {
  await using h = await engineHarness();
  await putSchedule(h);
  await h.clock.advance(1100);
  expect(await h.engine.schedules.delete(nightly)).toBe(true);
  expect(await h.engine.schedules.delete(nightly)).toBe(false);
  await h.crash();
  await h.clock.advance(5000);
  expect(await waitingIn(h)).toHaveLength(1);
  expect(await scheduleOf(h)).toBeUndefined();
});

test.each([
  ['pause', (h: EngineHarness) => h.engine.schedules.pause(nightly, true)],
  ['trigger', (h: EngineHarness) => h.engine.schedules.trigger(nightly)],
] as const)('a %s of an unknown schedule is refused', async (_what, call) => {
  await using h = await engineHarness();
  await expect(call(h)).rejects.toMatchObject({ reason: 'SCHEDULE_NOT_FOUND' });
});

test('a schedule whose time zone this node does not know keeps no other from running', async () => {
  const warnings: string[] = [];
  const warn = (details: { err?: Error }) => void warnings.push(details.err?.message ?? '');
  await using h = await engineHarness({ log: { info: () => {}, warn, error: () => {} } });
  const from = h.clock.now();
  await putSchedule(h, {}, 'g#good');
  await putSchedule(h, { intervalMs: 0, cron: '* * * * * *', timeZone: 'UTC' }, 'g#a-bad');
  // The node that took the put had other time zones.
  const { group, name } = { group: 'g', name: '$taskmaster/schedules' };
  const [record] = await h.engine.getTasks({ queue: { group, name }, pids: ['a-bad' as Pid], includeData: true });
  const stored = StoredSchedule.decode(record?.data ?? Buffer.alloc(0));
  const spec = { ...(stored.spec as ScheduleSpec), timeZone: 'Europe/Atlantis' };
  const data = StoredSchedule.encode({ ...stored, spec }).finish();
  const put = updateCommand({
    enqueue: [{ queue: `${group}#${name}`, pid: 'a-bad', mode: EnqueueMode.ENQUEUE_MODE_REPLACE }],
  });
  await h.engine.updates.apply({ ...put, enqueue: put.enqueue.map((item) => ({ ...item, data })) });
  await h.clock.advance(3500);
  expect(await waitingIn(h)).toEqual(runPids(each(from, 3), 'g#good'));
  expect(warnings).toContainEqual(expect.stringContaining('Europe/Atlantis'));
  expect((await scheduleOf(h, 'g#a-bad'))?.nextRuns).toEqual([]);
  expect((await h.engine.schedules.pause(parseQueueName('g#a-bad'), true)).record.paused).toBe(true);
  await h.engine.schedules.trigger(parseQueueName('g#a-bad'));
  expect(await h.engine.schedules.delete(parseQueueName('g#a-bad'))).toBe(true);
});

/** The names on the pages of a listing. */
async function pagesOf(h: EngineHarness, command: Partial<ListSchedulesCommand>): Promise<string[][]> {
  const pages: string[][] = [];
  let after: QueueName | undefined;
  do {
    const all = { group: undefined, name: undefined, nextRuns: 1, limit: 3 };
    const page = await h.engine.schedules.list({ ...all, ...command, after });
    pages.push(page.schedules.map(({ schedule }) => formatQueueName(schedule)));
    after = page.after;
  } while (after !== undefined);
  return pages;
}

test('schedules are listed in pages, in order of their names, as they are now', async () => {
  await using h = await engineHarness();
  const names = Array.from({ length: 7 }, (_, index) => `s${index}`);
  for (const name of names.toReversed()) await putSchedule(h, { intervalMs: HOUR }, `g#${name}`);
  await putSchedule(h, {}, 'other#s');
  await h.clock.advance(1000);
  await h.engine.schedules.delete(parseQueueName('g#s3'));
  expect(await pagesOf(h, { group: 'g' })).toEqual([
    ['g#s0', 'g#s1', 'g#s2'],
    ['g#s4', 'g#s5', 'g#s6'],
  ]);
});

test('schedules of all groups are listed in pages, in the order of their groups', async () => {
  await using h = await engineHarness();
  const names = ['e', 'a#x', 'a#y', 'a#z', 'a-b#x', 'b#x', 'c#x'];
  for (const name of names.toReversed()) {
    await putSchedule(h, { intervalMs: HOUR, queue: `${name}-jobs` }, name);
  }
  await h.engine.schedules.delete(parseQueueName('b#x'));
  expect(await pagesOf(h, { limit: 2 })).toEqual([
    ['e', 'a#x'],
    ['a#y', 'a#z'],
    ['a-b#x', 'c#x'],
  ]);
  expect(await pagesOf(h, { limit: 4 })).toEqual([names.slice(0, 4), ['a-b#x', 'c#x']]);
  expect(await pagesOf(h, { limit: 100 })).toEqual([names.filter((name) => name !== 'b#x')]);
  const isReadable = (group: string): boolean => group !== 'a' && group !== '';
  expect(await pagesOf(h, { limit: 1, isReadable })).toEqual([['a-b#x'], ['c#x']]);
});

test('schedules are neither listed nor counted as queues, and hold no room of them', async () => {
  await using h = await engineHarness({ config: { maxQueues: 1 } });
  await putSchedule(h);
  await h.clock.advance(1100);
  const filter = { group: undefined, matches: undefined } as never;
  const { queues } = await h.engine.listQueues({ filter, limit: 10, after: undefined });
  expect(queues.map(({ queue }) => queue.name)).toEqual(['jobs']);
});
