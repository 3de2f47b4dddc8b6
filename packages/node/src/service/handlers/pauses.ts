import type { Instant, PauseCommand, PauseOperations, PauseRecord } from '@taskmaster/engine/domain';
import { limits, type PauseQueuesRequest, type QueuePause } from '@taskmaster/proto';
import { type Caller, callerName, type TaskHandlers } from '@taskmaster/server/calls';
import { duration, refuse, textAtMost, wholeNumber } from '@taskmaster/server/requests';
import { queuePattern } from './parse-settings.ts';

/** The part of the service about pauses of queues. */
export const pauseHandlers = ({
  pauses: of,
}: {
  readonly pauses: PauseOperations;
}): Pick<TaskHandlers, 'pauseQueues' | 'resumeQueues'> => ({
  pauseQueues: async (request, caller) => ({ pause: (await of.pause(parsePause(request, caller))).message }),
  async resumeQueues({ queues }) {
    const { resumed, pauses } = await of.resume(queuePattern(queues));
    return { resumed, pauses: pauseMessages(pauses) };
  },
});

export const pauseMessages = (pauses: readonly PauseRecord[]): QueuePause[] => pauses.map(({ message }) => message);

function parsePause({ queues, reason, durationMs, untilUnixMs }: PauseQueuesRequest, caller: Caller): PauseCommand {
  const parsed = {
    queues: queuePattern(queues),
    reason: textAtMost(reason, { field: 'reason' }, limits.pauseReasonBytes),
    by: callerName(caller),
    durationMs: duration(durationMs, { field: 'duration_ms' }, 0, limits.pauseMs) || undefined,
    until: (wholeNumber(untilUnixMs, { field: 'until_unix_ms' }, 0, limits.runAtUnixMs) || undefined) as
      | Instant
      | undefined,
  };
  if (parsed.durationMs !== undefined && parsed.until !== undefined) {
    refuse('INVALID_ARGUMENT', { field: 'until_unix_ms' }, 'is given beside duration_ms');
  }
  return parsed;
}
