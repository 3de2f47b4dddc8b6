import { MissedRuns, parseQueueName, type ScheduleSpec } from '@taskmaster/proto';
import type { EngineHarness } from '../testing/engine-harness.ts';

/** The schedule that tests put, and its queue. */
export const SCHEDULE = 'g#nightly';
export const TARGET = 'g#jobs';

/** A schedule that runs each second and loses no run. */
const aSpec = (change: Partial<ScheduleSpec> = {}): ScheduleSpec => ({
  queue: TARGET,
  data: Buffer.from('data'),
  retry: undefined,
  cron: '',
  timeZone: '',
  intervalMs: 1000,
  missedRuns: MissedRuns.MISSED_RUNS_ALL,
  skipWhileRunning: false,
  pidPrefix: new Uint8Array(0),
  headers: {},
  timeLimitMs: 0,
  limitKey: '',
  ...change,
});

export const putSchedule = (h: EngineHarness, change: Partial<ScheduleSpec> = {}, schedule = SCHEDULE) =>
  h.engine.schedules.put({ schedule: parseQueueName(schedule), spec: aSpec(change) });

/** The record of a schedule, with its next runs. Undefined: there is none. */
export async function scheduleOf(h: EngineHarness, schedule = SCHEDULE, nextRuns = 3) {
  const { group, name } = parseQueueName(schedule);
  const { schedules } = await h.engine.schedules.list({ group, name, nextRuns, limit: 1, after: undefined });
  return schedules[0];
}

/** PIDs of the tasks that wait in a queue. */
export async function waitingIn(h: EngineHarness, queue = TARGET): Promise<string[]> {
  const command = { queue: parseQueueName(queue), kind: 'head' as const, limit: 1000, includeData: false };
  return (await h.engine.peekTasks(command)).map(({ pid }) => pid);
}

/** The PIDs of runs at these instants. */
export const runPids = (instants: readonly number[], schedule = SCHEDULE): string[] =>
  instants.map((at) => `${new Date(at).toISOString()}/${parseQueueName(schedule).name}`);

/** Instants after `from`: each whole interval, `count` of them. */
export const each = (from: number, count: number, intervalMs = 1000): number[] =>
  Array.from({ length: count }, (_, index) => from + (index + 1) * intervalMs);

/** Time between two looks of the worker, in ms. */
const LOOK_MS = 20;

/** A worker that completes the tasks of a schedule at once, so that a run that is enqueued twice would be seen twice. */
export class ScheduleWorker {
  /** Runs that were leased. */
  readonly seen = new Set<string>();
  /** Runs whose completion was acknowledged. */
  readonly #done = new Set<string>();
  /** Runs that came again after that. */
  readonly again: string[] = [];

  /** Works until the returned function is called, and as long as the engine answers. */
  start(h: EngineHarness): () => void {
    let goesOn = true;
    const { clock } = h;
    const next = (): void => {
      if (goesOn) clock.at((clock.now() + LOOK_MS) as ReturnType<typeof clock.now>, () => void look());
    };
    const look = async (): Promise<void> => {
      try {
        for (const { pid, token } of await h.lease(TARGET, { max: 100, for: 200 })) {
          if (this.#done.has(pid)) this.again.push(pid);
          this.seen.add(pid);
          await h.update({ dequeue: [{ queue: TARGET, pid, token }] });
          this.#done.add(pid);
        }
      } catch {
        // The node does not serve the group, or has lost power. The next look, or the next worker, goes on.
      }
      next();
    };
    next();
    return () => {
      goesOn = false;
    };
  }

  /** Runs that did not come: those of `count` intervals after an instant. */
  missing(from: number, count: number, intervalMs: number): string[] {
    return runPids(each(from, count, intervalMs)).filter((pid) => !this.seen.has(pid));
  }
}
