import { methods, type QueueLimit, type LeaseRate as WireRate } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import { canonicalName } from '../tasks/new-task.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import { type Duration, durationMs } from '../values/duration.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { type CallOptions, callNames } from '../values/options.ts';
import { rulesOf } from './pauses.ts';

/** How many tasks are leased in a time: a bucket of tokens, of which each lease takes one. */
export interface LeaseRate {
  /** How many tasks in each period, 1 to 1,000,000. The tokens come one by one, evenly. */
  readonly tasks: number;
  /** The period, at most a day. */
  readonly per: Duration;
  /** How many tasks may be leased at once after a time without leases, at most 1,000,000. Default: `tasks`. */
  readonly burst?: number | undefined;
}

/** What queues are limited to. At least one of the limits is given. */
export interface LimitOptions extends CallOptions {
  /** How many tasks of the queues are leased at once, together: 1 to 1,000,000. Default: any number. */
  readonly maxLeased?: number | undefined;
  /** How many tasks of the queues are leased in a time, together. Default: any number. */
  readonly rate?: LeaseRate | undefined;
}

/** A limit of the queues of a group that match a pattern. */
export interface LimitInfo {
  /** `group#pattern`. */
  readonly queues: string;
  /** How many tasks of these queues are leased at once. Undefined: any number. */
  readonly maxLeased: number | undefined;
  /** How many are leased in a time, `per` in ms. Undefined: any number. */
  readonly rate: Required<LeaseRate> | undefined;
  /** Who set the limit last: the name of a principal, or an address. */
  readonly by: string;
  /** Since when there is a limit of these queues. */
  readonly since: Date;
  /** How many tasks of these queues are leased now. */
  readonly leased: number;
  /** Since when the limit allows no further lease, but for breaks of less than a second. Undefined: it allows leases. */
  readonly usedUpSince: Date | undefined;
}

export interface UnlimitOutcome {
  /** False: there was no limit of exactly these queues. */
  readonly removed: boolean;
  /** Other limits of these queues. */
  readonly stillLimitedBy: readonly LimitInfo[];
}

const limitNames: OptionNames<LimitOptions> = { ...callNames, maxLeased: true, rate: true };
const rateNames: OptionNames<LeaseRate> = { tasks: true, per: true, burst: true };

/** @param queues `group#pattern`. */
export async function limitQueues(context: ClientContext, queues: string, options: LimitOptions): Promise<LimitInfo> {
  assertKnown('limit', options, limitNames);
  const { maxLeased, rate } = options;
  if (maxLeased === undefined && rate === undefined) throw new TypeError('limit: give maxLeased or rate');
  const request = {
    queues: canonicalName(queues),
    maxLeased: maxLeased === undefined ? 0 : atLeastOne(maxLeased, 'maxLeased'),
    rate: rate && rateMessage(rate),
  };
  const { limit } = await context.calls.call(methods.limitQueues, request, options);
  if (limit === undefined) throw brokenReply('left out the limit');
  return limitInfo(limit);
}

function rateMessage(rate: LeaseRate): WireRate {
  assertKnown('rate', rate, rateNames);
  const { tasks, per, burst } = rate;
  const perMs = durationMs(per, 'rate.per');
  if (perMs < 1) throw new TypeError('rate.per: a period lasts at least 1ms');
  return {
    tasks: atLeastOne(tasks, 'rate.tasks'),
    perMs,
    burst: burst === undefined ? 0 : atLeastOne(burst, 'rate.burst'),
  };
}

/** 0 is refused, because in the protocol it means no limit. */
function atLeastOne(number: number, what: string): number {
  if (Number.isInteger(number) && number >= 1) return number;
  throw new TypeError(`${what}: ${number} is no whole number of at least 1; to lease no tasks, pause the queues`);
}

export async function unlimitQueues(
  context: ClientContext,
  queues: string,
  options: CallOptions,
): Promise<UnlimitOutcome> {
  assertKnown('unlimit', options, callNames);
  const { removed, limits } = await context.calls.call(
    methods.unlimitQueues,
    { queues: canonicalName(queues) },
    options,
  );
  return { removed, stillLimitedBy: limits.map(limitInfo) };
}

export async function listLimits(context: ClientContext, group: string, options: CallOptions): Promise<LimitInfo[]> {
  assertKnown('limits', options, callNames);
  return (await rulesOf(context, group, options)).limits.map(limitInfo);
}

export const limitInfo = ({
  queues,
  maxLeased,
  rate,
  limitedBy,
  sinceUnixMs,
  leased,
  usedUpSinceUnixMs,
}: QueueLimit): LimitInfo => ({
  queues,
  maxLeased: maxLeased === 0 ? undefined : maxLeased,
  rate: rate && { tasks: rate.tasks, per: rate.perMs, burst: rate.burst },
  by: limitedBy,
  since: new Date(sinceUnixMs),
  leased,
  usedUpSince: usedUpSinceUnixMs === 0 ? undefined : new Date(usedUpSinceUnixMs),
});
