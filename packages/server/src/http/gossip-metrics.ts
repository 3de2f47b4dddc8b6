import type { ClockDifference } from '../cluster-view/clock-watch.ts';
import type { DatagramRefusal, MembershipFigures } from '../ports/membership.ts';
import type { RpcMetrics } from './rpc-metrics.ts';

/** The label of each refusal. */
const REASONS: Readonly<Record<DatagramRefusal, string>> = {
  malformed: 'malformed',
  oversized: 'oversized',
  otherCluster: 'other_cluster',
  unauthenticated: 'unauthenticated',
  replayed: 'replayed',
  misshapen: 'misshapen',
};

/** Adds the metrics of gossip. `figures` returns undefined while there is no gossip. */
export function addGossipMetrics(metrics: RpcMetrics, figures: () => MembershipFigures | undefined): void {
  metrics.labelledCounter(
    'gossip_datagrams_total',
    'Datagrams of gossip. Label direction: in or out.',
    ['direction'],
    async () => {
      const { datagramsIn = 0, datagramsOut = 0 } = figures() ?? {};
      return [
        { labels: { direction: 'in' }, count: datagramsIn },
        { labels: { direction: 'out' }, count: datagramsOut },
      ];
    },
  );
  metrics.labelledCounter(
    'gossip_refused_datagrams_total',
    'Datagrams that gossip refused. Label reason: unauthenticated (sealed with another key), replayed, other_cluster, oversized, malformed (no datagram of gossip), misshapen (contents that no member sends).',
    ['reason'],
    async () => {
      const refused = Object.entries(figures()?.refused ?? {}) as [DatagramRefusal, number][];
      return refused.map(([reason, count]) => ({ labels: { reason: REASONS[reason] }, count }));
    },
  );
}

/** Adds the metric of the clocks of members. */
export function addClockMetrics(metrics: RpcMetrics, differences: () => readonly ClockDifference[]): void {
  metrics.gauge(
    'member_clock_difference_seconds',
    'How far the system clock of another member is ahead of the system clock here. Negative: it is behind. Label member: its name.',
    ['member'],
    (gauge) => {
      gauge.reset();
      for (const { member, aheadMs } of differences()) gauge.labels(member).set(aheadMs / 1000);
    },
  );
}
