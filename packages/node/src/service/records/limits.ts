import { type LimitCommand, type LimitOperations, limitMessage } from '@taskmaster/engine/domain';
import { type LimitQueuesRequest, limits } from '@taskmaster/proto';
import { type Caller, callerName, type TaskHandlers } from '@taskmaster/server/calls';
import { refuse, wholeNumber } from '@taskmaster/server/requests';
import { queuePattern } from './parse-settings.ts';

/** The part of the service about limits of queues. */
export const limitHandlers = ({
  limits: of,
}: {
  readonly limits: LimitOperations;
}): Pick<TaskHandlers, 'limitQueues' | 'unlimitQueues'> => ({
  limitQueues: async (request, caller) => ({ limit: limitMessage(await of.limit(parseLimit(request, caller))) }),
  async unlimitQueues({ queues }) {
    const { removed, limits: others } = await of.unlimit(queuePattern(queues));
    return { removed, limits: others.map(limitMessage) };
  },
});

function parseLimit({ queues, maxLeased }: LimitQueuesRequest, caller: Caller): LimitCommand {
  const parsed = {
    queues: queuePattern(queues),
    by: callerName(caller),
    maxLeased: wholeNumber(maxLeased, { field: 'max_leased' }, 0, limits.maxLeased),
  };
  if (parsed.maxLeased === 0) {
    refuse('EMPTY_REQUEST', { field: 'max_leased' }, 'is 0, which limits nothing: to lease no tasks, pause the queues');
  }
  return parsed;
}
