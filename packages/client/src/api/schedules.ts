import {
  methods,
  type ScheduleSpec,
  type UnreachableNode,
  MissedRuns as WireMissedRuns,
  PutScheduleResult as WirePutResult,
} from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import { type GivenOptions, givenMessage, givenNames } from '../tasks/given-fields.ts';
import {
  canonicalName,
  FORMAT,
  headersOf,
  nameToFill,
  type QueueRef,
  queueRef,
  retryPolicy,
  type TaskHeaders,
  type TaskRetryOptions,
} from '../tasks/new-task.ts';
import { type MissedRuns, type ScheduleInfo, scheduleInfo } from '../tasks/schedule-info.ts';
import { brokenReply } from '../transport/wire-errors.ts';
import { encodeData } from '../values/codec.ts';
import { type Duration, durationMs } from '../values/duration.ts';
import { callHook } from '../values/hooks.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { CallOptions } from '../values/options.ts';
import { callNames } from '../values/options.ts';
import { type Pid, type PidLike, pidBytes } from '../values/pid.ts';

/** What a schedule enqueues, and when. Give either `cron` or `every`. */
export interface ScheduleOptions<In = unknown> extends GivenOptions {
  /** The queue of its tasks, in the group of the schedule. A queue that is given by name gets JSON data. */
  readonly queue: string | QueueRef<never, In> | QueueRef<unknown, In>;
  /** The data of each task, at most 64 KiB together with the headers. */
  readonly data: In;
  /**
   * A cron expression: minute, hour, day of month, month, day of week, as in `0 9 * * MON-FRI`. Seconds may stand before them,
   * and years behind them.
   */
  readonly cron?: string | undefined;
  /** IANA name of the time zone of `cron`, as in `Europe/Berlin`. Default: UTC. */
  readonly timeZone?: string | undefined;
  /** Time between two runs, 100 ms to 10 years. The first run is one interval after the schedule was created. */
  readonly every?: Duration | undefined;
  /**
   * Runs whose instants passed while no node could enqueue them: `once` enqueues only the latest of them (default), `all` each of
   * them, `skip` none, unless the latest is at most a minute late.
   */
  readonly missedRuns?: MissedRuns | undefined;
  /** Whether a run is skipped if the task of an earlier run is still in the queue, waiting or leased. Default false. */
  readonly skipWhileRunning?: boolean | undefined;
  /** What happens after a failed attempt at a task. Default: as for tasks that are enqueued without `retry`. */
  readonly retry?: TaskRetryOptions | undefined;
  /** Headers of each task, as of a task that is enqueued. Default: none. */
  readonly headers?: TaskHeaders | undefined;
  /** The PIDs of the tasks begin with this, so that they have a place among other tasks of the queue. Default: nothing. */
  readonly pidPrefix?: PidLike | undefined;
}

export interface ListSchedulesOptions extends CallOptions {
  /** Only schedules of this group. The empty string is the default group. Default: those of all groups. */
  readonly group?: string | undefined;
  /** Number of next runs of each schedule, at most 100. Default 1. */
  readonly nextRuns?: number | undefined;
  /** Schedules in one reply, 1 to 1,000. Default 100. A reply may have fewer. */
  readonly pageSize?: number | undefined;
  /** Called with the nodes that did not answer a request. Their schedules may be missing in the reply. */
  readonly onUnreachable?: ((nodes: readonly UnreachableNode[]) => void) | undefined;
}

export interface PutScheduleOutcome {
  readonly result: 'created' | 'changed' | 'unchanged';
  readonly schedule: ScheduleInfo;
}

const scheduleNames: OptionNames<ScheduleOptions> = {
  queue: true,
  data: true,
  cron: true,
  timeZone: true,
  every: true,
  missedRuns: true,
  skipWhileRunning: true,
  retry: true,
  ...givenNames,
  headers: true,
  pidPrefix: true,
};
const listNames: OptionNames<ListSchedulesOptions> = {
  ...callNames,
  group: true,
  nextRuns: true,
  pageSize: true,
  onUnreachable: true,
};

const results: Readonly<Record<number, PutScheduleOutcome['result']>> = {
  [WirePutResult.PUT_SCHEDULE_RESULT_CREATED]: 'created',
  [WirePutResult.PUT_SCHEDULE_RESULT_CHANGED]: 'changed',
  [WirePutResult.PUT_SCHEDULE_RESULT_UNCHANGED]: 'unchanged',
};

const missedRuns: Readonly<Record<MissedRuns, WireMissedRuns>> = {
  skip: WireMissedRuns.MISSED_RUNS_SKIP,
  once: WireMissedRuns.MISSED_RUNS_ONCE,
  all: WireMissedRuns.MISSED_RUNS_ALL,
};

/**
 * The schedules, each of which enqueues a task again and again. They are durable, and the node that holds their group runs them.
 * `client.schedules` gives it. A schedule is named `group#name`, or `name` in the default group.
 */
export class Schedules {
  readonly #context: ClientContext;

  /** Internal: use `client.schedules`. */
  constructor(context: ClientContext) {
    this.#context = context;
  }

