import type { Engine } from '@taskmaster/engine';
import type { Log } from '@taskmaster/engine/ports';
import type { RawService } from '@taskmaster/server/calls';
import type { StreamingService, UnaryService } from '@taskmaster/server/grpc';
import { grpcServerFor, startServer, type TestServer, type TestServerOptions } from '@taskmaster/server/testing';
import { createHandlers } from '../service/handlers.ts';
import { createNodeService } from '../service/node-service.ts';
import { FairTurns } from '../service/turns/fair-turns.ts';

const isServing = (engine: Engine) => (): boolean => engine.health.kind === 'serving' || engine.health.kind === 'full';

const serviceOf =
  (engine: Engine, front: (own: RawService) => RawService) =>
  (log: Log): RawService =>
    front(createNodeService(createHandlers(engine, log), new FairTurns()));

/** A server with the service of a node on a free port of this machine. `front` may replace or wrap the service. */
export function startNodeServer(
  engine: Engine,
  options: TestServerOptions = {},
  front: (own: RawService) => RawService = (own) => own,
  others: readonly UnaryService[] = [],
  streaming: readonly StreamingService[] = [],
): Promise<TestServer> {
  return startServer(serviceOf(engine, front), { isServing: isServing(engine), ...options }, others, streaming);
}

/** As `startNodeServer`, but not started yet. */
export const nodeServerFor = (engine: Engine, options: TestServerOptions) =>
  grpcServerFor(
    serviceOf(engine, (own) => own),
    { isServing: isServing(engine), ...options },
  ).server;
