import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  cronProblem,
  isTimeZone,
  nextRun,
  nextRuns,
  runSearch,
  runsOfInterval,
  type ScheduleRule,
} from './schedule-rule.ts';

const at = (text: string): number => Date.parse(text);
const cron = (expression: string, timeZone = 'UTC'): ScheduleRule => ({ kind: 'cron', cron: expression, timeZone });
const runsOf = (rule: ScheduleRule, after: string, most: number): string[] =>
  nextRuns(rule, at(after), most).map((run) => new Date(run).toISOString().replace('.000Z', 'Z'));

describe('a cron expression', () => {
  test.each([
    ['minutes', '*/15 * * * *', 'UTC', ['2026-03-01T00:15:00Z', '2026-03-01T00:30:00Z']],
    ['seconds', '*/10 * * * * *', 'UTC', ['2026-03-01T00:00:10Z', '2026-03-01T00:00:20Z']],
    ['years', '0 0 0 1 1 * 2030', 'UTC', ['2030-01-01T00:00:00Z']],
    ['weekdays', '0 9 * * MON-FRI', 'Europe/Berlin', ['2026-03-02T08:00:00Z', '2026-03-03T08:00:00Z']],
    ['a nickname', '@monthly', 'UTC', ['2026-04-01T00:00:00Z', '2026-05-01T00:00:00Z']],
    ['the last day of a month', '0 0 L * *', 'UTC', ['2026-03-31T00:00:00Z', '2026-04-30T00:00:00Z']],
    ['the weekday nearest to a day', '0 0 15W * *', 'UTC', ['2026-03-16T00:00:00Z', '2026-04-15T00:00:00Z']],
    ['the second Monday', '0 0 * * MON#2', 'UTC', ['2026-03-09T00:00:00Z', '2026-04-13T00:00:00Z']],
    ['either day', '0 0 13 * FRI', 'UTC', ['2026-03-06T00:00:00Z', '2026-03-13T00:00:00Z']],
    ['both days', '0 0 13 * +FRI', 'UTC', ['2026-03-13T00:00:00Z', '2026-11-13T00:00:00Z']],
    ['lists and ranges', '0 8,20 1-2 * *', 'UTC', ['2026-03-01T08:00:00Z', '2026-03-01T20:00:00Z']],
    ['leap years', '0 0 29 2 *', 'UTC', ['2028-02-29T00:00:00Z', '2032-02-29T00:00:00Z']],
    ['the dateline', '0 0 * * *', 'Pacific/Auckland', ['2026-03-01T11:00:00Z', '2026-03-02T11:00:00Z']],
  ])('knows %s', (_what, expression, timeZone, runs) => {
    expect(runsOf(cron(expression, timeZone), '2026-03-01T00:00:00Z', 2)).toEqual(runs);
  });

  test.each([
    ['a time in the gap runs right after the gap', '30 2 * * *', '2026-03-28T12:00:00Z', 2, ['29T01:00', '30T00:30']],
    ['times in the gap are one run', '15,45 2 * * *', '2026-03-28T12:00:00Z', 2, ['29T01:00', '30T00:15']],
    ['steps go on behind the gap', '*/20 * * * *', '2026-03-29T00:30:00Z', 3, ['29T00:40', '29T01:00', '29T01:20']],
  ])('when clocks go forward: %s', (_what, expression, after, most, runs) => {
    const expected = runs.map((run) => `2026-03-${run}:00Z`);
    expect(runsOf(cron(expression, 'Europe/Berlin'), after, most)).toEqual(expected);
  });

  test('a step has no times in the gap', () => {
    expect(runsOf(cron('*/30 2 * * *', 'Europe/Berlin'), '2026-03-28T12:00:00Z', 1)).toEqual(['2026-03-30T00:00:00Z']);
  });

  test.each([
    ['a time that occurs twice runs once', '30 2 * * *', '2026-10-24T12:00:00Z', 2, ['25T00:30', '26T01:30']],
    ['also after it has run', '30 2 * * *', '2026-10-25T00:30:00Z', 1, ['26T01:30']],
    ['also in the hour in between', '30 2 * * *', '2026-10-25T01:10:00Z', 1, ['26T01:30']],
    ['hours by the step run each', '0 * * * *', '2026-10-24T23:30:00Z', 3, ['25T00:00', '25T01:00', '25T02:00']],
  ])('when clocks go back: %s', (_what, expression, after, most, runs) => {
    const expected = runs.map((run) => `2026-10-${run}:00Z`);
    expect(runsOf(cron(expression, 'Europe/Berlin'), after, most)).toEqual(expected);
  });

  test('runs strictly after an instant, also within its second', () => {
    const noon = cron('0 12 * * *');
    expect(nextRun(noon, at('2026-03-01T11:59:59.999Z'))).toBe(at('2026-03-01T12:00:00Z'));
    expect(nextRun(noon, at('2026-03-01T12:00:00.000Z'))).toBe(at('2026-03-02T12:00:00Z'));
    expect(nextRun(noon, at('2026-03-01T12:00:00.500Z'))).toBe(at('2026-03-02T12:00:00Z'));
  });

  test('ends', () => {
    expect(nextRun(cron('0 0 0 1 1 * 2030'), at('2030-01-01T00:00:00Z'))).toBeUndefined();
  });
});

