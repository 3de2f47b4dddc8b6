import { methods, type QueueLimit, type LeaseRate as WireRate } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import { canonicalName, queuesPattern } from '../tasks/new-task.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import { type Duration, durationMs } from '../values/duration.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { type CallOptions, callNames } from '../values/options.ts';
import { someText } from '../values/some-text.ts';
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

/** Names the keys of a limit. */
export interface LimitKeysOptions extends CallOptions {
  /**
   * A pattern of limit keys, in which `*` stands for any number of characters: it is a limit of each key that matches, one by
   * one, shared by all these queues. Default: it is one limit of all tasks together.
   */
  readonly keys?: string | undefined;
}

/** What queues are limited to. At least one of the limits is given. */
export interface LimitOptions extends LimitKeysOptions {
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
  /** The pattern of the keys that are limited one by one. Undefined: it is a limit of all tasks together. */
  readonly keys: string | undefined;
  /** Of a limit of keys: up to 20 keys whose tasks are held back, first those that are for the longest time. */
  readonly heldKeys: readonly HeldKey[];
  /** How many such keys there are. */
  readonly heldKeyCount: number;
  /**
   * How many available tasks with these keys there are. After a restart or a move of the group, a key with more than 500 tasks
   * may count only its first ones.
   */
  readonly heldTasks: number;
}

/** A limit key whose tasks a limit holds back. */
export interface HeldKey {
  readonly key: string;
  /** How many tasks with the key are leased now. */
  readonly leased: number;
  readonly usedUpSince: Date;
  /** How many available tasks with the key there are, counted like `heldTasks`. */
  readonly available: number;
}

export interface UnlimitOutcome {
  /** False: there was no limit of exactly these queues. */
  readonly removed: boolean;
  /** Other limits of these queues. */
  readonly stillLimitedBy: readonly LimitInfo[];
}

const keysNames: OptionNames<LimitKeysOptions> = { ...callNames, keys: true };
const limitNames: OptionNames<LimitOptions> = { ...keysNames, maxLeased: true, rate: true };
const rateNames: OptionNames<LeaseRate> = { tasks: true, per: true, burst: true };

/** @param queues `group#pattern`. */
export async function limitQueues(context: ClientContext, queues: string, options: LimitOptions): Promise<LimitInfo> {
  assertKnown('limit', options, limitNames);
  const { maxLeased, rate } = options;
  if (maxLeased === undefined && rate === undefined) throw new TypeError('limit: give maxLeased or rate');
  const request = {
    queues: queuesPattern(queues),
    maxLeased: maxLeased === undefined ? 0 : atLeastOne(maxLeased, 'maxLeased'),
    rate: rate && rateMessage(rate),
    keys: someText('keys', options.keys),
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
  options: LimitKeysOptions,
): Promise<UnlimitOutcome> {
  assertKnown('unlimit', options, keysNames);
  const request = { queues: canonicalName(queues), keys: someText('keys', options.keys) };
  const { removed, limits } = await context.calls.call(methods.unlimitQueues, request, options);
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
  keys,
  heldKeys,
  heldKeyCount,
  heldTasks,
}: QueueLimit): LimitInfo => ({
  queues,
  maxLeased: maxLeased === 0 ? undefined : maxLeased,
  rate: rate && { tasks: rate.tasks, per: rate.perMs, burst: rate.burst },
  by: limitedBy,
  since: new Date(sinceUnixMs),
  leased,
  usedUpSince: usedUpSinceUnixMs === 0 ? undefined : new Date(usedUpSinceUnixMs),
  keys: keys === '' ? undefined : keys,
  heldKeys: heldKeys.map(({ usedUpSinceUnixMs: since, ...held }) => ({ ...held, usedUpSince: new Date(since) })),
  heldKeyCount,
  heldTasks,
});