  /**
   * Creates a schedule, or changes it to these options. Call it at each start of a service: the same options change nothing, and
   * no run is lost or repeated. It does not resume a paused schedule.
   * @throws InvalidRequestError, with the reason `INVALID_SCHEDULE` for a wrong expression, a time zone that is not known, or no
   * run after now; InvalidDataError; PermissionDeniedError; TypeError for options of the wrong form.
   */
  async put<In>(name: string, schedule: ScheduleOptions<In>, options: CallOptions = {}): Promise<PutScheduleOutcome> {
    assertKnown('put', options, callNames);
    const request = { schedule: canonicalName(name), spec: await scheduleSpec(schedule) };
    const reply = await this.#context.calls.call(methods.putSchedule, request, options);
    return { result: results[reply.result] ?? 'changed', schedule: infoOf(reply) };
  }

  /** The schedules of all groups, or of one, in the order of their groups and names. Reads one page at a time. */
  async *list(options: ListSchedulesOptions = {}): AsyncGenerator<ScheduleInfo, void> {
    assertKnown('list', options, listNames);
    const { group, nextRuns = 1, pageSize = 0, onUnreachable } = options;
    let pageToken = '';
    do {
      const request = { schedule: '', group, nextRuns, limit: pageSize, pageToken };
      const page = await this.#context.calls.call(methods.listSchedules, request, options);
      if (page.unreachable.length > 0) callHook({ onUnreachable }, 'onUnreachable', page.unreachable);
      yield* page.schedules.map(scheduleInfo);
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
  }

  /** One schedule with its next runs. Undefined: there is none with this name. */
  async get(
    name: string,
    { nextRuns = 1, ...options }: CallOptions & { readonly nextRuns?: number | undefined } = {},
  ): Promise<ScheduleInfo | undefined> {
    assertKnown('get', options, callNames);
    const request = { schedule: canonicalName(name), group: undefined, nextRuns, limit: 1, pageToken: '' };
    const { schedules } = await this.#context.calls.call(methods.listSchedules, request, options);
    const [schedule] = schedules;
    return schedule && scheduleInfo(schedule);
  }

  /** Deletes a schedule. Its tasks stay. Resolves with false if there is none. */
  async delete(name: string, options: CallOptions = {}): Promise<boolean> {
    assertKnown('delete', options, callNames);
    const request = { schedule: canonicalName(name) };
    const { deleted } = await this.#context.calls.call(methods.deleteSchedule, request, options);
    return deleted;
  }

  /** Stops the runs of a schedule until it is resumed, also across `put`. @throws TaskMasterError `SCHEDULE_NOT_FOUND`. */
  pause(name: string, options: CallOptions = {}): Promise<ScheduleInfo> {
    return this.#pause(name, true, options);
  }

  /** Goes on with the first run after now. @throws TaskMasterError with the reason `SCHEDULE_NOT_FOUND`. */
  resume(name: string, options: CallOptions = {}): Promise<ScheduleInfo> {
    return this.#pause(name, false, options);
  }

  /**
   * Enqueues an extra run now, also of a paused schedule, or while an earlier run is in the queue.
   * @throws TaskMasterError with the reason `SCHEDULE_NOT_FOUND`.
   */
  async trigger(name: string, options: CallOptions = {}): Promise<{ readonly queue: string; readonly pid: Pid }> {
    assertKnown('trigger', options, callNames);
    const request = { schedule: canonicalName(name) };
    const { calls, telemetry } = this.#context;
    const { queue, pid } = await telemetry.trigger(() => calls.call(methods.triggerSchedule, request, options));
    return { queue, pid };
  }

  async #pause(name: string, paused: boolean, options: CallOptions): Promise<ScheduleInfo> {
    assertKnown(paused ? 'pause' : 'resume', options, callNames);
    const request = { schedule: canonicalName(name), paused };
    const reply = await this.#context.calls.call(methods.pauseSchedule, request, options);
    return infoOf(reply);
  }
}

async function scheduleSpec<In>(options: ScheduleOptions<In>): Promise<ScheduleSpec> {
  assertKnown('a schedule', options, scheduleNames);
  const { cron, timeZone, every, skipWhileRunning = false } = options;
  if ((cron === undefined) === (every === undefined)) throw new TypeError('cron, every: give one of them');
  if (every !== undefined && timeZone !== undefined) throw new TypeError('timeZone: goes with cron');
  const policy = missedRuns[options.missedRuns ?? 'once'];
  if (policy === undefined) {
    throw new TypeError(`missedRuns: '${options.missedRuns}' is not 'skip', 'once' or 'all'`);
  }
  const queue = queueRef(options.queue);
  return {
    queue: nameToFill(queue.name),
    data: await encodeData(queue[FORMAT], options.data),
    retry: options.retry && retryPolicy(options.retry),
    ...givenMessage(options),
    cron: cron ?? '',
    timeZone: timeZone ?? '',
    intervalMs: every === undefined ? 0 : intervalMs(every),
    missedRuns: policy,
    skipWhileRunning,
    headers: options.headers === undefined ? {} : headersOf(options.headers),
    pidPrefix: options.pidPrefix === undefined ? NO_BYTES : pidBytes(options.pidPrefix),
  };
}

const NO_BYTES = new Uint8Array(0);

/** In the protocol 0 means that there is no interval. */
function intervalMs(every: Duration): number {
  const ms = durationMs(every, 'every');
  if (ms === 0) throw new TypeError('every: an interval is not 0');
  return ms;
}

function infoOf({ schedule }: { readonly schedule?: Parameters<typeof scheduleInfo>[0] | undefined }): ScheduleInfo {
  if (schedule === undefined) throw brokenReply('left out the schedule');
  return scheduleInfo(schedule);
}
