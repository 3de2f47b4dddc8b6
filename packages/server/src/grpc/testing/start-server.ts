import type { TaskEngine } from '../../domain/commands.ts';
import type { Log } from '../../ports/log.ts';
import type { CallObserver } from '../../service/call-observer.ts';
import { createHandlers } from '../../service/handlers.ts';
import { createNodeService } from '../../service/node-service.ts';
import type { RawService } from '../../service/raw-service.ts';
import { FairTurns } from '../../service/turns/fair-turns.ts';
import { GrpcServer, type GrpcServerDeps, type GrpcServerOptions } from '../server.ts';
import type { StreamingService } from '../server-streams/streaming-service.ts';
import type { UnaryService } from '../unary-service.ts';

const DEFAULTS: GrpcServerOptions = {
  host: '127.0.0.1',
  port: 0,
  keepaliveTimeMs: 60_000,
  keepaliveTimeoutMs: 20_000,
  maxConnectionAgeMs: 0,
  maxConnectionAgeGraceMs: 1_000,
  maxConcurrentCallsPerConnection: 1_000,
  maxConnections: 1_000,
  maxConnectionsPerAddress: 1_000,
  maxUnreadReplyBytes: 64 * 1024 * 1024,
  maxReceivingBytes: 64 * 1024 * 1024,
  maxWaitingBytes: 64 * 1024 * 1024,
  receiveTimeoutMs: 60_000,
  reflection: true,
};

/** A log that keeps its lines. */
export interface KeptLog extends Log {
  readonly lines: { readonly level: keyof Log; readonly details: object; readonly message: string }[];
}

export function keptLog(): KeptLog {
  const lines: KeptLog['lines'] = [];
  const keep = (level: keyof Log) => (details: object, message: string) => void lines.push({ level, details, message });
  return { lines, debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') };
}

export interface TestServer extends AsyncDisposable {
  readonly server: GrpcServer;
  readonly port: number;
  readonly log: KeptLog;
  readonly ended: { readonly method: string; readonly reason: string | undefined }[];
}

type GuardDeps = Pick<GrpcServerDeps, 'tls' | 'access' | 'audit' | 'identities' | 'cluster'>;

/** A server that is not started yet. `front` may replace or wrap the service of the node. */
function createServer(
  engine: TaskEngine,
  { tls, access, audit, identities, cluster, ...options }: Partial<GrpcServerOptions> & GuardDeps = {},
  front: (own: RawService) => RawService = (own) => own,
  others: readonly UnaryService[] = [],
  streaming: readonly StreamingService[] = [],
): Omit<TestServer, 'port'> {
  const log = keptLog();
  const ended: { method: string; reason: string | undefined }[] = [];
  const observer: CallObserver = { callEnded: (method, reason) => void ended.push({ method, reason }) };
  const service = front(createNodeService(createHandlers(engine, log), new FairTurns()));
  const isServing = () => engine.health.kind === 'serving' || engine.health.kind === 'full';
  const deps = {
    service,
    others,
    streaming,
    isServing,
    observer,
    tls,
    access,
    audit,
    log,
    ...(identities !== undefined && { identities }),
    ...(cluster !== undefined && { cluster }),
  };
  const server = new GrpcServer({ ...DEFAULTS, ...options }, deps);
  return { server, log, ended, [Symbol.asyncDispose]: () => server.stop(0) };
}

/** A server on a free port of this machine. */
export async function startServer(...given: Parameters<typeof createServer>): Promise<TestServer> {
  const created = createServer(...given);
  return { ...created, port: await created.server.start() };
}

/** A server that is not started yet. */
export const grpcServerFor = (engine: TaskEngine, options: Partial<GrpcServerOptions>): GrpcServer =>
  createServer(engine, options).server;
