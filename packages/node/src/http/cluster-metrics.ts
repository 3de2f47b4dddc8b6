import { addClockMetrics, addGossipMetrics, type RpcMetrics } from '@taskmaster/server/http';
import { Histogram } from 'prom-client';
import type { MemberFigures } from '../cluster/open-member.ts';
import type { HandOffFigures } from '../cluster/placement/handoff/hand-offs.ts';

/** A hand-off aims at a freeze of at most 40 ms, and fails after 4 s. */
const FREEZE_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Metrics of a member of a cluster. On a node outside a cluster they have no values, or 0. */
export class ClusterMetrics {
  readonly #freezes: Histogram;

  constructor(metrics: RpcMetrics, figures: () => MemberFigures | undefined) {
    metrics.gauge(
      'cluster_members',
      'Members of the cluster, as this node knows them.',
      ['state', 'alive'],
      (gauge) => {
        gauge.reset();
        for (const { state, alive } of figures()?.members ?? []) gauge.labels(state, String(alive)).inc();
      },
    );
    metrics.gauge(
      'cluster_member_up',
      'Whether this node reaches a member of the cluster. Label member: its name.',
      ['member', 'state'],
      (gauge) => {
        gauge.reset();
        for (const { name, state, alive } of figures()?.members ?? []) gauge.labels(name, state).set(Number(alive));
      },
    );
    metrics.gauge(
      'cluster_partitions',
      'Partitions of this node by state. State "wanted": partitions that this node should hold.',
      ['state'],
      (gauge) => {
        for (const [state, count] of Object.entries(figures()?.partitions ?? {})) gauge.labels(state).set(count);
      },
    );
    const counted = [
      ['hand_offs_sent', 'Partitions that this node has handed over.', ({ sent }: HandOffFigures) => sent],
      ['hand_offs_failed', 'Attempts to hand a partition over that failed.', ({ failed }: HandOffFigures) => failed],
      ['hand_off_rows', 'Rows sent in completed hand-offs.', ({ rows }: HandOffFigures) => rows],
      [
        'hand_off_bytes',
        'Bytes of rows and log entries sent in completed hand-offs.',
        ({ bytes }: HandOffFigures) => bytes,
      ],
    ] as const;
    for (const [name, help, of] of counted) {
      metrics.counter(`cluster_${name}_total`, help, () => {
        const known = figures();
        return known && of(known.handOffs);
      });
    }
    addGossipMetrics(metrics, () => figures()?.gossip);
    addClockMetrics(metrics, () => figures()?.clocks ?? []);
    this.#freezes = new Histogram({
      name: 'taskmaster_cluster_hand_off_freeze_duration_seconds',
      help: 'Time for which calls to a partition waited during a completed hand-off.',
      buckets: FREEZE_SECONDS,
      registers: [metrics.registry],
    });
  }

  handedOver(frozenMs: number): void {
    this.#freezes.observe(frozenMs / 1000);
  }
}
