import { MissedRuns } from '@taskmaster/proto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ScheduleRule } from '../domain/schedules/schedule-rule.ts';
import { type DueRuns, dueRuns, RUNS_AT_ONCE } from './due-runs.ts';

const { MISSED_RUNS_ALL: all, MISSED_RUNS_ONCE: once, MISSED_RUNS_SKIP: skip } = MissedRuns;
const everyMinute: ScheduleRule = { kind: 'interval', intervalMs: 60_000, anchor: 0 };
const at = (now: number) => ({ now, isTimeUp: () => false });
const minutes = (...counts: number[]): number[] => counts.map((count) => count * 60_000);

test.each([
  ['nothing is due before the next run', all, 60_000, 119_999, [], 0, 60_000],
  ['a run is due at its instant', skip, 60_000, 120_000, minutes(2), 0, 120_000],
  ['a late run is enqueued', skip, 60_000, 179_999, minutes(2), 0, 120_000],
  ['all missed runs are enqueued', all, 60_000, 300_000, minutes(2, 3, 4, 5), 0, 300_000],
  ['only the latest missed run is enqueued', once, 60_000, 300_000, minutes(5), 3, 300_000],
  ['the latest run is not missed if it is in time', skip, 60_000, 300_000, minutes(5), 3, 300_000],
  ['the clock goes back behind a run that is decided', all, 300_000, 120_000, [], 0, 300_000],
])('%s', (_what, missedRuns, decided, now, enqueue, missed, after) => {
  const runs = dueRuns(everyMinute, missedRuns, decided, at(now));
  expect(runs).toEqual({ enqueue, missed, decided: after, next: after + 60_000 });
});

test('a run that is more than a minute late is skipped', () => {
  const everyHour: ScheduleRule = { kind: 'interval', intervalMs: 3_600_000, anchor: 0 };
  expect(dueRuns(everyHour, skip, 0, at(3_600_000 + 60_000))).toMatchObject({ enqueue: [3_600_000], missed: 0 });
  expect(dueRuns(everyHour, skip, 0, at(3_600_000 + 60_001))).toMatchObject({ enqueue: [], missed: 1 });
  expect(dueRuns(everyHour, once, 0, at(3_600_000 + 60_001))).toMatchObject({ enqueue: [3_600_000], missed: 0 });
});

test('a rule without further runs has no next one', () => {
  const last: ScheduleRule = { kind: 'cron', cron: '0 0 0 1 1 * 2030', timeZone: 'UTC' };
  const run = Date.parse('2030-01-01T00:00:00Z');
  expect(dueRuns(last, once, run - 1, at(run))).toEqual({ enqueue: [run], missed: 0, decided: run, next: undefined });
});

/** Decides as the engine does: until no run is due. */
function decideAll(rule: ScheduleRule, missedRuns: MissedRuns, from: number, now: number) {
  const enqueued: number[] = [];
  let missed = 0;
  let decisions = 0;
  let decided = from;
  for (let isBehind = true; isBehind; decisions++) {
    const runs = dueRuns(rule, missedRuns, decided, at(now));
    enqueued.push(...runs.enqueue);
    missed += runs.missed;
    decided = runs.decided;
    isBehind = runs.next !== undefined && runs.next <= now;
  }
  return { enqueued, missed, decided, decisions };
}

test('many missed runs are decided in several steps', () => {
  const count = 2 * RUNS_AT_ONCE + 1;
  const now = count * 60_000;
  const decidedAll = decideAll(everyMinute, all, 0, now);
  expect(decidedAll).toMatchObject({ missed: 0, decided: now, decisions: 3 });
  expect(decidedAll.enqueued).toEqual(Array.from({ length: count }, (_, index) => (index + 1) * 60_000));
});

test('of runs that are not enqueued, those of an interval are decided in one step, however many', () => {
  const every100: ScheduleRule = { kind: 'interval', intervalMs: 100, anchor: 0 };
  const week = 7 * 86_400_000;
  const all = week / 100;
  expect(decideAll(every100, once, 0, week + 50)).toEqual({
    enqueued: [week],
    missed: all - 1,
    decided: week,
    decisions: 1,
  });
  expect(decideAll(every100, skip, 0, week + 50)).toMatchObject({ enqueued: [week], missed: all - 1, decisions: 1 });
});

test.each([
  ['once', once, 1],
  ['skip', skip, 1],
  ['all', all, 241],
])(
  'a decision about an expression ends when its time is up, and the next one goes on: %s',
  (_what, policy, enqueued) => {
    const rule: ScheduleRule = { kind: 'cron', cron: '* * * * *', timeZone: 'Europe/Berlin' };
    const now = 241 * 60_000;
    let left = 0;
    // Some runs, then none: each decision makes at least one.
    const isTimeUp = (): boolean => left-- <= 0;
    const steps: DueRuns[] = [];
    for (let decided = 0, isBehind = true; isBehind; ) {
      left = steps.length % 2 === 0 ? 30 : 0;
      const step = dueRuns(rule, policy, decided, { now, isTimeUp });
      steps.push(step);
      expect(step.decided).toBeGreaterThan(decided);
      decided = step.decided;
      isBehind = step.next !== undefined && step.next <= now;
    }
    const found = steps.flatMap(({ enqueue }) => enqueue);
    expect(found).toHaveLength(enqueued);
    expect(new Set(found).size).toBe(enqueued);
    expect(found.at(-1)).toBe(now);
    expect(steps.reduce((sum, { missed }) => sum + missed, 0)).toBe(241 - enqueued);
    expect(steps.length).toBeGreaterThan(10);
  },
);

test('whenever it looks, and wherever the clock goes, each run is decided once', () => {
  const looks = fc.array(fc.integer({ min: 0, max: 3_600_000 }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(looks, fc.constantFrom(all, once, skip), (times, missedRuns) => {
      let decided = 0;
      let missed = 0;
      const enqueued: number[] = [];
      for (const now of times) {
        const step = decideAll(everyMinute, missedRuns, decided, now);
        decided = step.decided;
        missed += step.missed;
        enqueued.push(...step.enqueued);
      }
      const latest = Math.max(...times);
      expect(decided).toBe(latest < 60_000 ? 0 : Math.floor(latest / 60_000) * 60_000);
      expect(new Set(enqueued).size).toBe(enqueued.length);
      expect(enqueued).toEqual(enqueued.toSorted((a, b) => a - b));
      expect(enqueued.length + missed).toBe(decided / 60_000);
      if (missedRuns === all) expect(missed).toBe(0);
    }),
    { numRuns: 200, seed: 1 },
  );
});