describe('an interval', () => {
  const rule: ScheduleRule = { kind: 'interval', intervalMs: 1000, anchor: 500 };

  test.each([
    [0, 1500],
    [500, 1500],
    [1499, 1500],
    [1500, 2500],
    [2501, 3500],
  ])('after %i runs at %i', (after, run) => {
    expect(nextRun(rule, after)).toBe(run);
  });

  test('has no runs behind the year 9999', () => {
    expect(nextRun(rule, at('9999-12-31T23:59:59.999Z'))).toBeUndefined();
  });
});

test('next runs are listed in the order of time', () => {
  expect(nextRuns({ kind: 'interval', intervalMs: 10, anchor: 0 }, 10, 3)).toEqual([20, 30, 40]);
  expect(nextRuns(cron('* * * * *'), 0, 3)).toEqual([60_000, 120_000, 180_000]);
  expect(nextRuns(cron('* * * * *'), 0, 0)).toEqual([]);
  expect(nextRuns(cron('0 0 0 1 1 * 2030'), 0, 3)).toEqual([at('2030-01-01T00:00:00Z')]);
});

test.each([
  ['none before the first one', 0, 9, undefined],
  ['one at its instant', 0, 10, { count: 1, last: 10 }],
  ['all up to an instant between two', 15, 49, { count: 3, last: 40 }],
  ['none up to the instant after which they are counted', 40, 40, undefined],
])('runs of an interval are counted: %s', (_what, after, until, expected) => {
  expect(runsOfInterval({ kind: 'interval', intervalMs: 10, anchor: 0 }, after, until)).toEqual(expected);
});

test('runs of an interval are counted as a search finds them', () => {
  const numbers = fc.tuple(fc.integer({ min: 100, max: 5000 }), fc.nat(10_000), fc.nat(50_000), fc.nat(50_000));
  fc.assert(
    fc.property(numbers, ([intervalMs, anchor, after, time]) => {
      const rule = { kind: 'interval', intervalMs, anchor } as const;
      const search = runSearch(rule);
      const found: number[] = [];
      for (let run = search(after); run !== undefined && run <= after + time; run = search(run)) found.push(run);
      const expected = found.length === 0 ? undefined : { count: found.length, last: found.at(-1) };
      expect(runsOfInterval(rule, after, after + time)).toEqual(expected);
    }),
    { numRuns: 300, seed: 1 },
  );
});

const expressions = ['* * * * *', '*/7 * * * *', '30 2 * * *', '0 2,3 * * *', '15 1-3 * * SUN', '0 */6 * * *'];
const timeZones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu'];

test('runs do not depend on where the search for them begins', () => {
  const instants = fc.integer({ min: at('2026-01-01T00:00:00Z'), max: at('2027-01-01T00:00:00Z') });
  fc.assert(
    fc.property(
      fc.constantFrom(...expressions),
      fc.constantFrom(...timeZones),
      instants,
      fc.nat(3_600_000),
      (expression, timeZone, from, wait) => {
        const rule = cron(expression, timeZone);
        const search = runSearch(rule);
        const next = search(from) ?? Number.NaN;
        expect(next).toBeGreaterThan(from);
        // From any instant before the run, the same run is next. No run is lost or repeated, also where clocks change.
        const later = Math.min(from + wait, next - 1);
        expect(search(later)).toBe(next);
        // What is remembered of other searches changes nothing.
        expect([nextRun(rule, later), nextRun(rule, from), nextRun(rule, next)]).toEqual([next, next, search(next)]);
      },
    ),
    { numRuns: 200, seed: 1 },
  );
});

