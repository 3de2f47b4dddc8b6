import { good, type Row } from '../panel.ts';
import { orNone, quantile, rate, series, top } from '../queries.ts';

/** What callers see. */
export const calls: Row = {
  title: 'Calls and commits',
  panels: [
    {
      title: 'Calls per second',
      description:
        'Calls that ended, by method. Unary calls and calls over a stream count alike, at nodes and proxies.',
      shown: 'lines',
      unit: 'reqps',
      queries: { '{{method}}': top('method', 'sum', rate(series('rpc_duration_seconds_count'))) },
    },
    {
      title: 'Time of calls (p99)',
      description: '99 of 100 calls are answered within this time. A lease that waits for tasks counts with its wait.',
      shown: 'lines',
      unit: 's',
      queries: { '{{method}}': `topk(10, ${quantile(0.99, series('rpc_duration_seconds_bucket'), 'method')})` },
    },
    {
      title: 'Refused calls, per second',
      description: 'By reason. Some are normal, such as the loser of a race; docs/reference/errors.md explains each.',
      shown: 'lines',
      unit: 'reqps',
      queries: { '{{reason}}': orNone('reason', `sum by (reason) (${rate(series('refusals_total'))})`) },
      alerts: ['CallsRefused', 'OutcomesUnknown'],
    },
    {
      title: 'Commits',
      description: 'Time to write one batch to the store, with the fsync. If a data directory is slow, every call is.',
      shown: 'lines',
      unit: 's',
      queries: {
        'p50 {{instance}}': quantile(0.5, series('commit_duration_seconds_bucket'), 'instance'),
        'p99 {{instance}}': quantile(0.99, series('commit_duration_seconds_bucket'), 'instance'),
      },
      thresholds: good(['red', 0.1]),
      alerts: ['SlowCommits'],
    },
    {
      title: 'Commits per second',
      description:
        'Batches that were written, and atoms, that is, requests that changed something. Many atoms share a batch under load.',
      shown: 'lines',
      unit: 'ops',
      queries: {
        batches: `sum(${rate(series('commit_duration_seconds_count'))})`,
        atoms: `sum(${rate(series('atoms_total'))})`,
      },
    },
    {
      title: 'Bytes written, and reads',
      description: 'What commits write per second, and how often the store is read because a task is not in memory.',
      shown: 'lines',
      unit: 'short',
      queries: {
        'bytes per second': `sum(${rate(series('commit_batch_bytes_sum'))})`,
        'refills per second': `sum(${rate(series('cache_refills_total'))})`,
        'single reads per second': `sum(${rate(series('cold_reads_total'))})`,
      },
    },
  ],
};
