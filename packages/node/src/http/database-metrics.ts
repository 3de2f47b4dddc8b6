import type { DatabaseFigures, StatementKind } from '@taskmaster/postgres';
import type { RpcMetrics } from '@taskmaster/server/http';
import { Histogram } from 'prom-client';

const STATEMENT_SECONDS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];

/** Metrics of a store in a database. A node with a data directory has no values. */
export class DatabaseMetrics {
  readonly #statements: Histogram;

  constructor(metrics: RpcMetrics, figures: () => DatabaseFigures | undefined) {
    this.#statements = new Histogram({
      name: 'taskmaster_database_statement_duration_seconds',
      help: 'Time until the PostgreSQL database has answered a statement. Label statement: commit, get, scan, or other (such as whether the node still has its place).',
      labelNames: ['statement'],
      buckets: STATEMENT_SECONDS,
      registers: [metrics.registry],
    });
    metrics.gaugeIfKnown(
      'database_waiting_seconds',
      'For how long the PostgreSQL database has not answered the commit that waits now, or an idle node that asks each second. 0 while it answers. No value for a node with a data directory.',
      () => {
        const known = figures();
        return known && known.waitingMs / 1000;
      },
    );
    metrics.counter(
      'database_reconnects_total',
      'How often the connection to the PostgreSQL database was lost and opened again.',
      () => figures()?.reconnects,
    );
  }

  answered(statement: StatementKind, durationMs: number): void {
    this.#statements.labels(statement).observe(durationMs / 1000);
  }
}
