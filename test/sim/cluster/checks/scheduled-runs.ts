import type { SimCluster } from '@taskmaster/node/testing';
import { MissedRuns, parseQueueName, partitionOf } from '@taskmaster/proto';

/** Groups of their own: no other call is about their queues. */
const GROUPS = ['s0', 's1', 's2', 's3'] as const;
const EVERY_MS = 250;
/** Longer than the time until a search, and than the difference of any two clocks. */
const CATCH_UP_MS = 10_000;
/** Longer than the time until a search. */
const AFTER_PAUSE_MS = 1_000;

/** Schedules that run during the faults. Each run must come once, unless its partition was lost. */
export class ScheduledRuns {
  readonly #cluster: SimCluster;

  constructor(cluster: SimCluster) {
    this.#cluster = cluster;
  }

  /** Call it before the first fault. */
  async put(): Promise<void> {
    for (const group of GROUPS) {
      const spec = {
        queue: `${group}#ticks`,
        data: Buffer.from(group),
        headers: {},
        timeLimitMs: 0,
        limitKey: '',
        retry: undefined,
        pidPrefix: Buffer.alloc(0),
        cron: '',
        timeZone: '',
        intervalMs: EVERY_MS,
        skipWhileRunning: false,
        missedRuns: MissedRuns.MISSED_RUNS_ALL,
      };
      await this.#cluster.run(this.#engineOf(group).schedules.put({ schedule: parseQueueName(`${group}#tick`), spec }));
    }
  }

  /** Violations in a settled cluster. `givenUp`: partitions that were lost, or are older copies. */
  async violations(givenUp: ReadonlySet<number>): Promise<string[]> {
    const cluster = this.#cluster;
    await cluster.pass(CATCH_UP_MS);
    const violations: string[] = [];
    for (const group of GROUPS) {
      if (givenUp.has(partitionOf(group, cluster.partitions))) continue;
      // No run comes between the looks. Runs that were due before a pause still come.
      await cluster.run(this.#engineOf(group).schedules.pause(parseQueueName(`${group}#tick`), true));
      await cluster.pass(AFTER_PAUSE_MS);
      const { schedules, tasks } = await cluster.run(this.#look(group));
      const [schedule] = schedules;
      if (schedule === undefined) {
        violations.push(`(i) the schedule of ${group} is lost`);
        continue;
      }
      const { anchorUnixMs, decidedUnixMs, runs, missed } = schedule.record;
      const expected = (decidedUnixMs - anchorUnixMs) / EVERY_MS;
      if (runs !== expected || tasks !== expected || missed !== 0) {
        violations.push(`(i) of ${expected} runs in ${group} ${runs} came, ${tasks} tasks wait, ${missed} were missed`);
      }
    }
    return violations;
  }

  async #look(group: string) {
    const engine = this.#engineOf(group);
    const { totals } = await engine.queueStats({ kind: 'named', queues: [parseQueueName(`${group}#ticks`)] });
    const { schedules } = await engine.schedules.list({ group, name: 'tick', nextRuns: 0, limit: 1, after: undefined });
    return { schedules, tasks: totals.available };
  }

  #engineOf(group: string) {
    const holder = this.#cluster.holderOf(group);
    if (!holder) throw new Error(`no node holds group ${group}`);
    return holder.h.engine;
  }
}
