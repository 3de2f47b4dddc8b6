import type { PutScheduleResult, QueueName, ScheduleSpec, StoredSchedule } from '@taskmaster/proto';
import type { Pid } from '../ids.ts';

// Commands about schedules. They are always valid: `service/parse` validates requests.

export interface PutScheduleCommand {
  readonly schedule: QueueName;
  /** With defaults filled in, so that equal schedules have equal specs. */
  readonly spec: ScheduleSpec;
}

export interface ListSchedulesCommand {
  /** Undefined: schedules of all groups. */
  readonly group: string | undefined;
  /** Only this schedule of the group. Undefined: all. */
  readonly name: string | undefined;
  /** Whether the caller may read a group; asked if `group` is undefined. Undefined: it may read each. */
  readonly isReadable?: ((group: string) => boolean) | undefined;
  readonly nextRuns: number;
  readonly limit: number;
  /** `after` of the previous page. Undefined: this is the first page. */
  readonly after: QueueName | undefined;
}

export interface ScheduleView {
  readonly schedule: QueueName;
  readonly record: StoredSchedule;
  /** Instants of the next runs, in ms since 1970. */
  readonly nextRuns: readonly number[];
}

export interface SchedulePage {
  /** In the order of their groups, then of their names, bytewise. */
  readonly schedules: readonly ScheduleView[];
  /** The name behind which more may be. It need not be one of a schedule. Undefined: there are no more. */
  readonly after: QueueName | undefined;
}

export interface PutScheduleOutcome {
  readonly result: PutScheduleResult;
  readonly view: ScheduleView;
}

/** The task of a run that was triggered. */
export interface TriggeredRun {
  readonly queue: QueueName;
  readonly pid: Pid;
}

/** The schedules of a node. A promise resolves after the change is durable. It rejects with a `Refusal`. */
export interface ScheduleEngine {
  put(command: PutScheduleCommand): Promise<PutScheduleOutcome>;
  list(command: ListSchedulesCommand): Promise<SchedulePage>;
  /** Resolves with false if there is no such schedule. */
  delete(schedule: QueueName): Promise<boolean>;
  /** Pauses or resumes it. */
  pause(schedule: QueueName, paused: boolean): Promise<ScheduleView>;
  trigger(schedule: QueueName): Promise<TriggeredRun>;
}
