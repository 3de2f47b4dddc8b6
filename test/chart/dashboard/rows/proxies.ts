import type { Row } from '../panel.ts';
import { rate, series } from '../queries.ts';

/** What only proxies have. */
export const proxies: Row = {
  title: 'Proxies',
  collapsed: true,
  panels: [
    {
      title: 'Nodes that proxies know',
      description:
        'Members that may hold partitions, by whether gossip reaches them, as the proxy sees it that reaches the fewest.',
      shown: 'lines',
      unit: 'none',
      queries: { 'alive: {{alive}}': `min by (alive) (${series('proxy_nodes')})` },
      alerts: ['MemberDown'],
    },
    {
      title: 'Held calls',
      description:
        'Calls that wait at proxies for a group that moves or a node that restarts, and open streams of autoscalers.',
      shown: 'lines',
      unit: 'short',
      queries: {
        'held {{instance}}': series('proxy_held_calls'),
        'autoscalers {{instance}}': series('proxy_scaler_streams'),
      },
    },
    {
      title: 'Calls sent again, per second',
      description: 'Calls that proxies sent to another node because the group had moved, or repeated after a delay.',
      shown: 'lines',
      unit: 'reqps',
      queries: {
        'another node {{instance}}': rate(series('proxy_rerouted_total')),
        'repeated {{instance}}': rate(series('proxy_repeated_total')),
      },
      alerts: ['HolderUnreachable'],
    },
  ],
};
