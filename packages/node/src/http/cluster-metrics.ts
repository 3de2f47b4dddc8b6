import type { RpcMetrics } from '@taskmaster/server/http';
import type { MemberFigures } from '../cluster/open-member.ts';
import type { HandOffFigures } from '../cluster/placement/handoff/hand-offs.ts';

/** Metrics of a member of a cluster; without values on a node that stands alone. */
export function addClusterMetrics(metrics: RpcMetrics, figures: () => MemberFigures | undefined): void {
  metrics.gauge('cluster_members', 'Members, as this node knows them.', ['state', 'alive'], (gauge) => {
    gauge.reset();
    for (const { state, alive } of figures()?.members ?? []) gauge.labels(state, String(alive)).inc();
  });
  metrics.gauge(
    'cluster_partitions',
    'Partitions of this node by state, and how many it should hold.',
    ['state'],
    (gauge) => {
      for (const [state, count] of Object.entries(figures()?.partitions ?? {})) gauge.labels(state).set(count);
    },
  );
  const results = [
    ['sent', 'Partitions handed over.', ({ sent }: HandOffFigures) => sent],
    ['failed', 'Attempts to hand a partition over that failed.', ({ failed }: HandOffFigures) => failed],
    ['rows', 'Rows sent with partitions.', ({ rows }: HandOffFigures) => rows],
    ['bytes', 'Bytes sent with partitions.', ({ bytes }: HandOffFigures) => bytes],
  ] as const;
  for (const [name, help, of] of results) {
    metrics.counter(`cluster_hand_offs_${name}_total`, help, () => {
      const known = figures();
      return known && of(known.handOffs);
    });
  }
  metrics.gauge(
    'cluster_hand_off_longest_frozen_seconds',
    'Longest time that callers waited for a partition that was handed over, since the start.',
    [],
    (gauge) => {
      const known = figures();
      if (known) gauge.set(known.handOffs.longestFrozenMs / 1000);
    },
  );
}
