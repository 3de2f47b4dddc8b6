import { expect, test } from 'vitest';
import { nextRun, runSearch, type ScheduleRule } from './schedule-rule.ts';

/*
 * An oracle over all time zones that Node.js knows. It finds the changes of each zone by itself, draws the wall clock as pieces
 * of constant offset, and walks over the wall times of simple rules. It shares nothing with the code under test but `Intl`.
 */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const FROM = Date.UTC(2003, 0, 1);
const UNTIL = Date.UTC(2033, 0, 1);

interface Piece {
  readonly from: number;
  readonly until: number;
  /** Wall clock minus UTC. */
  readonly offset: number;
}

/** The offset of a zone in ms, from its name in `Intl` (`GMT+05:45`). */
function offsetIn(format: Intl.DateTimeFormat, at: number): number {
  const name = format.format(at).split('GMT')[1] ?? '';
  const [, sign, hours, minutes = '0', seconds = '0'] = /^([+-])(\d\d):?(\d\d)?:?(\d\d)?$/.exec(name) ?? [];
  if (sign === undefined) return 0;
  const size = Number(hours) * HOUR + Number(minutes) * MINUTE + Number(seconds) * SECOND;
  return sign === '-' ? -size : size;
}

/** The pieces of constant offset, to the second. Changes that are taken back within a week are not seen: none exist. */
function piecesOf(timeZone: string): readonly Piece[] {
  const format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset', year: 'numeric' });
  const pieces: Piece[] = [];
  let from = FROM;
  let offset = offsetIn(format, FROM);
  for (let at = FROM; at < UNTIL; ) {
    const step = Math.min(at + 7 * DAY, UNTIL);
    if (offsetIn(format, step) === offset) {
      at = step;
      continue;
    }
    let same = at;
    let other = step;
    while (other - same > SECOND) {
      const middle = same + Math.floor((other - same) / (2 * SECOND)) * SECOND;
      if (offsetIn(format, middle) === offset) same = middle;
      else other = middle;
    }
    pieces.push({ from, until: other, offset });
    from = other;
    offset = offsetIn(format, other);
    at = other;
  }
  return [...pieces, { from, until: UNTIL, offset }];
}

/** The first multiple of `step` plus `phase` at or after a time. */
const firstOf = (time: number, step: number, phase: number): number => Math.ceil((time - phase) / step) * step + phase;

/** Runs of a rule with a fixed time of each day, from `from` on: the first instants at which the wall clock has reached it. */
function dailyRuns(pieces: readonly Piece[], from: number, until: number, phase: number): number[] {
  const runs: number[] = [];
  let reached = Number.NEGATIVE_INFINITY;
  for (const piece of pieces) {
    const first = piece.from + piece.offset;
    const last = piece.until + piece.offset;
    if (reached === Number.NEGATIVE_INFINITY) reached = first;
    for (let wall = firstOf(reached, DAY, phase); wall < last; wall += DAY) {
      runs.push(Math.max(wall - piece.offset, piece.from));
    }
    reached = Math.max(reached, last);
  }
  return [...new Set(runs)].filter((run) => run > from && run <= until);
}

/** Runs of a rule with a step: each instant at which the wall clock shows one of its times. */
function stepRuns(pieces: readonly Piece[], from: number, until: number, step: number): number[] {
  const runs: number[] = [];
  for (const piece of pieces) {
    const first = Math.max(piece.from, from + 1) + piece.offset;
    const last = Math.min(piece.until - 1, until) + piece.offset;
    for (let wall = firstOf(first, step, 0); wall <= last; wall += step) runs.push(wall - piece.offset);
  }
  return runs;
}

function foundRuns(rule: ScheduleRule, from: number, until: number): number[] {
  const search = runSearch(rule);
  const runs: number[] = [];
  for (let run = search(from); run !== undefined && run <= until; run = search(run)) runs.push(run);
  return runs;
}

interface Change {
  readonly at: number;
  readonly timeZone: string;
  readonly pieces: readonly Piece[];
  readonly jump: number;
  /** Wall time of the day at which the change begins. */
  readonly time: number;
}

/** The changes of a zone, without those at the ends of what is searched. */
function changesOf(timeZone: string): readonly Change[] {
  const pieces = piecesOf(timeZone);
  return pieces.flatMap((piece, index) => {
    const before = pieces[index - 1];
    if (before === undefined || piece.from - 3 * DAY < FROM || piece.from + 3 * DAY > UNTIL) return [];
    const wall = piece.from + before.offset;
    const time = ((wall % DAY) + DAY) % DAY;
    return [{ at: piece.from, timeZone, pieces, jump: piece.offset - before.offset, time }];
  });
}

