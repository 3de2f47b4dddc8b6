import type { ScheduleEngine, ScheduleView } from '@taskmaster/engine/domain';
import { formatQueueName, Schedule, ScheduleSpec } from '@taskmaster/proto';
import type { CallerAccess } from '@taskmaster/server/access';
import type { TaskHandlers } from '@taskmaster/server/calls';
import { pageTokenAfter, parseListSchedules, scheduleName } from '@taskmaster/server/requests';
import { parsePutSchedule } from './parse-schedule.ts';

const NOTHING = new Uint8Array(0);

/** The part of the service about schedules. */
type ScheduleHandlers = Pick<
  TaskHandlers,
  'putSchedule' | 'listSchedules' | 'deleteSchedule' | 'pauseSchedule' | 'triggerSchedule'
>;

export function scheduleHandlers({ schedules }: { readonly schedules: ScheduleEngine }): ScheduleHandlers {
  return {
    async putSchedule(request, { access }) {
      const command = parsePutSchedule(request);
      const { result, view } = await schedules.put(command);
      // The caller has given the spec itself.
      return { result, schedule: { ...shownTo(access, view), spec: view.record.spec } };
    },
    async listSchedules(request, { access }) {
      const command = parseListSchedules(request);
      if (command.group === undefined) access.requireIdentity();
      else access.require('read', command.group);
      const isReadable = (group: string): boolean => access.allows('read', group);
      const page = await schedules.list({ ...command, isReadable });
      return {
        schedules: page.schedules.map(scheduleMessage),
        nextPageToken: page.after === undefined ? '' : pageTokenAfter(page.after),
        unreachable: [],
      };
    },
    deleteSchedule: async ({ schedule }) => ({ deleted: await schedules.delete(scheduleName(schedule)) }),
    async pauseSchedule({ schedule, paused }, { access }) {
      return { schedule: shownTo(access, await schedules.pause(scheduleName(schedule), paused)) };
    },
    async triggerSchedule({ schedule }) {
      const { queue, pid } = await schedules.trigger(scheduleName(schedule));
      return { queue: formatQueueName(queue), pid: Buffer.from(pid, 'latin1') };
    },
  };
}

/** What a caller sees of a schedule that it has changed. What the schedule does, and has done, needs the right to read. */
function shownTo(access: CallerAccess, view: ScheduleView): Schedule {
  if (access.allows('read', view.schedule.group)) return scheduleMessage(view);
  const { schedule, record, nextRuns } = view;
  return {
    ...Schedule.decode(NOTHING),
    schedule: formatQueueName(schedule),
    spec: ScheduleSpec.decode(NOTHING),
    paused: record.paused,
    nextRunsUnixMs: [...nextRuns],
  };
}

function scheduleMessage({ schedule, record, nextRuns }: ScheduleView): Schedule {
  const { spec, paused, createdUnixMs, changedUnixMs, lastRunUnixMs, lastPid, runs, missed, skipped, triggered } =
    record;
  return {
    schedule: formatQueueName(schedule),
    spec,
    paused,
    createdUnixMs,
    changedUnixMs,
    nextRunsUnixMs: [...nextRuns],
    lastRunUnixMs,
    lastPid,
    runs,
    missed,
    skipped,
    triggered,
  };
}