test('UTC is a time zone like any other', () => {
  const instants = fc.integer({ min: at('2026-01-01T00:00:00Z'), max: at('2040-01-01T00:00:00Z') });
  const some = fc.constantFrom(...expressions, '0 0 L 2 *', '30 9 15W * *', '59 59 23 31 12 *', '0 0 13 * +FRI');
  fc.assert(
    fc.property(some, instants, (expression, from) => {
      expect(nextRuns(cron(expression), from, 3)).toEqual(nextRuns(cron(expression, 'Etc/UTC'), from, 3));
    }),
    { numRuns: 300, seed: 1 },
  );
});

test.each([
  ['an empty one', '', 'it needs five fields'],
  ['two fields', '* *', 'it needs five fields'],
  ['eight fields', '* * * * * * * *', 'it needs five fields'],
  ['a minute that does not exist', '60 * * * *', 'the minute is 60, not 0 to 59'],
  ['an hour that does not exist', '0 24 * * *', 'the hour is 24, not 0 to 23'],
  ['day 0', '0 0 0 * *', 'the day of month is 0, not 1 to 31'],
  ['day 32', '0 0 32 * *', 'the day of month is 32, not 1 to 31'],
  ['the weekday nearest to day 40', '0 0 40W * *', 'the day of month is 40, not 1 to 31'],
  ['the weekday nearest to no day', '0 0 W * *', 'the day of month is W, not 1 to 31'],
  ['month 0', '0 0 1 0 *', 'the month is 0, not 1 to 12 or JAN to DEC'],
  ['month 13', '0 0 1 13 *', 'the month is 13, not 1 to 12 or JAN to DEC'],
  ['weekday 8', '0 0 * * 8', 'the day of week is 8, not 0 to 7 or SUN to SAT'],
  ['the last weekday of none', '0 0 * * L', 'the day of week is L, not 0 to 7 or SUN to SAT'],
  ['a sixth Monday', '0 0 * * 1#6', 'the number after # is 6, not 1 to 5'],
  ['a Monday without a number', '0 0 * * 1#', '1# is no weekday of a month'],
  ['a year that does not exist', '0 0 0 1 1 * 0', 'the year is 0, not 1970 to 9999'],
  ['a step of zero', '*/0 * * * *', 'the step is 0'],
  ['a long step', '*/61 * * * *', 'the step is larger than the 60 values of its field'],
  ['a step of a number', '5/10 * * * *', '5/10 has a step without a range'],
  ['a step of nothing', '/10 * * * *', '/10 has a step without a range'],
  ['a range backwards', '5-1 * * * *', 'the range 5-1 begins behind its end'],
  ['a range of three', '1-2-3 * * * *', '1-2-3 is no range'],
  ['a range with a step of three', '1-2-3/4 * * * *', '1-2-3/4 is no range'],
  ['a negative number', '-1 * * * *', 'a range or a step is not a number'],
  ['an empty value', '1, * * * *', 'the minute has a comma without a value'],
  ['a word', 'H * * * *', 'the minute has characters that no such field has: H'],
  ['a word as a month', '0 0 * JANU *', 'JANU is no name of a month or weekday'],
  ['a list with LW', '0 0 LW,3 * *', 'LW stands alone'],
  ['a last day with a number', '0 0 5L * *', 'L is a value of its own'],
  ['a range of nearest weekdays', '0 0 1-5W * *', 'W follows one day of month'],
  ['a plus alone', '0 0 * * +', 'no day of week follows the +'],
  ['an event', '@reboot', '@reboot is no time'],
  ['a date', '2030-01-01T00:00:00', 'no ":"'],
  ['a day that no month has', '0 0 30 2 *', 'never runs'],
  ['a year before 1970', '0 0 0 1 1 * 1969', 'never runs'],
])('%s is no expression', (_what, expression, problem) => {
  const said = cronProblem(expression, 'UTC');
  expect(said).toContain(problem);
  expect(said).not.toMatch(/Cron|Syntax|stepping|configuration|dayOfWeek/);
});

test('a good expression has no problem', () => {
  expect(cronProblem('0 9 * * MON-FRI', 'Europe/Berlin')).toBeUndefined();
});

test.each([
  ['Europe/Berlin', true],
  ['UTC', true],
  ['+02:00', true],
  ['Europe/Atlantis', false],
  ['', false],
  ['local', false],
])('time zone %s: %s', (timeZone, known) => {
  expect(isTimeZone(timeZone)).toBe(known);
});

test('a rule that this node cannot use is refused', () => {
  const rule = cron('0 9 * * *', 'Europe/Atlantis');
  expect(() => nextRun(rule, 0)).toThrow(expect.objectContaining({ reason: 'INVALID_SCHEDULE' }));
});