/** Some changes of each kind: of each length, at each time of the day. */
function someOfEach(changes: readonly Change[], most: number): readonly Change[] {
  const kinds = Map.groupBy(changes, ({ jump, time }) => `${jump} ${time}`);
  return [...kinds.values()].flatMap((same) => {
    const step = Math.max(1, same.length / most);
    return Array.from({ length: Math.min(most, same.length) }, (_, n) => same[Math.floor(n * step)]).filter(
      (change) => change !== undefined,
    );
  });
}

const text = (run: number): string => new Date(run).toISOString();

const zones = [...Intl.supportedValuesOf('timeZone'), 'UTC', '+02:00', '-09:30'];
const changes = zones.flatMap(changesOf);
test('the oracle sees the changes of all zones', () => {
  expect(zones.length).toBeGreaterThan(400);
  expect(changes.length).toBeGreaterThan(5_000);
  // Gaps that begin at midnight, that end at midnight, that skip a day, and clocks that go back over midnight.
  const some = (is: (change: Change) => boolean): boolean => changes.some(is);
  expect(some(({ jump, time }) => jump > 0 && jump < DAY && time === 0)).toBe(true);
  expect(some(({ jump, time }) => jump > 0 && time + jump === DAY)).toBe(true);
  expect(some(({ jump }) => jump === DAY)).toBe(true);
  expect(some(({ jump, time }) => jump < 0 && time === 0)).toBe(true);
});

test('no run at a fixed time is lost, doubled or moved where clocks change, in any zone', () => {
  const wrong: string[] = [];
  let seen = 0;
  for (const { at, timeZone, pieces, time, jump } of someOfEach(changes, 2)) {
    const from = at - 2 * DAY;
    const until = at + 2 * DAY;
    // Times before, at, in and after what is skipped or repeated.
    const size = Math.abs(jump);
    const edge = Math.min(time, time + jump);
    const wanted = [edge - MINUTE, edge, edge + size / 2, edge + size - MINUTE, edge + size, edge + size + MINUTE, 0];
    const minutes = new Set(wanted.map((wall) => Math.floor((((wall % DAY) + DAY) % DAY) / MINUTE)));
    for (const minute of minutes) {
      const cron = `${minute % 60} ${Math.floor(minute / 60)} * * *`;
      const expected = dailyRuns(pieces, from, until, minute * MINUTE).map(text);
      const found = foundRuns({ kind: 'cron', cron, timeZone }, from, until).map(text);
      if (found.join() !== expected.join()) wrong.push(`${timeZone} ${cron}: ${found.join()} but ${expected.join()}`);
      seen += expected.length;
    }
  }
  expect(wrong).toEqual([]);
  expect(seen).toBeGreaterThan(1_000);
});

test('a step follows the time that passes where clocks change, in any zone', () => {
  const wrong: string[] = [];
  for (const { at, timeZone, pieces } of someOfEach(changes, 4)) {
    const from = at - 5 * HOUR;
    const until = at + 5 * HOUR;
    const expected = stepRuns(pieces, from, until, 30 * MINUTE).map(text);
    const found = foundRuns({ kind: 'cron', cron: '*/30 * * * *', timeZone }, from, until).map(text);
    if (found.join() !== expected.join())
      wrong.push(`${timeZone} at ${text(at)}: ${found.join()} but ${expected.join()}`);
  }
  expect(wrong).toEqual([]);
});

test.each([
  // 23:30 does not exist on Saturday 29 March: clocks go from 23:00 to Sunday 0:00.
  ['30 23 * * *', 'America/Nuuk', '2025-03-29T12:00:00Z', ['2025-03-30T01:00:00.000Z', '2025-03-31T00:30:00.000Z']],
  ['30 23 * * SAT', 'America/Nuuk', '2025-03-29T12:00:00Z', ['2025-03-30T01:00:00.000Z', '2025-04-06T00:30:00.000Z']],
  ['0 23 29 3 *', 'America/Nuuk', '2025-01-01T00:00:00Z', ['2025-03-30T01:00:00.000Z', '2026-03-30T00:00:00.000Z']],
  // 30 December does not exist.
  ['0 12 30 * *', 'Pacific/Apia', '2011-12-01T00:00:00Z', ['2011-12-30T10:00:00.000Z', '2012-01-29T22:00:00.000Z']],
])('%s in %s runs after a gap that ends with the day', (cron, timeZone, after, expected) => {
  const rule: ScheduleRule = { kind: 'cron', cron, timeZone };
  const first = nextRun(rule, Date.parse(after)) ?? Number.NaN;
  expect([text(first), text(nextRun(rule, first) ?? Number.NaN)]).toEqual(expected);
});
