import type { Log } from '@taskmaster/engine/ports';
import { type KeptLog, keptLog } from '@taskmaster/engine/testing';
import type { CallObserver } from '../../calls/call-observer.ts';
import type { RawService } from '../../calls/raw-service.ts';
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

export interface TestServer extends AsyncDisposable {
  readonly server: GrpcServer;
  readonly port: number;
  readonly log: KeptLog;
  readonly ended: { readonly method: string; readonly reason: string | undefined }[];
}

type GuardDeps = Pick<GrpcServerDeps, 'tls' | 'access' | 'audit' | 'identities' | 'cluster'>;

export type TestServerOptions = Partial<GrpcServerOptions> & GuardDeps & Partial<Pick<GrpcServerDeps, 'isServing'>>;

/** A service without methods, for tests of what is around it. */
export const noService: RawService = {
  unary: {},
  openStream: () => ({ read: () => [], hold: () => {}, close: () => {} }),
};

/** A server that is not started yet. `service` may need the log. */
export function grpcServerFor(
  service: RawService | ((log: Log) => RawService),
  { tls, access, audit, identities, cluster, isServing = () => true, ...options }: TestServerOptions = {},
  others: readonly UnaryService[] = [],
  streaming: readonly StreamingService[] = [],
): Omit<TestServer, 'port'> {
  const log = keptLog();
  const ended: { method: string; reason: string | undefined }[] = [];
  const observer: CallObserver = { callEnded: (method, reason) => void ended.push({ method, reason }) };
  const deps = {
    service: typeof service === 'function' ? service(log) : service,
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
export async function startServer(...given: Parameters<typeof grpcServerFor>): Promise<TestServer> {
  const created = grpcServerFor(...given);
  return { ...created, port: await created.server.start() };
}
