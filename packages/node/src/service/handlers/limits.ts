import { type LimitCommand, type LimitOperations, limitMessage } from '@taskmaster/engine/domain';
import { type LeaseRate, type LimitQueuesRequest, limits } from '@taskmaster/proto';
import { type Caller, callerName, type TaskHandlers } from '@taskmaster/server/calls';
import { duration, limitKey, refuse, wholeNumber } from '@taskmaster/server/requests';
import { queuePattern } from './parse-settings.ts';

/** The part of the service about limits of queues. */
export const limitHandlers = ({
  limits: of,
}: {
  readonly limits: LimitOperations;
}): Pick<TaskHandlers, 'limitQueues' | 'unlimitQueues'> => ({
  limitQueues: async (request, caller) => ({ limit: limitMessage(await of.limit(parseLimit(request, caller))) }),
  async unlimitQueues({ queues, keys }) {
    const { removed, limits: others } = await of.unlimit(queuePattern(queues), limitKey(keys, { field: 'keys' }));
    return { removed, limits: others.map(limitMessage) };
  },
});

function parseLimit({ queues, keys, maxLeased, rate }: LimitQueuesRequest, caller: Caller): LimitCommand {
  const parsed = {
    queues: queuePattern(queues),
    keys: limitKey(keys, { field: 'keys' }),
    by: callerName(caller),
    maxLeased: wholeNumber(maxLeased, { field: 'max_leased' }, 0, limits.maxLeased),
    rate: rate && parseRate(rate),
  };
  if (parsed.maxLeased === 0 && parsed.rate === undefined) {
    const problem = 'is 0 and rate is not set, which limits nothing: to lease no tasks, pause the queues';
    refuse('EMPTY_REQUEST', { field: 'max_leased' }, problem);
  }
  return parsed;
}

function parseRate({ tasks, perMs, burst }: LeaseRate): LeaseRate {
  const each = wholeNumber(tasks, { field: 'rate.tasks' }, 1, limits.rateTasks);
  return {
    tasks: each,
    perMs: duration(perMs, { field: 'rate.per_ms' }, 1, limits.ratePeriodMs),
    burst: wholeNumber(burst, { field: 'rate.burst' }, 0, limits.rateTasks) || each,
  };
}
