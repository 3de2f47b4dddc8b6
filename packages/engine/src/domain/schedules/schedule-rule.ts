import { limits, type ScheduleSpec } from '@taskmaster/proto';
import { Cron, CronPattern } from 'croner';
import { Refusal } from '../refusal.ts';
import { plainCronProblem } from './cron-problem.ts';
import { KnownGaps } from './known-gaps.ts';
import { WallClock, type WallSearch } from './wall-clock.ts';

/** When a schedule runs. Instants are in ms since 1970 by the system clock. */
export type ScheduleRule =
  | { readonly kind: 'cron'; readonly cron: string; readonly timeZone: string }
  /** Runs at whole intervals after the anchor. */
  | { readonly kind: 'interval'; readonly intervalMs: number; readonly anchor: number };

const knownGaps = new KnownGaps();

export function ruleOf({ cron, timeZone, intervalMs }: ScheduleSpec, anchor: number): ScheduleRule {
  return cron === '' ? { kind: 'interval', intervalMs, anchor } : { kind: 'cron', cron, timeZone };
}

/** Finds the first run after an instant. Undefined: there is none before the year 10000. */
type RunSearch = (after: number) => number | undefined;

/**
 * A search for several runs of a rule, which is parsed once. It throws a `Refusal` if this node cannot use the rule: another
 * release of Node.js may know other time zones.
 */
export function runSearch(rule: ScheduleRule): RunSearch {
  const search = refusing(() => searchOf(rule));
  return (after) => refusing(() => search(after));
}

/** As the search, for one run. It knows the rules that were asked for lately: many schedules may have the same one. */
export function nextRun(rule: ScheduleRule, after: number): number | undefined {
  if (rule.kind === 'interval') return nextInterval(rule, after);
  return knownGaps.next(`${rule.timeZone} ${rule.cron}`, after, () => runSearch(rule)(after));
}

/** The first runs after an instant: `most` of them. */
export function nextRuns(rule: ScheduleRule, after: number, most: number): number[] {
  const runs: number[] = [];
  const first = most > 0 ? nextRun(rule, after) : undefined;
  if (first === undefined) return runs;
  runs.push(first);
  const search = runSearch(rule);
  for (let last = first; runs.length < most; ) {
    const next = search(last);
    if (next === undefined) break;
    runs.push(next);
    last = next;
  }
  return runs;
}

/** How many runs of an interval are after an instant, up to and including `until`, and the last one. Undefined: none. */
export function runsOfInterval(
  rule: Extract<ScheduleRule, { readonly kind: 'interval' }>,
  after: number,
  until: number,
): { readonly count: number; readonly last: number } | undefined {
  const first = nextInterval(rule, after);
  const end = Math.min(until, limits.runAtUnixMs);
  if (first === undefined || first > end) return undefined;
  const further = Math.floor((end - first) / rule.intervalMs);
  return { count: 1 + further, last: first + further * rule.intervalMs };
}

function searchOf(rule: ScheduleRule): RunSearch {
  if (rule.kind === 'interval') return (after) => nextInterval(rule, after);
  const cron = cronOf(rule.cron);
  const search: WallSearch = (after) => cron.nextRun(new Date(after))?.getTime();
  if (rule.timeZone === 'UTC') return (after) => withinTime(search(after));
  const clock = WallClock.of(rule.timeZone);
  return isFixedTime(rule.cron)
    ? (after) => withinTime(clock.firstReached(search, after))
    : (after) => withinTime(clock.firstShown(search, after));
}

function refusing<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Refusal('INVALID_SCHEDULE', `this node cannot use the rule: ${problemOf(error)}`, { cause: error });
  }
}

const withinTime = (run: number | undefined): number | undefined =>
  run === undefined || run > limits.runAtUnixMs ? undefined : run;

/** What croner says. Rethrows other errors. */
function problemOf(error: unknown): string {
  if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
  return plainCronProblem(error.message);
}

/** Why a cron expression cannot be used. Undefined: it can, although all its runs may be past. */
export function cronProblem(cron: string, timeZone: string): string | undefined {
  // croner takes a text with a colon for a date.
  if (cron.includes(':')) return 'a cron expression has no ":"';
  try {
    const first = searchOf({ kind: 'cron', cron, timeZone })(0);
    return first === undefined ? 'it never runs' : undefined;
  } catch (error) {
    return problemOf(error);
  }
}

export function isTimeZone(timeZone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone });
    return true;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return false;
  }
}

/**
 * The wall times of a cron expression, as instants of UTC. `WallClock` tells when a time zone has them: in croner's own search of
 * a time zone, runs in some gaps are lost with their day. One object takes 80 KB, so none is kept.
 */
const cronOf = (cron: string): Cron => new Cron(cron, { utcOffset: 0, paused: true });

/**
 * Expressions without wildcard or step in their time have fixed times, as in Vixie cron: a time in the gap of a change to
 * daylight saving runs right after the gap, and a time that occurs twice runs once. Others follow the time that passes.
 */
const isFixedTime = (cron: string): boolean =>
  new CronPattern(cron, undefined, { fixedTimeRule: 'no-wildcard' }).isFixedTime;

function nextInterval({ intervalMs, anchor }: { readonly intervalMs: number; readonly anchor: number }, after: number) {
  const passed = Math.max(0, Math.floor((after - anchor) / intervalMs));
  return withinTime(anchor + (passed + 1) * intervalMs);
}
