import type { ListSchedulesCommand } from '@taskmaster/engine/domain';
import { type ListSchedulesRequest, limits, type QueueName } from '@taskmaster/proto';
import { refuse, wholeNumber } from './checks.ts';
import { parsePageToken } from './page-token.ts';
import { groupName, queueName } from './queue-names.ts';

const DEFAULT_LIST_LIMIT = 100;

export const scheduleName = (full: string): QueueName => queueName(full, { field: 'schedule' });

/** Throws a `Refusal` unless the engine can take the request as it is. */
export function parseListSchedules(request: ListSchedulesRequest): ListSchedulesCommand {
  const { group, name } = parseChoice(request);
  const limit = wholeNumber(request.limit, { field: 'limit' }, 0, limits.listSchedules);
  const after = parsePageToken(request.pageToken);
  if (after !== undefined && group !== undefined && after.group !== group) {
    refuse('INVALID_PAGE_TOKEN', { field: 'page_token' }, 'is of another group');
  }
  const nextRuns = wholeNumber(request.nextRuns, { field: 'next_runs' }, 0, limits.listNextRuns);
  return { group, name, nextRuns, limit: limit === 0 ? DEFAULT_LIST_LIMIT : limit, after };
}

function parseChoice({ schedule, group }: ListSchedulesRequest): Pick<ListSchedulesCommand, 'group' | 'name'> {
  if (schedule === '') return { group: group && groupName(group, { field: 'group' }), name: undefined };
  if (group === undefined) return scheduleName(schedule);
  return refuse('INVALID_ARGUMENT', { field: 'group' }, 'is set beside schedule: give one of them');
}
