import { type ListSchedulesRequest, type ListSchedulesResponse, MissedRuns, type Schedule } from '@taskmaster/proto';
import type { CallerAccess } from '../access/caller-access.ts';
import { numberOf, refusalOfQuery } from './query.ts';
import { jsonReply, type Reply } from './reply.ts';

/** The listing of schedules that HTTP offers. It is validated like calls over gRPC. */
export interface ScheduleReads {
  listSchedules(request: ListSchedulesRequest, access: CallerAccess): Promise<ListSchedulesResponse>;
}

const parameters: ReadonlySet<string> = new Set(['group', 'next_runs', 'limit', 'page_token']);

/** `GET /api/schedules`: a page of schedules. Instants are in ms since 1970. */
export async function schedulesApi(reads: ScheduleReads, query: URLSearchParams, access: CallerAccess): Promise<Reply> {
  const refusal = refusalOfQuery(query, parameters);
  if (refusal !== undefined) return refusal;
  const request = {
    schedule: '',
    group: query.get('group') ?? undefined,
    nextRuns: numberOf(query.get('next_runs') ?? '1'),
    limit: numberOf(query.get('limit') ?? '0'),
    pageToken: query.get('page_token') ?? '',
  };
  const { schedules, nextPageToken, unreachable } = await reads.listSchedules(request, access);
  return jsonReply({
    schedules: schedules.map(scheduleObject),
    nextPageToken,
    ...(unreachable.length > 0 && { unreachable }),
  });
}

const missedRuns: Readonly<Record<number, string>> = {
  [MissedRuns.MISSED_RUNS_SKIP]: 'skip',
  [MissedRuns.MISSED_RUNS_ONCE]: 'once',
  [MissedRuns.MISSED_RUNS_ALL]: 'all',
};

/** A schedule without its data and headers. Fields that are not set are left out. */
function scheduleObject({ schedule, spec, nextRunsUnixMs, lastRunUnixMs, lastPid, ...rest }: Schedule): object {
  return {
    schedule,
    queue: spec?.queue,
    cron: spec?.cron || undefined,
    timeZone: spec?.timeZone || undefined,
    intervalMs: spec?.intervalMs || undefined,
    missedRuns: missedRuns[spec?.missedRuns ?? 0],
    skipWhileRunning: spec?.skipWhileRunning,
    ...rest,
    nextRunsUnixMs,
    lastRunUnixMs: lastRunUnixMs || undefined,
  };
}
