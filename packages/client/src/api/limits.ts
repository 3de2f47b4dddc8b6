import { methods, type QueueLimit } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import { canonicalName } from '../tasks/new-task.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { type CallOptions, callNames } from '../values/options.ts';
import { rulesOf } from './pauses.ts';

/** What queues are limited to. */
export interface LeaseLimits {
  /** How many tasks of the queues are leased at once, together: 1 to 1,000,000. */
  readonly maxLeased: number;
}

export interface LimitOptions extends LeaseLimits, CallOptions {}

/** A limit of the queues of a group that match a pattern. */
export interface LimitInfo extends LeaseLimits {
  /** `group#pattern`. */
  readonly queues: string;
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

const limitNames: OptionNames<LimitOptions> = { ...callNames, maxLeased: true };

/** @param queues `group#pattern`. */
export async function limitQueues(context: ClientContext, queues: string, options: LimitOptions): Promise<LimitInfo> {
  assertKnown('limit', options, limitNames);
  const { maxLeased } = options;
  if (!Number.isInteger(maxLeased) || maxLeased < 1) {
    throw new TypeError(
      `maxLeased: ${maxLeased} is no whole number of at least 1; to lease no tasks, pause the queues`,
    );
  }
  const { limit } = await context.calls.call(
    methods.limitQueues,
    { queues: canonicalName(queues), maxLeased },
    options,
  );
  if (limit === undefined) throw brokenReply('left out the limit');
  return limitInfo(limit);
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
  limitedBy,
  sinceUnixMs,
  leased,
  usedUpSinceUnixMs,
}: QueueLimit): LimitInfo => ({
  queues,
  maxLeased,
  by: limitedBy,
  since: new Date(sinceUnixMs),
  leased,
  usedUpSince: usedUpSinceUnixMs === 0 ? undefined : new Date(usedUpSinceUnixMs),
});
