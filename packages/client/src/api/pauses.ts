import { formatQueueName, methods, type QueuePause } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import { canonicalName, queuesPattern } from '../tasks/new-task.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import { type Duration, dateMs, durationMs } from '../values/duration.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { type CallOptions, callNames } from '../values/options.ts';

export interface PauseOptions extends CallOptions {
  /** Why, at most 256 bytes. Default: no reason. */
  readonly reason?: string | undefined;
  /** How long the pause lasts, at most a year. Default: until the queues are resumed. */
  readonly for?: Duration | undefined;
  /** When the pause ends by the node's clock, instead of `for`. */
  readonly until?: Date | undefined;
}

/** A pause of the queues of a group that match a pattern. */
export interface PauseInfo {
  /** `group#pattern`. */
  readonly queues: string;
  /** Undefined: no reason was given. */
  readonly reason: string | undefined;
  /** Who paused the queues last: the name of a principal, or an address. */
  readonly by: string;
  /** Since when they are paused. */
  readonly since: Date;
  /** When the pause ends by itself. Undefined: it lasts until the queues are resumed. */
  readonly until: Date | undefined;
}

export interface ResumeOutcome {
  /** False: there was no pause of exactly these queues. */
  readonly resumed: boolean;
  /** Other pauses that keep these queues paused. */
  readonly stillPausedBy: readonly PauseInfo[];
}

const pauseNames: OptionNames<PauseOptions> = { ...callNames, reason: true, for: true, until: true };

/** @param queues `group#pattern`. */
export async function pauseQueues(context: ClientContext, queues: string, options: PauseOptions): Promise<PauseInfo> {
  assertKnown('pause', options, pauseNames);
  const { reason = '', for: length, until } = options;
  if (length !== undefined && until !== undefined) throw new TypeError('pause: give for or until, not both');
  const request = {
    queues: queuesPattern(queues),
    reason,
    durationMs: length === undefined ? 0 : pauseMs(length),
    untilUnixMs: until === undefined ? 0 : dateMs(until, 'until'),
  };
  const { pause } = await context.calls.call(methods.pauseQueues, request, options);
  if (pause === undefined) throw brokenReply('left out the pause');
  return pauseInfo(pause);
}

export async function resumeQueues(
  context: ClientContext,
  queues: string,
  options: CallOptions,
): Promise<ResumeOutcome> {
  assertKnown('resume', options, callNames);
  const request = { queues: canonicalName(queues) };
  const { resumed, pauses } = await context.calls.call(methods.resumeQueues, request, options);
  return { resumed, stillPausedBy: pauses.map(pauseInfo) };
}

export async function listPauses(context: ClientContext, group: string, options: CallOptions): Promise<PauseInfo[]> {
  assertKnown('pauses', options, callNames);
  return (await rulesOf(context, group, options)).pauses.map(pauseInfo);
}

/** The settings, pauses and limits of a group. */
export const rulesOf = (context: ClientContext, group: string, options: CallOptions) =>
  context.calls.call(methods.listQueueSettings, { queue: formatQueueName({ group, name: '' }) }, options);

/** A pause of 0 ms is refused, because in the protocol it means one without an end. */
function pauseMs(length: Duration): number {
  const ms = durationMs(length, 'for');
  if (ms < 1) throw new TypeError('for: a pause lasts at least 1ms');
  return ms;
}

export const pauseInfo = ({ queues, reason, pausedBy, sinceUnixMs, untilUnixMs }: QueuePause): PauseInfo => ({
  queues,
  reason: reason === '' ? undefined : reason,
  by: pausedBy,
  since: new Date(sinceUnixMs),
  until: untilUnixMs === 0 ? undefined : new Date(untilUnixMs),
});
