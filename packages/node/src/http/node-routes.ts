import type { Error as WireError } from '@taskmaster/proto';
import type { CallerAccess } from '@taskmaster/server/access';
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
import { flowPage, type TaskReads } from './flow-page.ts';
import type { NodeMetrics } from './metrics.ts';
import type { NodeFacts } from './page-frame.ts';
import { queuesPage } from './queues-page.ts';
import { schedulesPage } from './schedules-page.ts';

export interface NodeRoutesDeps {
  readonly health: () => NodeHealth;
  readonly facts: () => NodeFacts;
  readonly reads: QueueReads & ScheduleReads & TaskReads;
  /** The system clock, in ms since 1970. */
  readonly wall: () => number;
  readonly metrics: Pick<NodeMetrics, 'text' | 'contentType'>;
  /** Turns an exception into the error that the caller sees. */
  readonly toWireError: (thrown: unknown) => WireError;
  readonly me: Route;
  readonly overview: Route;
  /** The HTTP address of the member with this gRPC address. */
  readonly httpOf: (rpcAddress: string) => string | undefined;
}

/** The paths that a node serves over HTTP. */
export function nodeRoutes({
  health,
  facts,
  reads,
  wall,
  metrics,
  toWireError,
  me,
  overview,
  httpOf,
}: NodeRoutesDeps): ReadonlyMap<string, Route> {
  const options = (query: URLSearchParams, access: CallerAccess) => ({
    reads,
    access,
    query,
    health: health(),
    facts: facts(),
    toWireError,
    httpOf,
  });
  return new Map<string, Route>([
    ['/livez', livez],
    ['/readyz', () => readyz(health())],
    ['/startupz', () => startupz(health())],
    ['/metrics', async () => ({ status: 200, type: metrics.contentType, body: await metrics.text() })],
    ['/api/me', me],
    ['/api/overview', overview],
    ['/api/queues', (query, access) => queuesApi(reads, query, access)],
    ['/api/schedules', (query, access) => schedulesApi(reads, query, access)],
    ['/', (query, access) => queuesPage(options(query, access))],
    ['/flow', (query, access) => flowPage(options(query, access))],
    ['/schedules', (query, access) => schedulesPage({ ...options(query, access), wall: wall() })],
  ]);
}
