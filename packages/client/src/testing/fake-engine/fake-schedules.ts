import { isDeepStrictEqual } from 'node:util';
import {
  type ListSchedulesRequest,
  type ListSchedulesResponse,
  type PutScheduleRequest,
  PutScheduleResult,
  parseQueueName,
  type Schedule,
  type TriggerScheduleResponse,
} from '@taskmaster/proto';
import type { Timing } from '../../transport/timing.ts';
import { makeError } from '../../values/errors.ts';

const {
  PUT_SCHEDULE_RESULT_CREATED: CREATED,
  PUT_SCHEDULE_RESULT_CHANGED: CHANGED,
  PUT_SCHEDULE_RESULT_UNCHANGED: UNCHANGED,
} = PutScheduleResult;
const MINUTE_MS = 60_000;

/** Schedules that never run by themselves. One with a cron expression has a next run every minute. */
export class FakeSchedules {
  /** In order of their names. */
  readonly all: Schedule[] = [];
  readonly #timing: Timing;

  constructor(timing: Timing) {
    this.#timing = timing;
  }

  put({ schedule, spec }: PutScheduleRequest): { result: PutScheduleResult; schedule: Schedule } {
    const known = this.all.find((one) => one.schedule === schedule);
    const result = known === undefined ? CREATED : isDeepStrictEqual(known.spec, spec) ? UNCHANGED : CHANGED;
    const now = Math.floor(this.#timing.now());
    const nothingYet = { runs: 0, missed: 0, skipped: 0, triggered: 0, lastRunUnixMs: 0, lastPid: new Uint8Array(0) };
    const made = known ?? {
      schedule,
      spec,
      paused: false,
      createdUnixMs: now,
      changedUnixMs: now,
      nextRunsUnixMs: [],
      ...nothingYet,
    };
    made.spec = spec;
    if (!known) this.all.push(made);
    this.all.sort((a, b) => (a.schedule < b.schedule ? -1 : 1));
    return { result, schedule: this.#shown(made, 1) };
  }

  /** Pages of two. */
  list({ schedule, group, nextRuns, pageToken }: ListSchedulesRequest): ListSchedulesResponse {
    const chosen = this.all.filter((one) =>
      schedule === '' ? group === undefined || parseQueueName(one.schedule).group === group : one.schedule === schedule,
    );
    const from = Number(pageToken);
    return {
      schedules: chosen.slice(from, from + 2).map((one) => this.#shown(one, nextRuns)),
      nextPageToken: from + 2 < chosen.length ? String(from + 2) : '',
      unreachable: [],
    };
  }

  delete(schedule: string): boolean {
    const at = this.all.findIndex((one) => one.schedule === schedule);
    if (at >= 0) this.all.splice(at, 1);
    return at >= 0;
  }

  pause(schedule: string, paused: boolean): Schedule {
    const known = this.#known(schedule);
    known.paused = paused;
    return this.#shown(known, 1);
  }

  trigger(schedule: string): TriggerScheduleResponse {
    const known = this.#known(schedule);
    known.triggered++;
    const at = new Date(Math.floor(this.#timing.now())).toISOString();
    const prefix = Buffer.from(known.spec?.pidPrefix ?? []);
    const pid = Buffer.concat([prefix, Buffer.from(`${at}!${parseQueueName(schedule).name}`)]);
    return { queue: known.spec?.queue ?? '', pid };
  }

  #known(schedule: string): Schedule {
    const known = this.all.find((one) => one.schedule === schedule);
    if (known === undefined) throw makeError('no such schedule', { reason: 'SCHEDULE_NOT_FOUND' });
    return known;
  }

  #shown(schedule: Schedule, nextRuns: number): Schedule {
    const now = Math.floor(this.#timing.now());
    const everyMs = schedule.spec?.intervalMs || MINUTE_MS;
    const runs = Array.from({ length: schedule.paused ? 0 : nextRuns }, (_, index) => now + (index + 1) * everyMs);
    return { ...schedule, nextRunsUnixMs: runs };
  }
}
