import {
  type DeleteScheduleRequest,
  type DeleteScheduleResponse,
  formatQueueName,
  type ListSchedulesRequest,
  type ListSchedulesResponse,
  type PauseScheduleRequest,
  type PauseScheduleResponse,
  type PutScheduleRequest,
  type PutScheduleResponse,
  type QueueName,
  Schedule,
  ScheduleSpec,
  type TriggerScheduleRequest,
  type TriggerScheduleResponse,
} from '@taskmaster/proto';
import type { CallerAccess } from '../../access/caller-access.ts';
import type { ScheduleEngine, ScheduleView } from '../../domain/schedules/schedule-commands.ts';
import type { Caller } from '../caller.ts';
import { pageTokenAfter } from '../parse/page-token.ts';
import { parseListSchedules, parsePutSchedule, scheduleName } from '../parse/parse-schedules.ts';

const NOTHING = new Uint8Array(0);

/** The part of the service about schedules; see `Handlers`. */
export interface ScheduleHandlers {
  putSchedule(request: PutScheduleRequest, caller: Caller): Promise<PutScheduleResponse>;
  listSchedules(request: ListSchedulesRequest, caller: Caller): Promise<ListSchedulesResponse>;
  deleteSchedule(request: DeleteScheduleRequest, caller: Caller): Promise<DeleteScheduleResponse>;
  pauseSchedule(request: PauseScheduleRequest, caller: Caller): Promise<PauseScheduleResponse>;
  triggerSchedule(request: TriggerScheduleRequest, caller: Caller): Promise<TriggerScheduleResponse>;
}

/** A schedule creates tasks, so its changes take the right to do so. */
export function scheduleHandlers({ schedules }: { readonly schedules: ScheduleEngine }): ScheduleHandlers {
  const changed = (full: string, { access }: Caller): QueueName => {
    const schedule = scheduleName(full);
    access.require('enqueue', schedule.group);
    return schedule;
  };
  return {
    async putSchedule(request, { access }) {
      const command = parsePutSchedule(request);
      access.require('enqueue', command.schedule.group);
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
    async deleteSchedule({ schedule }, caller) {
      return { deleted: await schedules.delete(changed(schedule, caller)) };
    },
    async pauseSchedule({ schedule, paused }, caller) {
      return { schedule: shownTo(caller.access, await schedules.pause(changed(schedule, caller), paused)) };
    },
    async triggerSchedule({ schedule }, caller) {
      const { queue, pid } = await schedules.trigger(changed(schedule, caller));
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
