import type { Error as WireError } from '@taskmaster/proto';
import {
  livez,
  type NodeHealth,
  type QueueReads,
  queuesApi,
  type Route,
  readyz,
  startupz,
} from '@taskmaster/server/http';
import type { NodeMetrics } from './metrics.ts';
import { type NodeFacts, queuesPage } from './queues-page.ts';

export interface NodeRoutesDeps {
  readonly health: () => NodeHealth;
  readonly facts: () => NodeFacts;
  readonly queues: QueueReads;
  readonly metrics: Pick<NodeMetrics, 'text' | 'contentType'>;
  /** Turns an exception into the error that the caller sees. */
  readonly toWireError: (thrown: unknown) => WireError;
}

/** The paths that a node serves over HTTP. */
export function nodeRoutes({
  health,
  facts,
  queues,
  metrics,
  toWireError,
}: NodeRoutesDeps): ReadonlyMap<string, Route> {
  const page: Route = (query, access) =>
    queuesPage({ reads: queues, access, query, health: health(), facts: facts(), toWireError });
  return new Map<string, Route>([
    ['/livez', livez],
    ['/readyz', () => readyz(health())],
    ['/startupz', () => startupz(health())],
    ['/metrics', async () => ({ status: 200, type: metrics.contentType, body: await metrics.text() })],
    ['/api/queues', (query, access) => queuesApi(queues, query, access)],
    ['/', page],
  ]);
}
