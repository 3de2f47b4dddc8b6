import type { Row } from '../panel.ts';
import { orNone, orZero, rate, series } from '../queries.ts';

/** Members and partitions. */
export const cluster: Row = {
  title: 'The cluster',
  panels: [
    {
      title: 'Members',
      description: 'Whether all other members reach a member: 1 if they do, 0 if one does not.',
      shown: 'states',
      unit: 'none',
      queries: { '{{member}} ({{state}})': `min by (member, state) (${series('cluster_member_up')})` },
      thresholds: [
        ['red', null],
        ['green', 1],
      ],
      alerts: ['MemberDown'],
    },
    {
      title: 'Members by state',
      description: 'As the node sees it that sees the most. A member that has left for good stays known for a while.',
      shown: 'lines',
      unit: 'none',
      queries: { '{{state}}, alive: {{alive}}': `max by (state, alive) (${series('cluster_members')})` },
    },
    {
      title: 'Partitions by node',
      description:
        'What each node serves, and what it should hold. The sum of "serving" is the number of partitions: what is missing, nobody serves.',
      shown: 'stack',
      unit: 'none',
      queries: {
        'serving {{instance}}': series('cluster_partitions', 'state="serving"'),
      },
      alerts: ['PartitionsOutOfPlace'],
    },
    {
      title: 'Partitions on their way',
      description: 'Partitions that a node should hold, and those that it hands over or has frozen for it.',
      shown: 'lines',
      unit: 'none',
      queries: { '{{state}} {{instance}}': series('cluster_partitions', 'state!="serving"') },
      alerts: ['PartitionsOutOfPlace'],
    },
    {
      title: 'Hand-offs',
      description:
        'Partitions per second that were handed over, and attempts that failed. The log of the node says why.',
      shown: 'lines',
      unit: 'ops',
      queries: {
        'handed over {{instance}}': rate(series('cluster_hand_offs_sent_total')),
        'failed {{instance}}': rate(series('cluster_hand_offs_failed_total')),
      },
      alerts: ['PartitionsOutOfPlace'],
    },
    {
      title: 'Size of hand-offs',
      description: 'Rows and bytes per second that completed hand-offs have sent.',
      shown: 'lines',
      unit: 'short',
      queries: {
        'rows per second': `sum(${rate(series('cluster_hand_off_rows_total'))})`,
        'bytes per second': `sum(${rate(series('cluster_hand_off_bytes_total'))})`,
      },
    },
    {
      title: 'Freeze of hand-offs',
      description: 'For how long calls to a partition waited while it moved, in the last hour. 0: no partition moved.',
      shown: 'lines',
      unit: 's',
      queries: {
        p99: orZero(
          `histogram_quantile(0.99, sum by (le) (increase(${series('cluster_hand_off_freeze_duration_seconds_bucket')}[1h]))) >= 0`,
        ),
      },
    },
    {
      title: 'Gossip',
      description: 'Datagrams per second between members, and those that were refused, by reason.',
      shown: 'lines',
      unit: 'pps',
      queries: {
        '{{direction}}': `sum by (direction) (${rate(series('gossip_datagrams_total'))})`,
        'refused: {{reason}}': orNone('reason', `sum by (reason) (${rate(series('gossip_refused_datagrams_total'))})`),
      },
    },
  ],
};
