import { limits, type ScheduleSpec } from '@taskmaster/proto';
import { Cron } from 'croner';
import { Refusal } from '../refusal.ts';

/** When a schedule runs. Instants are in ms since 1970 by the system clock. */
export type ScheduleRule =
  | { readonly kind: 'cron'; readonly cron: string; readonly timeZone: string }
  /** Runs at whole intervals after the anchor. */
  | { readonly kind: 'interval'; readonly intervalMs: number; readonly anchor: number };

export function ruleOf({ cron, timeZone, intervalMs }: ScheduleSpec, anchor: number): ScheduleRule {
  return cron === '' ? { kind: 'interval', intervalMs, anchor } : { kind: 'cron', cron, timeZone };
}

/**
 * The first run after an instant. Undefined: there is none before the year 10000. Throws a `Refusal` if this node cannot use the
 * rule: another release of Node.js may know other time zones.
 */
export function nextRun(rule: ScheduleRule, after: number): number | undefined {
  try {
    return nextOf(rule, after);
  } catch (error) {
    throw new Refusal('INVALID_SCHEDULE', `this node cannot use the rule: ${problemOf(error)}`, { cause: error });
  }
}

function nextOf(rule: ScheduleRule, after: number): number | undefined {
  const next = rule.kind === 'cron' ? cronOf(rule).nextRun(new Date(after))?.getTime() : nextInterval(rule, after);
  return next === undefined || next > limits.runAtUnixMs ? undefined : next;
}

/** What croner says. Rethrows other errors. */
function problemOf(error: unknown): string {
  if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
  return error.message.replace(/^Cron\w*: /, '');
}

/** The first runs after an instant, up to and including `until`: `most` of them. */
export function nextRuns(
  rule: ScheduleRule,
  after: number,
  most: number,
  until: number = Number.POSITIVE_INFINITY,
): number[] {
  const runs: number[] = [];
  for (let last = after; runs.length < most; ) {
    const next = nextRun(rule, last);
    if (next === undefined || next > until) break;
    runs.push(next);
    last = next;
  }
  return runs;
}

/** Why a cron expression cannot be used. Undefined: it can, although all its runs may be past. */
export function cronProblem(cron: string, timeZone: string): string | undefined {
  // croner takes a text with a colon for a date.
  if (cron.includes(':')) return 'a cron expression has no ":"';
  try {
    const first = nextOf({ kind: 'cron', cron, timeZone }, 0);
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
 * A time in the gap of a change to daylight saving runs right after the gap, and a time that occurs twice runs once. This holds
 * for all expressions without wildcard or step in their time, as in Vixie cron. One object takes 80 KB, so none is kept.
 */
const cronOf = ({ cron, timeZone }: { readonly cron: string; readonly timeZone: string }): Cron =>
  new Cron(cron, { timezone: timeZone, paused: true, fixedTimeRule: 'no-wildcard' });

function nextInterval({ intervalMs, anchor }: { readonly intervalMs: number; readonly anchor: number }, after: number) {
  const passed = Math.max(0, Math.floor((after - anchor) / intervalMs));
  return anchor + (passed + 1) * intervalMs;
}
