import { good, type Row } from '../panel.ts';
import { quantile, rate, series } from '../queries.ts';

/** Nodes that share a PostgreSQL database. */
export const database: Row = {
  title: 'A shared database',
  collapsed: true,
  panels: [
    {
      title: 'Statements per second',
      description: 'Statements to the PostgreSQL database, by kind. Without a shared database this row has no data.',
      shown: 'lines',
      unit: 'ops',
      queries: {
        '{{statement}}': `sum by (statement) (${rate(series('database_statement_duration_seconds_count'))})`,
      },
    },
    {
      title: 'Time of statements (p99)',
      description:
        '99 of 100 statements are answered within this time. A slow "commit": look at the disk of the database and its standby.',
      shown: 'lines',
      unit: 's',
      queries: { '{{statement}}': quantile(0.99, series('database_statement_duration_seconds_bucket'), 'statement') },
      thresholds: good(['red', 0.1]),
      alerts: ['SlowCommits', 'DatabaseSilent'],
    },
    {
      title: 'Silence and lost connections',
      description: 'For how long the database has not answered, and connections that were lost in the last 15 minutes.',
      shown: 'lines',
      unit: 'short',
      queries: {
        'silent, s {{instance}}': series('database_waiting_seconds'),
        'lost connections {{instance}}': `increase(${series('database_reconnects_total')}[15m])`,
      },
      alerts: ['DatabaseSilent', 'DatabaseConnectionsBreak'],
    },
  ],
};
