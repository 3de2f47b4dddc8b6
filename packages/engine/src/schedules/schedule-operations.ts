import type { ScheduleEngine } from '../domain/schedules/schedule-commands.ts';
import type { Queue } from '../queues/queue.ts';
import type { RecordRequests } from '../records/change-records.ts';
import { deleteSchedule, pauseSchedule, putSchedule, triggerSchedule } from './change-schedules.ts';
import { listSchedules } from './list-schedules.ts';

/** Number of schedules in these queues of schedules. */
export function schedulesIn(queues: Iterable<Queue>): number {
  let count = 0;
  for (const { ledger } of queues) count += ledger.size;
  return count;
}

/** The operations of an engine on schedules. */
export const scheduleOperations = ({ change, read }: RecordRequests): ScheduleEngine => ({
  put: (command) => change((engineState) => putSchedule(engineState, command), command.spec.data.byteLength),
  list: (command) => read(command.group, (engineState) => listSchedules(engineState, command)),
  delete: (schedule) => change((engineState) => deleteSchedule(engineState, schedule)),
  pause: (schedule, paused) => change((engineState) => pauseSchedule(engineState, schedule, paused)),
  trigger: (schedule) => change((engineState) => triggerSchedule(engineState, schedule), 0),
});
