import type { QueueName } from '@taskmaster/proto';
import type {
  ListSchedulesCommand,
  PutScheduleCommand,
  PutScheduleOutcome,
  ScheduleEngine,
  SchedulePage,
  ScheduleView,
  TriggeredRun,
} from '../domain/schedules/schedule-commands.ts';
import type { EngineState } from '../engine-state.ts';
import type { Queue } from '../queues/queue.ts';
import { deleteSchedule, pauseSchedule, putSchedule, triggerSchedule } from './change-schedules.ts';
import { listSchedules } from './list-schedules.ts';

type Work<T> = (engineState: EngineState) => Promise<T>;

/** How the engine admits requests. */
export interface SchedulesDeps {
  /** `addedBytes`: the size of the data that the request adds. Undefined: it adds no tasks. */
  readonly change: <T>(work: Work<T>, addedBytes?: number) => Promise<T>;
  /** Without a group, the request reads those that this node holds. */
  readonly read: <T>(group: string | undefined, work: Work<T>) => Promise<T>;
}

/** Number of schedules in these queues of schedules. */
export function schedulesIn(queues: Iterable<Queue>): number {
  let count = 0;
  for (const { ledger } of queues) count += ledger.size;
  return count;
}

/** The requests about schedules. */
export class Schedules implements ScheduleEngine {
  readonly #deps: SchedulesDeps;

  constructor(deps: SchedulesDeps) {
    this.#deps = deps;
  }

  put(command: PutScheduleCommand): Promise<PutScheduleOutcome> {
    return this.#deps.change((engineState) => putSchedule(engineState, command), command.spec.data.byteLength);
  }

  list(command: ListSchedulesCommand): Promise<SchedulePage> {
    return this.#deps.read(command.group, (engineState) => listSchedules(engineState, command));
  }

  delete(schedule: QueueName): Promise<boolean> {
    return this.#deps.change((engineState) => deleteSchedule(engineState, schedule));
  }

  pause(schedule: QueueName, paused: boolean): Promise<ScheduleView> {
    return this.#deps.change((engineState) => pauseSchedule(engineState, schedule, paused));
  }

  trigger(schedule: QueueName): Promise<TriggeredRun> {
    return this.#deps.change((engineState) => triggerSchedule(engineState, schedule), 0);
  }
}
