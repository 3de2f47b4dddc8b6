import {
  livez,
  type NodeHealth,
  type QueueReads,
  queuesApi,
  type Route,
  readyz,
  type ScheduleReads,
  schedulesApi,
  startupz,
} from '@taskmaster/server/http';
import type { NodeMetrics } from './metrics.ts';

export interface NodeRoutesDeps {
  readonly health: () => NodeHealth;
  readonly reads: QueueReads & ScheduleReads;
  readonly metrics: Pick<NodeMetrics, 'text' | 'contentType'>;
  readonly me: Route;
  readonly overview: Route;
}

/** The paths that a node serves over HTTP. */
export function nodeRoutes({ health, reads, metrics, me, overview }: NodeRoutesDeps): ReadonlyMap<string, Route> {
  return new Map<string, Route>([
    ['/livez', livez],
    ['/readyz', () => readyz(health())],
    ['/startupz', () => startupz(health())],
    ['/metrics', async () => ({ status: 200, type: metrics.contentType, body: await metrics.text() })],
    ['/api/me', me],
    ['/api/overview', overview],
    ['/api/queues', (query, access) => queuesApi(reads, query, access)],
    ['/api/schedules', (query, access) => schedulesApi(reads, query, access)],
  ]);
}
