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
