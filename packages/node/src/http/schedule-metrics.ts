import type { EngineFigures } from '@taskmaster/engine/domain';
import type { RpcMetrics } from '@taskmaster/server/http';
import { Histogram } from 'prom-client';

/** A node looks for due runs ten times a second. Missed runs that are enqueued after an outage are much later. */
const LATE_SECONDS = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600];

/** Metrics of schedules. No label names one: names are data of users. */
export class ScheduleMetrics {
  readonly #lateness: Histogram;

  constructor(metrics: RpcMetrics, figures: () => EngineFigures | undefined) {
    metrics.gauge('schedules', 'Schedules of the groups that the node holds, paused ones too.', [], (gauge) =>
      gauge.set(figures()?.schedules ?? 0),
    );
    metrics.gauge(
      'schedules_ahead_of_clock',
      'Schedules that do not run because the system clock was set back: their runs are decided up to later than now. A minute does not count.',
      [],
      (gauge) => gauge.set(figures()?.schedulesAhead ?? 0),
    );
    metrics.labelledCounter(
      'schedule_runs_total',
      'Runs of schedules. Label outcome: enqueued, missed (no node could enqueue it), skipped (an earlier run was in the queue), or triggered.',
      ['outcome'],
      async () => {
        const known = figures();
        if (known === undefined) return [];
        return [
          { labels: { outcome: 'enqueued' }, count: known.runsEnqueued },
          { labels: { outcome: 'missed' }, count: known.runsMissed },
          { labels: { outcome: 'skipped' }, count: known.runsSkipped },
          { labels: { outcome: 'triggered' }, count: known.runsTriggered },
        ];
      },
    );
    this.#lateness = new Histogram({
      name: 'taskmaster_schedule_lateness_seconds',
      help: 'How late runs of schedules were enqueued after their instants, by the system clock. Triggered runs have none.',
      buckets: LATE_SECONDS,
      registers: [metrics.registry],
    });
  }

  ran(lateMs: number): void {
    this.#lateness.observe(lateMs / 1000);
  }
}
